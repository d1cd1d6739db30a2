"""One direction of a bridge: bytes from a descriptor to another, each line shown before anything follows it.

Bytes go on as they came, in pieces as they came: nothing waits for the end of a line, nor for who looks at it. `insert`
puts a line of ours in between, and only where the stream stands at the end of a line.
"""

import os
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

_READ_BYTES = 1 << 16
MAX_WAITING_BYTES = 1 << 18
"""More is not read while so much has not been taken: a slow reader slows the writer, as without us."""
MAX_LINE_BYTES = 64 << 20
"""A longer line is passed on like any other, but not shown."""

Words = Callable[[], Sequence[bytes]]
EVERY_LINE = (b"\n",)


class Taker(Protocol):
    """The part of sidecar.supervisor.sink.Sink that a flow needs."""

    descriptor: int
    pollable: bool

    def write(self, data: bytes | memoryview) -> int: ...


class Flow:
    """`show` gets each line that has one of the `words`, with its newline, or None for one over `MAX_LINE_BYTES`.

    Most of what an agent says has none of them, and is not even cut into lines: so a bridge keeps up with a flood.
    Never raises.
    """

    def __init__(
        self, source: int, sink: Taker, show: Callable[[bytes | None], None], words: Words = lambda: EVERY_LINE
    ) -> None:
        self.source = source
        self.sink = sink
        self._show = show
        self._words = words
        self._line: list[bytes] = []
        self._line_bytes = 0
        self._waiting: deque[memoryview] = deque()
        self._waiting_bytes = 0
        self.read_bytes = 0
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
        self.read_bytes += len(data)
        self._put(data)
        self._look(data)
        return True

    def insert(self, line: bytes) -> bool:
        """Put a line of ours into the stream. False: it stands inside a line, the reader is slow, or it is over.

        A line that finds no room at all is not kept: by the time there is some, the reader may have cancelled the call.
        """
        if self._line_bytes or self._waiting or self.ended or self.broken:
            return False
        try:
            taken = self.sink.write(line)
        except OSError:
            self.gone()
            return False
        if 0 < taken < len(line):
            self._waiting.append(memoryview(line)[taken:])
            self._waiting_bytes += len(line) - taken
        return taken > 0

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
        if self._line_bytes and (start := data.find(b"\n") + 1):
            self._end_line(data[:start])
        end = data.rfind(b"\n") + 1
        if start < end:
            self._look_at_lines(data, start, end)
        if max(start, end) < len(data):
            self._begin_line(data[max(start, end) :])

    def _look_at_lines(self, data: bytes, start: int, end: int) -> None:
        """Show those of the whole lines from `start` to `end` that have a word; each word is looked for once."""
        hits = {word: data.find(word, start, end) for word in self._words()}
        while (first := min((hit for hit in hits.values() if hit >= 0), default=-1)) >= 0:
            begin = data.rfind(b"\n", start, first) + 1 or start
            start = data.find(b"\n", first) + 1
            self._show(data[begin:start])
            hits = {word: data.find(word, start, end) if 0 <= hit < start else hit for word, hit in hits.items()}

    def _begin_line(self, rest: bytes) -> None:
        self._line_bytes += len(rest)
        if self._line_bytes <= MAX_LINE_BYTES:
            self._line.append(rest)
        else:
            self._line.clear()

    def _end_line(self, rest: bytes) -> None:
        too_long = self._line_bytes + len(rest) > MAX_LINE_BYTES
        line = b"".join([*self._line, rest])
        self._line.clear()
        self._line_bytes = 0
        if too_long:
            self._show(None)
        elif any(word in line for word in self._words()):
            self._show(line)
