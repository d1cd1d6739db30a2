"""The terminal of `sidecar top`: keys as they are pressed, the alternate screen, what it was given back at the end."""

import os
import select
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
_LEAVING_MS = 1000
_ENDING = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGALRM,
)
"""What would end us with the terminal as it is."""


class TerminalGone(Exception):  # noqa: N818 - says what is
    """It was hung up, and we were not told or did not want to know (nohup)."""


class Screen:
    """A context manager. `descriptor` gives keys. `woken` gets a byte for each signal that wants a new picture (the
    window's size, going on after Ctrl-Z). Ctrl-C, Ctrl-\\ and signals that end a program end the block with a
    KeyboardInterrupt, and the terminal is as it was."""

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
        """The whole picture: each line over the one that was there, without a blank in between. Raises TerminalGone."""
        size = self.size()
        drawn = [ansi(line, size.columns, colour=self._colour) for line in lines[: size.lines]]
        text = "\x1b[H" + "\x1b[K\r\n".join(drawn) + "\x1b[K\x1b[J"
        try:
            _write_all(sys.stdout.fileno(), text.encode(sys.stdout.encoding or "utf-8", "replace"))
        except OSError:
            raise TerminalGone from None

    def keys(self) -> bytes:
        """What was typed; empty where nobody can type any more."""
        try:
            return os.read(self.descriptor, 1024)
        except BlockingIOError:
            return b"\0"  # taken by another process that reads this terminal: no key
        except OSError:
            return b""

    def __enter__(self) -> Self:
        try:
            for number in _ENDING:
                if signal.getsignal(number) != signal.SIG_IGN:  # as below nohup
                    self._handlers[number] = signal.signal(number, self._on_end)
            for number in (signal.SIGWINCH, signal.SIGCONT):
                self._handlers[number] = signal.signal(number, self._on_signal)
            self._handlers[signal.SIGTSTP] = signal.signal(signal.SIGTSTP, self._on_stop)
            self._enter()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number in self._handlers:
            signal.signal(number, signal.SIG_IGN)  # a second Ctrl-C, while the first is obeyed
        self._leave()
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        os.close(self._wake)
        os.close(self.woken)

    def _enter(self) -> None:
        self._settings = termios.tcgetattr(self.descriptor)
        tty.setcbreak(self.descriptor, termios.TCSADRAIN)
        self._write(_ENTER)

    def _leave(self) -> None:
        if self._settings is None:
            return  # it was not entered
        settings, self._settings = self._settings, None
        # One that takes nothing any more, as behind a connection that is dead, must not keep us.
        takes = self._takes_output()
        if takes:
            self._write(_LEAVE)
        try:
            termios.tcsetattr(self.descriptor, termios.TCSADRAIN if takes else termios.TCSANOW, settings)
        except termios.error:
            pass  # the terminal is gone

    def _takes_output(self) -> bool:
        poll = select.poll()
        poll.register(sys.stdout.fileno(), select.POLLOUT)
        return bool(poll.poll(_LEAVING_MS))

    def _write(self, text: str) -> None:
        try:
            _write_all(sys.stdout.fileno(), text.encode())
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

    def _on_end(self, number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt


def _write_all(descriptor: int, data: bytes) -> None:
    """A signal may cut a write short, and another process may have made the terminal non-blocking."""
    while data:
        try:
            data = data[os.write(descriptor, data) :]
        except BlockingIOError:
            poll = select.poll()
            poll.register(descriptor, select.POLLOUT)
            poll.poll()


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
