"""Keys from the agent's terminal to the command's, in PTY mode only."""

import os
import select
import termios

from sidecar.supervisor.signals import SIGINT, SIGQUIT, SIGTTOU
from sidecar.supervisor.spawn import ignored_mask

TYPE_CHECKING = False  # typing.TYPE_CHECKING, without the 7 ms of importing typing
if TYPE_CHECKING:
    from typing import Any

    from sidecar.supervisor.terminal import Terminal

_CHUNK_BYTES = 4096


class Keys:
    """fd 0 (a terminal in raw mode) -> the PTY's master side, which is non-blocking.

    ^C and ^\\ are signals, to all who are in front of a terminal: bare, to the command and to the script around it
    alike. From the command's own terminal they come to the command only, so our group is sent them by us.
    """

    def __init__(self, terminal: "Terminal", command_pid: int) -> None:
        self._terminal = terminal
        self._command_pid = command_pid
        self._master = terminal.master
        self._pending = b""
        self._is_literal = False
        self._open = True

    def interest(self, wanted: dict[int, int]) -> dict[int, int]:
        """What to poll for, given what is polled already (the master is also a source)."""
        if self._pending and self._master in wanted:
            return {self._master: wanted[self._master] | select.POLLOUT}
        listening = self._open and not self._pending and self._terminal.has_keys
        return {0: select.POLLIN} if listening else {}

    def move(self, ready: dict[int, int]) -> None:
        if self._terminal.is_over:
            self._terminal.not_taken(self._pending)
            self._pending = b""
            return
        if self._open and not self._pending and ready.get(0):
            try:
                self._pending = os.read(0, _CHUNK_BYTES)
            except OSError:
                self._pending = b""
            self._open = bool(self._pending)
            self._signal_our_group(self._pending)
        if self._pending:
            try:
                taken = os.write(self._master, self._pending)
                self._pending = self._pending[taken:]
            except BlockingIOError:
                return
            except OSError:
                self._open, self._pending = False, b""

    def _signal_our_group(self, keys: bytes) -> None:
        try:
            meant, self._is_literal = signals_of(keys, termios.tcgetattr(self._master), self._is_literal)
            if meant and self._is_one_group():
                for number in meant:
                    os.kill(0, number)  # to us as well: Reactions leaves out what we have sent ourselves
        except (OSError, termios.error):
            return

    def _is_one_group(self) -> bool:
        """Whether bare our group would be in front of the terminal, and the command in it. Not of a shell with job
        control: that makes a group of its own, and ignores SIGTTOU for it."""
        if os.tcgetpgrp(0) != os.getpgrp() or os.tcgetpgrp(self._master) != self._command_pid:
            return False
        try:
            return not ignored_mask(self._command_pid) & 1 << (SIGTTOU - 1)
        except (OSError, ValueError, IndexError):
            return True


def signals_of(keys: bytes, settings: "list[Any]", is_literal: bool) -> tuple[list[int], bool]:
    """SIGINT and SIGQUIT that a terminal with `settings` makes of `keys`.

    `is_literal`: the key before them takes the meaning from the first (VLNEXT). Returned anew, for those that follow.
    """
    flags, special = settings[3], settings[6]
    signals = {}
    if flags & termios.ISIG:
        signals = {special[termios.VINTR]: SIGINT, special[termios.VQUIT]: SIGQUIT}
    quotes = special[termios.VLNEXT] if flags & termios.ICANON and flags & termios.IEXTEN else b"\0"
    meant = []
    for value in keys:
        key = bytes((value,))
        if is_literal or key == b"\0":
            is_literal = False
        elif key in signals:
            meant.append(signals[key])
        else:
            is_literal = key == quotes
    return meant, is_literal
