"""Keys from the agent's terminal to the command's, in PTY mode only."""

import os
import select

TYPE_CHECKING = False  # typing.TYPE_CHECKING, without the 7 ms of importing typing
if TYPE_CHECKING:
    from sidecar.supervisor.terminal import Terminal

_CHUNK_BYTES = 4096


class Keys:
    """fd 0 (a terminal in raw mode) -> the PTY's master side, which is non-blocking."""

    def __init__(self, terminal: "Terminal") -> None:
        self._terminal = terminal
        self._master = terminal.master
        self._pending = b""
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
        if self._pending:
            try:
                taken = os.write(self._master, self._pending)
                self._pending = self._pending[taken:]
            except BlockingIOError:
                return
            except OSError:
                self._open, self._pending = False, b""
