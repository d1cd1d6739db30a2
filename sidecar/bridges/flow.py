"""One direction of a bridge: bytes from a descriptor to another, each line shown before anything follows it.

Bytes go on as they came, in pieces as they came: nothing waits for the end of a line, nor for who looks at it. `insert`
puts a line of ours in between, and only where the stream stands at the end of a line.
"""

import os
from collections import deque
from collections.abc import Callable
from typing import Protocol

_READ_BYTES = 1 << 16
MAX_WAITING_BYTES = 1 << 18
"""More is not read while so much has not been taken: a slow reader slows the writer, as without us."""
MAX_LINE_BYTES = 64 << 20
"""A longer line is passed on like any other, but not shown."""


class Taker(Protocol):
    """The part of sidecar.supervisor.sink.Sink that a flow needs."""

    descriptor: int
    pollable: bool

    def write(self, data: bytes | memoryview) -> int: ...


class Flow:
    """`show` gets each line with its newline, or None for one over `MAX_LINE_BYTES`. Never raises."""

    def __init__(self, source: int, sink: Taker, show: Callable[[bytes | None], None]) -> None:
        self.source = source
        self.sink = sink
        self._show = show
        self._line: list[bytes] = []
        self._line_bytes = 0
        self._waiting: deque[memoryview] = deque()
        self._waiting_bytes = 0
        self.ended = False
        """The source has nothing more."""
        self.broken = False
        """The reader has gone."""

    @property
    def wants_read(self) -> bool:
        return not self.ended and not self.broken and self._waiting_bytes < MAX_WAITING_BYTES

    @property
    def waits(self) -> bool:
        """Bytes wait for room."""
        return bool(self._waiting) and not self.broken

    @property
    def done(self) -> bool:
        return self.broken or (self.ended and not self._waiting)

    def read(self) -> bool:
        """Pass on what there is. False: nothing was there."""
        try:
            data = os.read(self.source, _READ_BYTES)
        except (BlockingIOError, InterruptedError):
            return False
        except OSError:  # EIO of a terminal whose other end has gone
            data = b""
        if not data:
            self.ended = True
            return False
        self._put(data)
        self._look(data)
        return True

    def insert(self, line: bytes) -> bool:
        """Put a line of ours into the stream. False: it stands inside a line, the reader is slow, or it is over."""
        if self._line_bytes or self._waiting or self.ended or self.broken:
            return False
        self._put(line)
        return True

    def write(self) -> None:
        """Pass on what waits, as far as there is room."""
        while self._waiting and not self.broken:
            piece = self._waiting[0]
            try:
                taken = self.sink.write(piece)
            except OSError:
                self.gone()
                return
            self._waiting_bytes -= taken
            if taken < len(piece):
                self._waiting[0] = piece[taken:]
                return
            self._waiting.popleft()

    def gone(self) -> None:
        """The reader has gone: what waits is nobody's."""
        self.broken = True
        self._waiting.clear()
        self._waiting_bytes = 0

    def _put(self, data: bytes) -> None:
        self._waiting.append(memoryview(data))
        self._waiting_bytes += len(data)
        self.write()

    def _look(self, data: bytes) -> None:
        start = 0
        while (end := data.find(b"\n", start) + 1) > 0:
            piece = data[start:end]
            start = end
            too_long = self._line_bytes + len(piece) > MAX_LINE_BYTES
            line = None if too_long else b"".join([*self._line, piece])
            self._line.clear()
            self._line_bytes = 0
            self._show(line)
        if start < len(data):
            rest = data[start:]
            self._line_bytes += len(rest)
            if self._line_bytes <= MAX_LINE_BYTES:
                self._line.append(rest)
            else:
                self._line.clear()
