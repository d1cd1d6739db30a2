"""The one pydantic model that names every option once.

Each field of `Settings` carries the option's name, kind, default, scope and meaning; flag (`--kill-after`)
and variable (`SIDECAR_KILL_AFTER`) follow from the name. Everything else is derived from it: the click
parameters, the table of the fast path, the one in docs/configuration.md.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator

from sidecar.core.values import PARSERS

RUN: Final = "run"
DAEMON: Final = "daemon"
BOTH: Final = "both"

PREFIX: Final = "SIDECAR_"


@dataclass(frozen=True)
class Option:
    """What is known of one option. `attribute` is its name in Settings, which carries the unit."""

    name: str
    attribute: str
    kind: str
    default: str
    scope: str
    doc: str
    flag_of: str
    secret: bool

    @property
    def variable(self) -> str:
        return PREFIX + self.name.upper()

    @property
    def flag(self) -> str | None:
        return "--" + self.name.replace("_", "-") if self.flag_of else None

    def is_flag_of(self, verb: str) -> bool:
        """Whether `sidecar run` (verb RUN), or the daemon, takes the flag."""
        return self.flag_of in (verb, BOTH)

    @property
    def is_switch(self) -> bool:
        """A flag without a value, with a --no- form."""
        return self.kind in ("bool", "pty")

    @property
    def is_repeatable(self) -> bool:
        """A flag that may be given more than once: each time adds to the list."""
        return self.kind == "verdict_limits"


def _option(
    kind: str,
    default: str,
    scope: str,
    doc: str,
    *,
    name: str | None = None,
    flag_of: str | None = None,
    secret: bool = False,
) -> Any:
    """`name` where it is not the attribute's; `flag_of`: the verb that takes the flag, if it is not `scope`."""
    extra: dict[str, Any] = {
        "kind": kind,
        "scope": scope,
        "flag_of": scope if flag_of is None else flag_of,
        "secret": secret,
    }
    return Field(default=default, alias=name, description=doc, json_schema_extra=extra)


class Settings(BaseModel):
    """Every option, validated. Made from text by option name; durations are nanoseconds."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)

    timeout_ns: int | None = _option(
        "timeout", "0", RUN, "Stop the command after this long; 0 = never.", name="timeout"
    )
    kill_after_ns: int = _option(
        "duration", "5s", RUN, "From TERM to KILL when a command is stopped.", name="kill_after"
    )
    silence_timeout_ns: int | None = _option(
        "timeout", "0", RUN, "Stop the command after this long without output; 0 = never.", name="silence_timeout"
    )
    heartbeat_interval_ns: int = _option(
        "heartbeat", "10s", RUN, "Beat after this long without output; 0 = never.", name="heartbeat_interval"
    )
    verdicts: bool = _option("bool", "true", RUN, "Look why a command is silent.")
    verdict_after_ns: int = _option(
        "duration", "2s", RUN, "Look why the command is silent after this long without output.", name="verdict_after"
    )
    on_verdict: tuple[tuple[str, int, str], ...] = _option(
        "verdict_limits",
        "",
        RUN,
        "What to do once a verdict has held for so long: `awaiting_input:60s=cancel`, `may_be_hung:10m=report`; may be "
        "given more than once, and empty (`''`) for none.",
    )
    pty: bool | None = _option(
        "pty", "auto", RUN, "Run the command on a pseudo-terminal; auto = if stdout is a terminal."
    )
    tool_call_id: str | None = _option("identifier", "", RUN, "The agent's id of the tool call, in every frame.")
    tool_name: str | None = _option("identifier", "", RUN, "The agent's name of the tool.")
    session_id: str | None = _option("identifier", "", RUN, "The agent's id of its session.")
    bridge_id: str | None = _option(
        "identifier", "", RUN, "Set by `sidecar bridge` for its agent, so that it knows the commands.", flag_of=""
    )
    inline: bool = _option("bool", "false", RUN, "Send telemetry from this process, not through a daemon.")
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
        "path", "", BOTH, "The daemon's socket; empty = in $XDG_RUNTIME_DIR/sidecar, else in the temporary folder."
    )
    frames_fd: int | None = _option(
        "descriptor",
        "",
        RUN,
        "An open descriptor, to which this command's frames go too (docs/wire.md); empty = none.",
    )
    log: str | None = _option("path", "", RUN, "A file for the sidecar's own diagnostics; empty = none.")
    daemon_idle_timeout_ns: int | None = _option(
        "timeout",
        "10m",
        DAEMON,
        "The daemon ends after this long without a command; 0 = never.",
        name="daemon_idle_timeout",
    )
    daemon_log: str | None = _option("path", "", DAEMON, "A file for the daemon's log; empty = none.")
    daemon_environment: tuple[str, ...] = _option(
        "names", "", BOTH, "Further environment variables that the daemon may see, by name.", flag_of=""
    )
    families: tuple[str, ...] = _option(
        "families",
        "",
        DAEMON,
        "Programs that metrics tell apart, the others are `other`; empty = the built-in list.",
        flag_of="",
    )
    suspect_after_ns: int = _option(
        "duration",
        "60s",
        DAEMON,
        "A command that needs someone (a prompt, a lock, a stop) for this long may be hung, for metrics and logs.",
        name="suspect_after",
        flag_of="",
    )
    prometheus_port: int = _option("port", "0", DAEMON, "Serve /metrics on this port of the loopback; 0 = off.")
    otlp_endpoint: str | None = _option(
        "url",
        "",
        BOTH,
        "Where to send OTLP; empty = the OTEL_EXPORTER_OTLP_* variables, else localhost.",
        flag_of=DAEMON,
    )
    otlp_protocol: str = _option(
        "protocol", "http/protobuf", BOTH, "How to send OTLP: http/protobuf or grpc.", flag_of=DAEMON
    )
    otlp_headers: Mapping[str, str] = _option(
        "headers", "", BOTH, "Headers of OTLP requests; a secret, so there is no flag.", flag_of="", secret=True
    )
    metric_export_interval_ns: int = _option(
        "export_interval",
        "10s",
        BOTH,
        "How often metrics are sent.",
        name="metric_export_interval",
        flag_of=DAEMON,
    )

    spool: str | None = _option(
        "path",
        "",
        BOTH,
        "The file for what no Collector took yet; empty = in $XDG_STATE_HOME/sidecar, else ~/.local/state/sidecar.",
        flag_of=DAEMON,
    )
    spool_max_bytes: int = _option(
        "size", "64MiB", BOTH, "How much it may hold, the oldest goes first; 0 = there is none.", flag_of=DAEMON
    )
    spool_max_age_ns: int = _option(
        "duration",
        "168h",
        BOTH,
        "What has waited for longer is dropped.",
        name="spool_max_age",
        flag_of=DAEMON,
    )

    history: str | None = _option(
        "path",
        "",
        DAEMON,
        "The file for what ran lately; empty = history.db in $XDG_STATE_HOME/sidecar, else ~/.local/state/sidecar.",
        flag_of="",
    )
    history_max_commands: int = _option(
        "count", "10000", DAEMON, "How many commands it keeps, the oldest goes first; 0 = there is none.", flag_of=""
    )

    trace_url: str | None = _option(
        "trace_url",
        "http://localhost:16686/trace/{traceId}",
        DAEMON,
        "Where a trace is to be seen, with {traceId} in it, for links on the web page; empty = no links.",
        flag_of="",
    )

    @field_validator("*", mode="plain")
    @classmethod
    def _parse(cls, value: str, info: ValidationInfo) -> object:
        extra = cls.model_fields[str(info.field_name)].json_schema_extra
        if not isinstance(value, str) or not isinstance(extra, dict):
            raise ValueError("text")
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
            flag_of=extra["flag_of"],
            secret=extra["secret"],
        )


OPTIONS: Final = tuple(_options())
BY_NAME: Final = {option.name: option for option in OPTIONS}
