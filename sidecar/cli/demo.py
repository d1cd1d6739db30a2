"""`sidecar demo`: three commands, a private daemon and an OTLP receiver; shows what an operator would get, live.

It is a check as well: the exit code is 0 only if everything that should have arrived did, and the live spans
before the end of their commands.
"""

import signal
from types import FrameType
from typing import Final

import click

from sidecar.core.errors import SidecarError

_ENDING_SIGNALS: Final = (signal.SIGTERM, signal.SIGHUP)


class _Ended(BaseException):
    """A signal asked for the end: everything is unwound, and cleaned up, as for Ctrl-C."""

    def __init__(self, number: int) -> None:
        self.exit_code = 128 + number


@click.command()
@click.option("--scale", type=click.FloatRange(0.05, 10.0), default=1.0, hidden=True, help="Factor of all durations.")
def demo(scale: float) -> int:
    """Run three commands side by side - one that talks, one that is silent, one that hangs - and show the frames,
    spans, metrics and log events that arrive while they run.

    Needs nothing but this package: the daemon and the OTLP receiver are its own, and are gone when it ends, after
    about half a minute. The exit code is 1 if something that should have arrived did not.
    """
    # Here, not above: these load the OTLP messages and rich, which `sidecar --help` can do without.
    from sidecar.cli.demo_play import perform
    from sidecar.cli.demo_screen import Screen

    for number in _ENDING_SIGNALS:
        signal.signal(number, _end)
    try:
        with Screen() as screen:
            missing = perform(screen, scale)
    except KeyboardInterrupt:
        click.echo("interrupted; all that the demo had started is ended, and its folder removed", err=True)
        return 128 + signal.SIGINT
    except _Ended as end:
        return end.exit_code
    except BrokenPipeError:
        raise  # nobody reads any more, which is no fault: the root of the command line knows what to do
    except (SidecarError, OSError) as error:
        missing = [str(error)]
    if missing:
        click.echo(f"sidecar demo: {'; '.join(missing)}", err=True)
        return 1
    return 0


def _end(number: int, frame: FrameType | None) -> None:
    raise _Ended(number)
