"""`sidecar run` for the full parser: help, errors in words, configuration files. It starts nothing.

`sidecar.launch` comes here when the fast path (`sidecar.supervisor.options`) would not decide.
"""

import os
from collections.abc import Sequence

import click

from sidecar.cli.errors import usage_text
from sidecar.cli.parameters import config_parameter, given, settings_parameters
from sidecar.config import RUN, load_settings
from sidecar.core.errors import UsageError
from sidecar.supervisor.options import RunOptions, command_argv

_HELP = """Run a command; beat while it is silent.

\b
sidecar run [OPTIONS] [--] CMD [ARG]...
sidecar run [OPTIONS] -c STRING [NAME [ARG]...]

Its output, its exit status and its signals are the command's own. Options end at `--` or at the first word
that is none. With -c the string goes to the shell, and what follows it becomes $0, $1 and so on.

\b
Durations are like 90s, 2m, 500ms or 1h30m; a bare number is seconds.
Exit status: the command's; 124 timeout, 125 a wrong option, 126 not executable, 127 not found.
"""


def resolve_run(argv: Sequence[str]) -> RunOptions:
    """The words after `sidecar run` -> options. Raises UsageError; --help prints and raises SystemExit(0)."""
    try:
        with run.make_context("sidecar run", list(argv)) as context:
            options = run.invoke(context)
    except click.exceptions.Exit as end:
        raise SystemExit(end.exit_code) from None
    except click.ClickException as error:
        raise UsageError(usage_text(error)) from None
    assert isinstance(options, RunOptions)
    return options


def _resolve(command: tuple[str, ...], string: str | None, config_path: str | None, **values: object) -> RunOptions:
    if string is None and not command:
        raise UsageError("no command to run; give one after `--`, or a string for the shell with -c")
    settings = load_settings(given(values), os.environ, config_path).settings
    attributes = {name: getattr(settings, name) for name in type(settings).model_fields}
    return RunOptions(command_argv(settings.shell, string, list(command)), attributes)


run = click.Command(
    "run",
    params=[
        click.Option(["string", "-c"], type=click.UNPROCESSED, metavar="STRING", help="Run a string with the shell."),
        *settings_parameters(RUN),
        config_parameter(),
        click.Argument(["command"], nargs=-1, type=click.UNPROCESSED, metavar="CMD [ARG]..."),
    ],
    help=_HELP,
    short_help="Run a command; beat while it is silent.",
    callback=_resolve,
    context_settings={"allow_interspersed_args": False, "help_option_names": ["-h", "--help"]},
    options_metavar="[OPTIONS] [--]",
)
