"""`sidecar config`: what holds, where it came from, what is wrong. Changes nothing (but the compiled snapshot)."""

import json
import os

import click

from sidecar import config_files
from sidecar.cli.errors import EXIT_USAGE, complain
from sidecar.cli.parameters import config_parameter
from sidecar.config import OPTIONS, Option, Resolved, closest, inspect_settings, load_settings, unknown_variables
from sidecar.core import snapshot
from sidecar.core.duration import format_duration
from sidecar.core.errors import UsageError
from sidecar.core.values import printable
from sidecar.supervisor.options import stored_values

HIDDEN = "(hidden)"


@click.group("config")
def config() -> None:
    """Explain the configuration.

    Precedence: flag, SIDECAR_* variable, the user's file, /etc/sidecar/config.toml, default.
    """


def _show(config_path: str | None, as_json: bool) -> None:
    """Each option: its value, and where that came from."""
    resolved = load_settings({}, os.environ, config_path)
    if as_json:
        click.echo(json.dumps({option.name: _row(option, resolved) for option in OPTIONS}, indent=2))
        return
    rows = [(option.name, _text(_row(option, resolved)["value"]), _origin(option, resolved)) for option in OPTIONS]
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    for name, value, origin in rows:
        click.echo(f"{name:{widths[0]}}  {value:{widths[1]}}  {origin}")


def _check(config_path: str | None) -> int:
    """Validate files and variables; report what is wrong, one line each. Exit 0 or 125."""
    resolved = inspect_settings({}, os.environ, config_path)
    for problem in resolved.problems:
        complain(problem)
    for name in unknown_variables(os.environ):
        complain(
            f"{name}: no such option; the variable is ignored{closest(name, [option.variable for option in OPTIONS])}"
        )
    if resolved.problems:
        return EXIT_USAGE
    read = [file.path for file in config_files.read_all(os.environ, config_path)]
    click.echo(f"valid; files: {printable(', '.join(read)) or 'none'}")
    return 0


def _path(config_path: str | None) -> None:
    """Which files are looked at, strongest first; and their snapshot."""
    for role, path in config_files.candidates(os.environ, config_path):
        click.echo(f"{role:8}  {printable(path)}  {_state_of(role, path)}")
    compiled = snapshot.snapshot_file(os.environ)
    if compiled is not None:
        click.echo(f"{'snapshot':8}  {printable(compiled)}  {_state_of_snapshot(compiled)}")


def _row(option: Option, resolved: Resolved) -> dict[str, object]:
    value = getattr(resolved.settings, option.attribute)
    if option.secret:
        value = HIDDEN if value else None
    elif option.attribute.endswith("_ns"):
        value = _duration(value)
    elif option.kind == "pty" and value is None:
        value = "auto"
    return {"value": value, "from": resolved.origin[option.name]}


def _duration(value_ns: int | None) -> str:
    """In words; 0 (and the None of a timeout) as 0s."""
    return format_duration(value_ns or 0)


def _text(value: object) -> str:
    if value is None or value == ():
        return "-"
    if isinstance(value, bool):
        return "true" if value else "false"
    return printable(",".join(value) if isinstance(value, tuple) else str(value))


def _origin(option: Option, resolved: Resolved) -> str:
    return printable(resolved.origin[option.name])


def _state_of(role: str, path: str) -> str:
    try:
        file = config_files.read(path, required=role == "explicit")
    except UsageError as error:
        return f"refused: {str(error).removeprefix(printable(path) + ': ')}"
    return "absent" if file is None else "read"


def _state_of_snapshot(path: str) -> str:
    if not os.path.exists(path):
        return "absent"
    return "not valid now" if stored_values(os.environ) is None else "valid"


def _json_flag() -> click.Option:
    return click.Option(["as_json", "--json"], is_flag=True, help="For programs.")


config.add_command(click.Command("show", params=[_json_flag(), config_parameter()], callback=_show, help=_show.__doc__))
config.add_command(click.Command("check", params=[config_parameter()], callback=_check, help=_check.__doc__))
config.add_command(click.Command("path", params=[config_parameter()], callback=_path, help=_path.__doc__))
