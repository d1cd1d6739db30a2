"""The configuration: one pydantic model that names every option once.

Each field of `Settings` carries the option's name, kind, default, scope and meaning; flag (`--kill-after`) and
variable (`SIDECAR_KILL_AFTER`) follow from the name. Everything else is derived from it: the click parameters,
the table of the fast path (`python -m sidecar.config --write-schema`), docs/configuration.md.

Precedence: flag, SIDECAR_* variable, the user's file (or the one given by --config or SIDECAR_CONFIG, in its
place), /etc/sidecar/config.toml, default. Never a file of the working folder. An empty variable is as good as
none. A variable that a flag overrides is not looked at; files are validated as a whole.
"""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, ClassVar, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator

from sidecar import config_files
from sidecar.core.errors import UsageError
from sidecar.core.values import PARSERS, as_text, shown

RUN: Final = "run"
DAEMON: Final = "daemon"
BOTH: Final = "both"

PREFIX: Final = "SIDECAR_"
CONFIG_VARIABLE: Final = "SIDECAR_CONFIG"
# Set or read by the sidecar, but no options: never reported as unknown.
OTHER_VARIABLES: Final = (CONFIG_VARIABLE, "SIDECAR_ACTIVE")


@dataclass(frozen=True)
class Option:
    """What is known of one option. `attribute` is its name in Settings, which carries the unit."""

    name: str
    attribute: str
    kind: str
    default: str
    scope: str
    doc: str
    has_flag: bool
    secret: bool

    @property
    def variable(self) -> str:
        return PREFIX + self.name.upper()

    @property
    def flag(self) -> str | None:
        return "--" + self.name.replace("_", "-") if self.has_flag else None

    @property
    def is_switch(self) -> bool:
        """A flag without a value, with a --no- form."""
        return self.kind in ("bool", "pty")


def _option(  # noqa: PLR0913 - a row of a table
    kind: str, default: str, scope: str, doc: str, *, name: str | None = None, flag: bool = True, secret: bool = False
) -> Any:
    extra: dict[str, Any] = {"kind": kind, "scope": scope, "flag": flag, "secret": secret}
    return Field(default=default, alias=name, description=doc, json_schema_extra=extra)


class Settings(BaseModel):
    """Every option, validated. Made from text by option name; durations are nanoseconds."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)
    options: ClassVar[tuple[Option, ...]]

    timeout_ns: int | None = _option(
        "timeout", "0", RUN, "Stop the command after this long; 0 = never.", name="timeout"
    )
    kill_after_ns: int = _option(
        "duration", "5s", RUN, "From TERM to KILL when a command is stopped.", name="kill_after"
    )
    heartbeat_interval_ns: int = _option(
        "heartbeat", "10s", RUN, "Beat after this long without output; 0 = never.", name="heartbeat_interval"
    )
    pty: bool | None = _option(
        "pty", "auto", RUN, "Run the command on a pseudo-terminal; auto = if the sidecar's stdout is a terminal."
    )
    tool_call_id: str | None = _option("identifier", "", RUN, "The agent's id of this tool call, in every frame.")
    tool_name: str | None = _option("identifier", "", RUN, "The agent's name of the tool.")
    session_id: str | None = _option("identifier", "", RUN, "The agent's id of its session.")
    inline: bool = _option("bool", "false", RUN, "Send telemetry from this process instead of through a daemon.")
    shell: str = _option("program", "/bin/sh", RUN, "The shell that runs the string of -c.")
    drain_grace_ns: int = _option(
        "duration",
        "100ms",
        RUN,
        "How long to read on after the command's end while a background process holds its output open.",
        name="drain_grace",
    )
    capture_command: bool = _option(
        "bool", "false", RUN, "Put the command line, redacted, into telemetry; else only the program's name."
    )
    socket: str | None = _option(
        "path", "", BOTH, "The daemon's socket; empty = in $XDG_RUNTIME_DIR/sidecar, else under the temporary folder."
    )
    log: str | None = _option("path", "", RUN, "A file for the sidecar's own diagnostics; empty = none.")
    daemon_idle_timeout_ns: int | None = _option(
        "timeout", "10m", DAEMON, "The daemon ends after this long without a command; 0 = never.",
        name="daemon_idle_timeout",
    )  # fmt: skip
    daemon_log: str | None = _option("path", "", DAEMON, "A file for the daemon's log; empty = none.")
    daemon_environment: tuple[str, ...] = _option(
        "names", "", BOTH, "Further environment variables that the daemon may see, by name.", flag=False
    )
    families: tuple[str, ...] = _option(
        "families", "", DAEMON, "Programs that metrics tell apart, the others are `other`; empty = the built-in list.",
        flag=False,
    )  # fmt: skip
    prometheus_port: int = _option("port", "0", DAEMON, "Serve /metrics on this port of the loopback; 0 = off.")
    otlp_endpoint: str | None = _option(
        "url", "", BOTH, "Where to send OTLP; empty = the OTEL_EXPORTER_OTLP_* variables, else localhost."
    )
    otlp_protocol: str = _option("protocol", "http/protobuf", BOTH, "How to send OTLP: http/protobuf or grpc.")
    otlp_headers: Mapping[str, str] = _option(
        "headers", "", BOTH, "Headers of OTLP requests; a secret, so there is no flag.", flag=False, secret=True
    )
    metric_export_interval_ns: int = _option(
        "export_interval", "10s", BOTH, "How often metrics are sent.", name="metric_export_interval"
    )

    @field_validator("*", mode="plain")
    @classmethod
    def _parse(cls, value: str, info: ValidationInfo) -> object:
        extra = cls.model_fields[str(info.field_name)].json_schema_extra
        if not isinstance(value, str) or not isinstance(extra, dict):
            raise ValueError("text")  # noqa: TRY004 - pydantic wants ValueError
        return PARSERS[str(extra["kind"])](value)


def _options() -> Iterable[Option]:
    for attribute, info in Settings.model_fields.items():
        extra: Any = info.json_schema_extra
        yield Option(
            name=info.alias or attribute,
            attribute=attribute,
            kind=extra["kind"],
            default=info.default,
            scope=extra["scope"],
            doc=str(info.description),
            has_flag=extra["flag"],
            secret=extra["secret"],
        )


OPTIONS: Final = tuple(_options())
BY_NAME: Final = {option.name: option for option in OPTIONS}


@dataclass(frozen=True)
class Resolved:
    """The settings that hold, and for each option where its text came from.

    origin   option -> flag, name of a variable, path of a file, or "default"
    text     option -> the text that was read (of a secret too: mask it before showing)
    problems what is wrong, one line each; only `inspect_settings` gives any, and then `settings` has the
             defaults in place of what is wrong
    """

    settings: Settings
    origin: Mapping[str, str]
    text: Mapping[str, str]
    problems: tuple[str, ...] = field(default=())


def load_settings(
    flags: Mapping[str, str] = {},  # noqa: B006 - read only
    environ: Mapping[str, str] = os.environ,
    config_path: str | None = None,
) -> Resolved:
    """Resolve every option. `flags`: option name -> text; `config_path`: what --config says.

    Raises UsageError: one line that names the option, where the value came from, the value and what is
    allowed. As a side effect leaves the compiled snapshot of the files for the fast path; fails silently.
    """
    resolved = inspect_settings(flags, environ, config_path)
    if resolved.problems:
        raise UsageError(resolved.problems[0])
    return resolved


def inspect_settings(
    flags: Mapping[str, str] = {},  # noqa: B006 - read only
    environ: Mapping[str, str] = os.environ,
    config_path: str | None = None,
) -> Resolved:
    """As `load_settings`, but collects what is wrong instead of raising."""
    problems: list[str] = []
    text: dict[str, str] = {}
    origin: dict[str, str] = {}
    for name, value in flags.items():
        text[name], origin[name] = value, BY_NAME[name].flag or name
    for option in OPTIONS:
        value = environ.get(option.variable, "")
        if value and option.name not in text:
            text[option.name], origin[option.name] = value, option.variable
    problems += _problems(text, origin)

    stored: dict[str, str] = {}
    try:
        files = config_files.read_all(environ, config_path)
    except UsageError as error:
        files = []
        problems.append(str(error))
    for file in files:
        values, wrong = _texts(file.path, file.values)
        problems += wrong
        wrong = _problems(values, dict.fromkeys(values, file.path), in_file=True)
        problems += wrong
        for name, value in values.items():
            stored.setdefault(name, value)
            if name not in text:
                text[name], origin[name] = value, file.path
    if not problems:
        config_files.write_snapshot(environ, files, {name: stored[name] for name in stored if _is_run(name)})
    for option in OPTIONS:
        if option.name not in text:
            text[option.name], origin[option.name] = option.default, "default"
    settings = Settings.model_validate(text) if not problems else Settings()
    return Resolved(settings, origin, text, tuple(problems))


def unknown_variables(environ: Mapping[str, str]) -> list[str]:
    """SIDECAR_* variables that are no option: a slip of the pen, most likely."""
    known = {option.variable for option in OPTIONS} | set(OTHER_VARIABLES)
    return sorted(name for name in environ if name.startswith(PREFIX) and name not in known)


def closest(name: str, names: Iterable[str]) -> str:
    """`; did you mean X?`, or nothing."""
    matches = get_close_matches(name, list(names), 1)
    return f"; did you mean {matches[0]}?" if matches else ""


def _is_run(name: str) -> bool:
    option = BY_NAME[name]
    return option.scope != DAEMON and not option.secret


def _texts(path: str, values: Mapping[str, object]) -> tuple[dict[str, str], list[str]]:
    """The values of a file as text, and what is wrong with their names and types."""
    texts: dict[str, str] = {}
    problems = []
    for name, native in values.items():
        if name not in BY_NAME:
            problems.append(f"{path}: unknown option {shown(name)}{closest(name, BY_NAME)}")
            continue
        try:
            texts[name] = as_text(BY_NAME[name].kind, native)
        except ValueError as error:
            problems.append(_complaint(BY_NAME[name], f"{path}: {name}", str(native), str(error)))
    return texts, problems


def _problems(values: Mapping[str, str], origin: Mapping[str, str], *, in_file: bool = False) -> list[str]:
    """What the model has against these values."""
    try:
        Settings.model_validate(dict(values))
    except ValidationError as error:
        return [
            _complaint(
                BY_NAME[name],
                f"{origin[name]}: {name}" if in_file else origin[name],
                values[name],
                str(detail["ctx"]["error"]),
            )
            for detail in error.errors(include_url=False)
            for name in (str(detail["loc"][0]),)
        ]
    return []


def _complaint(option: Option, where: str, value: str, allowed: str) -> str:
    what = "the value" if option.secret else shown(value)
    return f"{where}: {what} is not allowed; use {allowed}"


def render_schema() -> str:
    """The text of sidecar/supervisor/_schema.py."""
    lines = [
        '"""The options of `sidecar run`, generated from sidecar.config by `python -m sidecar.config --write-schema`."""',
        "",
        "# name, attribute of Settings, flag of `sidecar run`, variable, kind, default",
        "OPTIONS: tuple[tuple[str, str, str | None, str, str, str], ...] = (",
    ]
    for option in OPTIONS:
        flag = f'"{option.flag}"' if option.flag and option.scope in (RUN, BOTH) else None
        lines.append(
            f'    ("{option.name}", "{option.attribute}", {flag}, "{option.variable}", "{option.kind}", "{option.default}"),'
        )
    return "\n".join([*lines, ")", ""])


if __name__ == "__main__":
    import sys

    if sys.argv[1:] != ["--write-schema"]:
        sys.exit("usage: python -m sidecar.config --write-schema")
    target = os.path.join(os.path.dirname(os.path.abspath(__file__)), "supervisor", "_schema.py")
    with open(target, "w", encoding="utf-8") as stream:
        stream.write(render_schema())
