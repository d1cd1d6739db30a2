"""The root of the command line, `sidecar`: verbs that are loaded when they are called.

To add a verb: a module in this folder with a click command, and a line in VERBS.
"""

import os
import sys
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, TypeVar

import click

from sidecar import __version__
from sidecar.cli.errors import (
    EXIT_BROKEN_PIPE,
    EXIT_INTERRUPTED,
    EXIT_USAGE,
    complain,
    drop_stdout,
    unwritable_text,
    usage_text,
)
from sidecar.core.errors import SidecarError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sidecar.supervisor.options import RunOptions

T = TypeVar("T")

# What a group without a verb raises from click 8.2 on, with the help as its text; 8.1 prints that itself.
_NO_ARGUMENTS = getattr(click.exceptions, "NoArgsIsHelpError", ())

# verb: (module:attribute, what it does). In the order of the help.
VERBS = {
    "run": ("sidecar.cli.run:run", "Run a command; beat while it is silent."),
    "watch": ("sidecar.cli.watch:watch", "Follow the frames of running commands, one JSON object a line."),
    "ps": ("sidecar.cli.ps:ps", "List what runs now: for how long, and how old its output is."),
    "history": ("sidecar.cli.history:history", "What ran here lately, with verdicts and the longest silence."),
    "top": ("sidecar.top.verb:top", "A live view of what runs: age, silence, verdict, output, CPU."),
    "explain": ("sidecar.cli.explain:explain", "Say why a running command is silent, and what to do."),
    "why": ("sidecar.cli.why:why", "Say the same of any process of yours, by its pid."),
    "cancel": ("sidecar.cli.cancel:cancel", "Stop a running command, and say what came of it."),
    "setup": ("sidecar.cli.setup:setup", "Have an agent run its shell through the sidecar; or no longer."),
    "doctor": ("sidecar.cli.doctor:doctor", "Check the whole chain, and say how to mend it."),
    "bridge": ("sidecar.cli.bridge:bridge", "Stand between a client and its agent, and add the heartbeats."),
    "conformance": (
        "sidecar.cli.conformance:conformance",
        "Check what a consumer does with heartbeats, or a recorded stream of them.",
    ),
    "config": ("sidecar.cli.config:config", "Explain the configuration: show, check, path."),
    "daemon": ("sidecar.cli.daemon:daemon", "Run, start, stop and ask the daemon."),
    "spool": ("sidecar.cli.spool:spool", "What no Collector has taken yet: status, flush, clear."),
    "demo": ("sidecar.cli.demo:demo", "See it work: three commands, their frames, spans and metrics."),
}


class LazyGroup(click.Group):
    """A group that imports a verb's module only to run it, and does not list a verb that is not installed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [verb for verb, (target, _) in VERBS.items() if find_spec(target.partition(":")[0])]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.list_commands(ctx):
            return None
        module, _, attribute = VERBS[cmd_name][0].partition(":")
        command = getattr(import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(verb, VERBS[verb][1]) for verb in self.list_commands(ctx)])


@click.group(
    "sidecar",
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Heartbeats, metrics and traces for the shell commands that coding agents run.",
)
@click.version_option(__version__, prog_name="sidecar", message="%(prog)s %(version)s")
def root() -> None:
    pass


def main(argv: "Sequence[str]") -> int:
    """Run the verb that `argv` (without the program's name) asks for. Returns the exit status; never raises.

    `run` is not for here: `sidecar.launch` gives its words to `resolve_run`, and starts the command itself.
    """
    _open_standard_streams()
    result = _guarded(lambda: _invoke(argv))
    if result is None or isinstance(result, int):
        return result or 0
    complain("`sidecar run` starts in sidecar.launch; this is only its parser")
    return EXIT_USAGE


def _open_standard_streams() -> None:
    """A stream that we were started without (`>&-`) is /dev/null: no file of ours must get its number."""
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # the lowest number that is free: this one
    if sys.stdout is None:
        sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", encoding="utf-8", closefd=False)


def resolve_run_or_exit_code(argv: "Sequence[str]") -> "RunOptions | int":
    """The words after `sidecar run` -> options; an exit status once help or a complaint was printed. Never raises."""
    return _guarded(lambda: resolve_run(argv))


def _invoke(argv: "Sequence[str]") -> object:
    with root.make_context("sidecar", list(argv)) as context:
        return root.invoke(context)


def _guarded(work: "Callable[[], T]") -> "T | int":
    """What `work` returns, or the exit status after whatever it raised was said in one line."""
    try:
        result = work()
        if sys.stdout is not None:  # `>&-`
            sys.stdout.flush()
    except click.exceptions.Exit as end:
        return end.exit_code
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0
    except click.ClickException as error:
        if isinstance(error, _NO_ARGUMENTS):
            click.echo(error.format_message())
            return 0
        complain(usage_text(error))
        return EXIT_USAGE
    except SidecarError as error:
        complain(str(error))
        return EXIT_USAGE
    except (KeyboardInterrupt, click.Abort):
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        drop_stdout()
        return EXIT_BROKEN_PIPE
    except OSError as error:
        complain(unwritable_text(error))
        drop_stdout()
        return EXIT_USAGE
    return result


def resolve_run(argv: "Sequence[str]") -> "RunOptions":
    """See `sidecar.cli.run.resolve_run`."""
    from sidecar.cli.run import resolve_run

    return resolve_run(argv)
