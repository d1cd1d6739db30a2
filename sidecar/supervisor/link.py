"""The supervisor's connection to the daemon: fire and forget, and never in the command's way.

Frames go out as far as the socket takes them. What an earlier daemon had, and what could not be sent, is kept
as a bounded selection (the start, and a curated list of beats) and replayed to the next daemon, so that
nothing is counted twice and little is lost: a frame that was delivered before bears `replay`.
"""

from sidecar.core import frame_line as wire
from sidecar.core.errors import DaemonUnavailable, FrameError
from sidecar.supervisor import connection

TYPE_CHECKING = False  # typing.TYPE_CHECKING, without the 7 ms of importing typing
if TYPE_CHECKING:
    from _socket import socket
    from collections.abc import Callable

    from sidecar.core.curation import Curated
    from sidecar.supervisor.notes import Notes

    Frame = dict[str, wire.Json]

_BACKOFF_NS = (100_000_000, 250_000_000, 500_000_000, 1_000_000_000, 2_000_000_000, 5_000_000_000)
_MAX_UNSENT_BYTES = 256 * 1024
_INCOMING_BYTES = 8192


class _Kept:
    """A frame that a next daemon would have to be told. `line`: what it is on the wire, where that is known."""

    __slots__ = ("delivered", "frame", "line")

    def __init__(self, frame: "Frame", line: bytes | None) -> None:
        self.frame = frame
        self.line = line
        self.delivered = False


class Link:
    """One command's line to the daemon at `path`. `start_daemon` makes sure somebody listens there.

    Poll `descriptor` (None while there is no connection) for reading, and for writing while `wants_to_write`; call
    `service` when it is ready and `connect` at `retry_ns`. `service` leaves word in `has_missed_output`.
    """

    def __init__(self, path: str, start_daemon: "Callable[[], None]", notes: "Notes") -> None:
        self._path = path
        self._start_daemon = start_daemon
        self._notes = notes
        self._socket: socket | connection.Connection | None = None
        self._out = bytearray()
        self._in_flight: list[_Kept] = []
        self._start: _Kept | None = None
        self._beats: Curated[_Kept] | None = None
        self._verdict: wire.Json = None
        self._end: _Kept | None = None
        self._failures = 0
        self.ever_connected = False
        self._said: str | None = None
        self.retry_ns: int | None = None
        self.unavailable = False
        """No daemon can be had here at all (no folder for its socket, say): inline may take over."""
        self._owes_note = False
        self.has_missed_output = False
        """A note on output was left out or lost, and the daemon takes frames again. For the reader to reset."""

    @property
    def descriptor(self) -> int | None:
        return None if self._socket is None else self._socket.fileno()

    @property
    def settled_delivered(self) -> bool:
        """The last frame is with a daemon: nothing is owed."""
        return self._end is not None and self._end.delivered

    @property
    def unsent(self) -> bool:
        return bool(self._out)

    @property
    def wants_to_write(self) -> bool:
        return bool(self._out) or self._owes_note

    def send(self, frame: "Frame", now_ns: int, line: bytes | None = None) -> None:
        """Hand a frame over. It is kept for a replay where its type asks for it; never blocks, never raises.

        `line` is the frame encoded, by whoever has done that already.
        """
        kept = _Kept(frame, line)
        kind = frame["type"]
        if kind == wire.STARTED:
            self._start = kept
        elif kind in (wire.PROGRESS, wire.VERDICT):
            if self._beats is None:
                from sidecar.core.curation import Curated

                self._beats = Curated()
            self._beats.add(kept, change=self._is_change(frame))
        elif kind == wire.SETTLED:
            self._end = kept
        if self._socket is None:
            # Where the connecting succeeds now or later, it replays this frame too.
            if self.retry_ns is None or now_ns >= self.retry_ns or kind == wire.SETTLED:
                self.connect(now_ns)
            if kind == wire.ACTIVITY:
                self._owes_note = True
            return
        if kind == wire.ACTIVITY and self._out:
            # A daemon that does not read shall not find a thousand of them. One, once it reads, says it all.
            self._owes_note = True
            return
        self._put(kept, replay=False)
        self.flush(now_ns)

    def _is_change(self, frame: "Frame") -> bool:
        verdict = frame.get("verdict")
        if verdict is None or verdict == self._verdict:
            return False
        self._verdict = verdict
        return True

    def connect(self, now_ns: int) -> None:
        """Connect, starting a daemon where there is none, and replay. On failure: again at `retry_ns`."""
        try:
            self._socket = self._open()
        except (OSError, DaemonUnavailable, ImportError) as error:  # ImportError: we were uninstalled meanwhile
            self._fail(str(error), now_ns)
            return
        self.retry_ns = None
        self._failures = 0
        self.unavailable = False
        for kept in (self._start, *(() if self._beats is None else self._beats.kept), self._end):
            if kept is not None:
                self._put(kept, replay=kept.delivered)
        self.ever_connected = True
        self.flush(now_ns)

    def service(self, now_ns: int) -> bytes:
        """The descriptor is ready: send what is unsent; returns what the daemon sent, b"" if nothing.

        A connection that ended is replaced at `retry_ns`.
        """
        received = b""
        if self._socket is not None:
            try:
                received = self._socket.recv(_INCOMING_BYTES)
                if not received:
                    self._drop(now_ns)
            except (BlockingIOError, InterruptedError):
                pass
            except OSError:
                self._drop(now_ns)
        self.flush(now_ns)
        if self._owes_note and self._socket is not None and not self._out:
            self._owes_note = False
            self.has_missed_output = True
        return received

    def flush(self, now_ns: int) -> None:
        if self._socket is None or not self._out:
            return
        try:
            while self._out:
                sent = self._socket.send(self._out)
                del self._out[:sent]
        except (BlockingIOError, InterruptedError):
            if len(self._out) > _MAX_UNSENT_BYTES:
                self._drop(now_ns)  # it lives but does not read: the next connection replays what matters
            return
        except OSError:
            self._drop(now_ns)
            return
        for kept in self._in_flight:
            kept.delivered = True
        self._in_flight.clear()

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _open(self) -> "socket | connection.Connection":
        connected = connection.connect(self._path)
        if connected is not None:
            return connected
        from sidecar import rendezvous

        try:
            return rendezvous.connect(self._path)
        except (FileNotFoundError, ConnectionRefusedError, NotADirectoryError):
            self._start_daemon()
            return rendezvous.connect(self._path)

    def _put(self, kept: _Kept, *, replay: bool) -> None:
        try:
            if replay:
                self._out += wire.encode({**kept.frame, "replay": True})
            else:
                self._out += kept.line or wire.encode(kept.frame)
        except FrameError as error:
            self._notes.write(f"frame not sent: {error}")
            return
        if not kept.delivered:
            self._in_flight.append(kept)

    def _drop(self, now_ns: int) -> None:
        """The connection is gone. What was not fully sent is not delivered."""
        self.close()
        self._out.clear()
        self._in_flight.clear()
        if not self.settled_delivered:
            self.retry_ns = now_ns + _BACKOFF_NS[0]
            self._owes_note = True  # the beats that are replayed do not say how old the output is now

    def _fail(self, reason: str, now_ns: int) -> None:
        self.retry_ns = now_ns + _BACKOFF_NS[min(self._failures, len(_BACKOFF_NS) - 1)]
        self._failures += 1
        self.unavailable = self._failures >= 2 and not self.ever_connected
        if reason != self._said:
            self._said = reason
            self._notes.write(f"no daemon: {reason}")
