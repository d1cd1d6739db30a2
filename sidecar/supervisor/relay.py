"""Bytes from the command to the agent: untouched, in order, with flat memory and honest backpressure.

A channel holds at most one chunk. While the agent does not take it, the command's pipe is not read, so the
command blocks as it would without us. When the agent's reader has gone, our end of the command's pipe is
closed, so that the command gets SIGPIPE from its next write, as it would without us.
"""

import posix

from sidecar.supervisor import libc

TYPE_CHECKING = False  # typing.TYPE_CHECKING, without the 7 ms of importing typing
if TYPE_CHECKING:
    import select
    from collections.abc import Callable

    from sidecar.core.output import OutputStats
    from sidecar.supervisor.sink import Sink

_CHUNK_BYTES = 65536
_LARGE_BYTES = 1 << 20
_FLOOD_CHUNKS = 32
_BURST_STEPS = 32
_BURST_WAIT_MS = 1
"""Steps of a flood that are made without a turn of the loop. Signals and clocks wait for that long: some ms."""
_F_SETPIPE_SZ = 1031


class Channel:
    """One relayed stream: `source` (our read end, or the PTY's master side) -> `sink`.

    `owed` bounds the bytes that were in the pipe when the command exited and were not read yet: they must
    arrive whatever else happens. With `drain_over` nothing else is read any more.
    """

    def __init__(
        self,
        source: int,
        sink: "Sink",
        stats: "OutputStats",
        stream: int,
        *,
        terminal: bool,
        capacity_bytes: int = _CHUNK_BYTES,
    ) -> None:
        posix.set_blocking(source, False)
        self.source = source
        self.sink = sink
        self.open = True
        self.owed = 0
        self.taken_bytes = 0
        self.drain_over = False
        self.hear: Callable[[bytes, int], None] | None = None
        """Gets each chunk, as it is, that is not passed by tee; must be cheap (supervisor/repeats.py)."""
        self._pending: memoryview | None = None
        self._stats = stats
        self._stream = stream
        self._terminal = terminal
        self._chunk_bytes = _CHUNK_BYTES
        self._capacity_bytes = capacity_bytes  # of a pipe by default, pipe(7); a terminal's is smaller
        self._full_chunks = 0
        self._tee: Callable[[int, int, int], int] | None = None
        self._readable: select.poll | None = None
        self._writable: select.poll | None = None

    @property
    def blocked(self) -> bool:
        """There are bytes that the agent does not take."""
        return self._pending is not None

    @property
    def wants_read(self) -> bool:
        return self.open and self._pending is None and (not self.drain_over or self.owed > 0)

    def pump(self, now_ns: int) -> bool:
        """Read and write a chunk; of a flood, a bounded number of them. True = there was output.

        Call it when the source is readable (or hung up) and nothing is pending.
        """
        if self._readable is None:
            return self._pump_chunk(now_ns)
        before = self._stats.total_bytes
        steps = _BURST_STEPS
        while steps and self._step(self._readable, now_ns):
            steps -= 1
        return self._stats.total_bytes > before

    def _step(self, readable: "select.poll", now_ns: int) -> bool:
        """Move on by a read or a write, if it can be had within the moment that a flood takes."""
        room = self._writable is None or bool(self._writable.poll(_BURST_WAIT_MS))
        if self._pending is not None:
            if room:
                self.flush()
            return room
        if not self.wants_read or not readable.poll(_BURST_WAIT_MS):
            return False
        # Without room we take a chunk all the same: to hold it is what being blocked means, to the loop and its beats.
        return (room and self._tee_chunk(now_ns)) or self._pump_chunk(now_ns)

    def _tee_chunk(self, now_ns: int) -> bool:
        """From pipe to pipe without copying; what went through is then read, to be counted. False = not this time:
        there is no room, the reader is gone, or it is no pipe. `_pump_chunk` finds out which."""
        if self._tee is None:
            return False
        taken = self._tee(self.source, self.sink.descriptor, self._chunk_bytes)
        if taken <= 0:
            return False
        self.taken_bytes += taken
        while taken:
            chunk = posix.read(self.source, taken)
            self._count(chunk, now_ns)
            taken -= len(chunk)
        return True

    def _pump_chunk(self, now_ns: int) -> bool:
        try:
            chunk = posix.read(self.source, self._chunk_bytes)
        except BlockingIOError:
            self.owed = 0
            return False
        except OSError:
            # EIO: the last slave side of the PTY was closed. That is its end of file.
            chunk = b""
        if not chunk:
            self.close()
            return False
        self._count(chunk, now_ns)
        if len(chunk) == self._chunk_bytes and self._readable is None:
            self._grow()
        self._pending = memoryview(chunk)
        self.flush()
        if self.hear is not None:
            try:
                self.hear(chunk, now_ns)
            except Exception:  # noqa: BLE001 - the bytes are through; whoever listens to them must not cost the command
                self.hear = None
        return True

    def _count(self, chunk: bytes, now_ns: int) -> None:
        self._stats.record(chunk, now_ns, self._stream)
        self.owed = max(0, self.owed - len(chunk))

    def flush(self) -> None:
        """Write what is pending, as far as there is room."""
        if self._pending is None:
            return
        try:
            taken = self.sink.write(self._pending)
        except OSError:
            self.reader_gone()
            return
        self.taken_bytes += taken
        # After a short write there is no more room now, or poll tells of it.
        self._pending = None if taken == len(self._pending) else self._pending[taken:]

    def reader_gone(self) -> None:
        """The agent's reader left: let the command know by SIGPIPE."""
        self._pending = None
        self.close()

    def exit_seen(self) -> None:
        """The direct child has exited. What is in the pipe now was written before: up to its capacity is owed,
        or less if it is empty sooner."""
        if self.open:
            self.owed = self._capacity_bytes

    def drain(self, now_ns: int) -> None:
        """The grace after the exit is over: read what is still owed, as far as the agent takes it.

        An empty pipe whose other side lives on says nothing to poll(2), so this reads without being asked to.
        """
        self.drain_over = True
        while self.wants_read:
            if not self.pump(now_ns):
                self.owed = 0  # empty, whoever holds its other side

    @property
    def finished(self) -> bool:
        """Nothing more to relay: the end of file, or the drain is over and nothing is owed."""
        return self._pending is None and (not self.open or (self.drain_over and self.owed == 0))

    def close(self) -> None:
        """Our end of the command's pipe. The pending bytes stay to be flushed."""
        if self.open:
            self.open = False
            posix.close(self.source)

    def _grow(self) -> None:
        """A command that floods: a larger pipe, fewer switches. Refused by the kernel = it stays as it is."""
        self._full_chunks += 1
        if self._full_chunks < _FLOOD_CHUNKS or self._terminal:
            return
        import fcntl
        import select

        if self.sink.is_pipe:
            self._tee = libc.tee_function()
        self._readable = select.poll()
        self._readable.register(self.source, select.POLLIN)
        if self.sink.pollable:
            self._writable = select.poll()
            self._writable.register(self.sink.descriptor, select.POLLOUT)
        try:
            fcntl.fcntl(self.source, _F_SETPIPE_SZ, _LARGE_BYTES)
        except (OSError, ValueError):
            return
        self._capacity_bytes = _LARGE_BYTES
        self._chunk_bytes = _LARGE_BYTES // 8
