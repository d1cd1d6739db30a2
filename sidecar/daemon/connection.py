"""One connection: bytes to lines, within limits. What a line means is the server's business.

Fairness: each turn of the event loop reads at most READ_BYTES from each connection that has any, so a client
that floods gets one share like everybody else, until its frame rate costs it the connection.

The order of things at the end is the kernel's: end of file is seen only after all that was sent before it.
A producer may therefore connect, write everything and be gone before the daemon has accepted.
"""

import asyncio
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, cast

from sidecar.core.errors import FrameError
from sidecar.core.frame import MAX_FRAME_BYTES

if TYPE_CHECKING:
    from sidecar.daemon.fanout import Subscriber
    from sidecar.daemon.server import Server

log = logging.getLogger(__name__)

READ_BYTES: Final = 16384


@dataclass(frozen=True, slots=True)
class Limits:
    """What one client may cost. Rates are lines a second, with a burst of lines on top."""

    lines_per_s: float = 200.0
    burst_lines: int = 2000
    # For a first line to arrive, for a producer to hang up after its command has settled, and for a reader to
    # take its last lines.
    patience_s: float = 10.0
    grace_s: float = 1.0
    max_connections: int = 2048
    max_buffered_bytes: int = 1 << 20


class Connection(asyncio.BufferedProtocol):
    """A client. Its first line decides what it is: the server sets `subscriber` or `command_id`."""

    def __init__(self, server: "Server", limits: Limits) -> None:
        self.transport: asyncio.Transport
        self.command_id: str | None = None
        self.subscriber: Subscriber | None = None
        self.is_producer = False
        self.closing = False
        self.is_cut_by_us = False
        self._server = server
        self._limits = limits
        self._loop = asyncio.get_running_loop()
        self._pending = bytearray()
        self._tokens = float(limits.burst_lines)
        self._tokens_at_s = self._loop.time()
        self._deadline: asyncio.TimerHandle | None = None
        self._lines = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self._deadline = self._loop.call_later(self._limits.patience_s, self._impatient)
        self._server.opened(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        # Shared by all connections: a read and the buffer_updated that copies it out are one callback.
        return self._server.read_buffer

    def buffer_updated(self, nbytes: int) -> None:
        if self.closing:
            return
        self._pending += self._server.read_buffer[:nbytes]
        start = 0
        try:
            while not self.closing and (end := self._pending.find(b"\n", start)) >= 0:
                # The newline counts: parse refuses what is over the limit with it.
                line = bytes(self._pending[start : end + 1])
                start = end + 1
                self._line(line)
            if len(self._pending) - start >= MAX_FRAME_BYTES:
                raise FrameError(f"a line that does not end within {MAX_FRAME_BYTES} bytes")
        except FrameError as error:
            self.refuse(str(error))
        except Exception:
            # A fault of ours, met by this client's line: it is the one to lose its connection.
            log.exception("a line could not be handled")
            self.refuse("internal error")
        del self._pending[:start]

    def _line(self, line: bytes) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        self._lines += 1
        if self._lines > self._limits.burst_lines:
            self._take_token()
        else:
            self._tokens -= 1
        self._server.line(self, line)

    def _take_token(self) -> None:
        now_s = self._loop.time()
        self._tokens = min(
            float(self._limits.burst_lines),
            self._tokens + (now_s - self._tokens_at_s) * self._limits.lines_per_s,
        )
        self._tokens_at_s = now_s
        if self._tokens < 1 and not self._server.stopping:
            raise FrameError(f"more than {self._limits.lines_per_s:g} frames a second")
        self._tokens -= 1

    def eof_received(self) -> bool:
        return False  # closes, after what was written is sent

    def connection_lost(self, error: Exception | None) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._server.closed(self)

    def refuse(self, reason: str) -> None:
        """The client broke a rule: it loses its connection, and nobody else notices."""
        if not self.closing:
            log.warning("connection refused: %s", reason)
            self._server.connections_refused += 1
            self.close()

    def close(self) -> None:
        """Close once what was written is sent; a reader that does not take it is cut off after a while."""
        if self.closing:
            return
        self.closing = True
        if self._deadline is not None:
            self._deadline.cancel()
        self.transport.close()
        self._deadline = self._loop.call_later(self._limits.patience_s, self.transport.abort)

    def close_later(self) -> None:
        """Nothing more is expected of this client: it should hang up, and is made to after a while."""
        if self._deadline is None and not self.closing:
            self._deadline = self._loop.call_later(self._limits.patience_s, self.close)

    def _impatient(self) -> None:
        self._deadline = None
        self.refuse(f"no line within {self._limits.patience_s:g} s")
