"""The terminal of `sidecar top`: keys as they are pressed, the alternate screen, what it was given back at the end."""

import os
import signal
import sys
import termios
import tty
from types import FrameType, TracebackType
from typing import Any, Self

from rich.console import Console
from rich.text import Text

from sidecar.top.view import Size

_ENTER = "\x1b[?1049h\x1b[?25l\x1b[2J"
_LEAVE = "\x1b[?25h\x1b[?1049l"


class Screen:
    """A context manager. `descriptor` gives keys. `woken` gets a byte for each signal that wants a new picture (the
    window's size, going on after Ctrl-Z). Ctrl-C and TERM end the block, and the terminal is as it was."""

    def __init__(self, *, colour: bool) -> None:
        self.descriptor = sys.stdin.fileno()
        self.woken, self._wake = os.pipe()
        os.set_blocking(self._wake, False)
        os.set_blocking(self.woken, False)
        self._settings: list[Any] | None = None
        self._handlers: dict[int, Any] = {}
        self._colour = colour

    def size(self) -> Size:
        try:
            columns, lines = os.get_terminal_size(sys.stdout.fileno())
        except OSError:
            return Size(80, 24)
        return Size(columns or 80, lines or 24)

    def show(self, lines: list[Text]) -> None:
        """The whole picture: each line over the one that was there, without a blank in between."""
        size = self.size()
        drawn = [ansi(line, size.columns, colour=self._colour) for line in lines[: size.lines]]
        text = "\x1b[H" + "\x1b[K\r\n".join(drawn) + "\x1b[K\x1b[J"
        os.write(sys.stdout.fileno(), text.encode(sys.stdout.encoding or "utf-8", "replace"))

    def __enter__(self) -> Self:
        self._enter()
        for number in (signal.SIGWINCH, signal.SIGCONT):
            self._handlers[number] = signal.signal(number, self._on_signal)
        self._handlers[signal.SIGTSTP] = signal.signal(signal.SIGTSTP, self._on_stop)
        self._handlers[signal.SIGTERM] = signal.signal(signal.SIGTERM, self._on_term)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        self._leave()
        os.close(self._wake)
        os.close(self.woken)

    def _enter(self) -> None:
        self._settings = termios.tcgetattr(self.descriptor)
        tty.setcbreak(self.descriptor, termios.TCSADRAIN)
        self._write(_ENTER)

    def _leave(self) -> None:
        self._write(_LEAVE)
        if self._settings is not None:
            termios.tcsetattr(self.descriptor, termios.TCSADRAIN, self._settings)
            self._settings = None

    def _write(self, text: str) -> None:
        try:
            os.write(sys.stdout.fileno(), text.encode())
        except OSError:
            pass  # the terminal is gone

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        try:
            os.write(self._wake, b".")
        except OSError:
            pass

    def _on_stop(self, number: int, frame: FrameType | None) -> None:
        self._leave()
        os.kill(os.getpid(), signal.SIGSTOP)
        self._enter()
        self._on_signal(number, frame)

    def _on_term(self, number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt


def ansi(line: Text, columns: int, *, colour: bool) -> str:
    """One line as a terminal takes it; without colour it has neither that nor any other sequence but `reverse`."""
    console = Console(
        width=max(columns, 1),
        force_terminal=True,
        color_system="standard" if colour else None,
        no_color=not colour,
        legacy_windows=False,
        highlight=False,
    )
    with console.capture() as capture:
        console.print(line, end="", no_wrap=True, overflow="crop", soft_wrap=True)
    return capture.get()
