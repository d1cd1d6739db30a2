"""How the demo shows itself: coloured lines over a live table on a terminal, else plain lines."""

from collections.abc import Sequence
from types import TracebackType
from typing import Final, Self

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from sidecar.cli.demo_story import EXIT, FRAME, LOG, METRIC, SPAN, Fact, Part

_COLOURS: Final = {FRAME: "green", SPAN: "cyan", METRIC: "magenta", LOG: "blue", EXIT: "yellow"}

_REDRAW_S: Final = 0.5


class Screen:
    """A context manager. On a terminal the table of the commands stays at the bottom while lines go by."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(highlight=False, soft_wrap=True)
        self._live: Live | None = None
        self._drawn_s = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end_table()

    def note(self, text: str) -> None:
        self._print(Text(text))

    def fact(self, fact: Fact) -> None:
        line = Text(f"{fact.at_s:6.1f} s  ")
        line.append(f"{fact.source:<7}", style=_COLOURS[fact.source])
        line.append(f"{fact.who:<7} ", style="bold")
        line.append(fact.text)
        self._print(line)

    def table(self, parts: Sequence[Part], now_s: float) -> None:
        """The commands as they are now. Without a terminal there is no table."""
        if not self._console.is_terminal:
            return
        if self._live is None:
            self._live = Live(console=self._console, auto_refresh=False, transient=True)
            self._live.start()
        elif now_s - self._drawn_s < _REDRAW_S:
            return
        self._drawn_s = now_s
        self._live.update(_table(parts, now_s), refresh=True)

    def end_table(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _print(self, line: Text) -> None:
        # Not wrapped: a line stays a line, for grep and for a narrow terminal's own wrapping.
        self._console.print(line, soft_wrap=True)
        if not self._console.is_terminal:
            # Live also where stdout is a pipe, which Python would else buffer.
            self._console.file.flush()


def _table(parts: Sequence[Part], now_s: float) -> Table:
    table = Table(title_justify="left", expand=False)
    for heading in ("", "command", "state", "elapsed", "heartbeats", "live spans"):
        table.add_column(heading, justify="right" if heading in ("elapsed", "heartbeats", "live spans") else "left")
    for part in parts:
        elapsed_s = now_s if part.ended_s is None else part.ended_s
        state = "running" if part.exit_code is None else f"exit {part.exit_code}"
        table.add_row(
            Text(part.name, style="bold"),
            Text(part.shown_command),
            Text(state, style="yellow" if part.exit_code else "green"),
            f"{elapsed_s:.0f} s",
            str(part.beat_frames),
            str(part.live_spans),
        )
    return table
