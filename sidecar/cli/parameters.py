"""Click parameters made from the model: each option of a scope that has a flag, with its meaning as help."""

import os
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

from sidecar.config import BY_NAME, OPTIONS, Option, load_settings
from sidecar.daemon import elsewhere

F = TypeVar("F", bound=Callable[..., Any])

_METAVARS = {
    "timeout": "DURATION",
    "duration": "DURATION",
    "heartbeat": "DURATION",
    "export_interval": "DURATION",
    "identifier": "TEXT",
    "verdict_limits": "VERDICT:AGE=ACTION",
    "path": "PATH",
    "program": "PATH",
    "size": "SIZE",
    "port": "PORT",
    "count": "N",
    "descriptor": "N",
    "url": "URL",
    "trace_url": "URL",
    "protocol": "PROTOCOL",
}
# The one option that is not of the model: where the model's values are read from.
_CONFIG: tuple[list[str], dict[str, Any]] = (
    ["config_path", "--config"],
    {
        "type": click.UNPROCESSED,
        "metavar": "PATH",
        "help": "Read this file in place of the user's. [SIDECAR_CONFIG]",
    },
)


def settings_parameters(verb: str) -> list[click.Parameter]:
    """The flags that `verb` (RUN or DAEMON of sidecar.config) takes. Their values are text, or None."""
    return [_parameter(option) for option in OPTIONS if option.is_flag_of(verb)]


def settings_options(verb: str) -> Callable[[F], F]:
    """The same as a decorator of a click command; its callback takes them as `**values`, see `given`."""

    def decorate(function: F) -> F:
        for option in reversed([option for option in OPTIONS if option.is_flag_of(verb)]):
            declarations, attributes = _declared(option)
            function = click.option(*declarations, **attributes)(function)
        return function

    return decorate


def config_parameter() -> click.Option:
    return click.Option(_CONFIG[0], **_CONFIG[1])


def given(values: Mapping[str, object]) -> dict[str, str]:
    """What the user gave of the options, as text by option name, for `load_settings`."""
    names = {option.name for option in OPTIONS}
    texts = {True: "true", False: "false"}
    return {
        name: texts[value] if isinstance(value, bool) else _joined(value)
        for name, value in values.items()
        if name in names and value not in (None, ())
    }


def _joined(value: object) -> str:
    """A flag that was given more than once is one list."""
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def socket_options(function: F) -> F:
    """--socket and --config for a verb that talks to a daemon: see `daemon_socket`."""
    for declarations, attributes in (_CONFIG, _declared(BY_NAME["socket"])):
        function = click.option(*declarations, **attributes)(function)
    return function


def filter_option(function: F) -> F:
    """--filter as `text`, for a verb that lists commands: see `core.text_filter`."""
    meaning = "Only commands that have this in a program's name, an id (their trace's too) or a verdict."
    return click.option("--filter", "text", default="", metavar="TEXT", help=meaning)(function)


def daemon_socket(socket: str | None, config_path: str | None) -> str:
    """The path of the daemon's socket by flag, variable, file or default; where nobody is at the default, that of
    another daemon of this user. Raises UsageError."""
    flags = {} if socket is None else {"socket": socket}
    return elsewhere.found(os.environ, load_settings(flags, os.environ, config_path).settings.socket)


def _parameter(option: Option) -> click.Option:
    declarations, attributes = _declared(option)
    return click.Option(declarations, **attributes)


def _declared(option: Option) -> tuple[list[str], dict[str, Any]]:
    """What click wants to know of an option: its names, and the rest."""
    default = f"{option.default}; " if option.default else ""
    attributes: dict[str, Any] = {"help": f"{option.doc} [{default}{option.variable}]", "default": None}
    if option.is_switch:
        flags = f"{option.flag}/--no-{str(option.flag)[2:]}"
        return [option.name, flags], {**attributes, "is_flag": True}
    attributes |= {"type": click.UNPROCESSED, "metavar": _METAVARS[option.kind], "multiple": option.is_repeatable}
    return [option.name, str(option.flag)], attributes
