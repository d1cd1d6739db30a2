"""The configuration: every option resolved, and for each where its value came from.

Precedence: flag, SIDECAR_* variable, the user's file (or the one given by --config or SIDECAR_CONFIG, in its
place), /etc/sidecar/config.toml, default. Never a file of the working folder. An empty variable is as good as
none. A variable that a flag overrides is not looked at; files are validated as a whole.

`python -m sidecar.config --write-schema | --write-docs` writes what is derived from the model.
"""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Final

from pydantic import ValidationError

from sidecar import config_files
from sidecar.config_model import BOTH, BY_NAME, DAEMON, OPTIONS, PREFIX, RUN, Option, Settings
from sidecar.core.errors import UsageError
from sidecar.core.values import as_text, shown

__all__ = [
    "BOTH",
    "BY_NAME",
    "DAEMON",
    "OPTIONS",
    "RUN",
    "Option",
    "Resolved",
    "Settings",
    "inspect_settings",
    "load_settings",
    "unknown_variables",
]

# Set or read by the sidecar, but no options: never reported as unknown.
OTHER_VARIABLES: Final = ("SIDECAR_CONFIG", "SIDECAR_ACTIVE")


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
    flags: Mapping[str, str] = {},
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
    flags: Mapping[str, str] = {},
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
            problems.append(_complaint(BY_NAME[name], f"{path}: {name}", _as_written(native), str(error)))
    return texts, problems


def _as_written(native: object) -> str:
    """A value as the file has it, not as Python shows it."""
    return str(native).lower() if isinstance(native, bool) else str(native)


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


if __name__ == "__main__":
    import sys

    from sidecar.config_tables import write

    write(sys.argv[1:])
