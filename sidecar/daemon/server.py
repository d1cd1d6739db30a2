"""The socket server: who is connected, and what each client wants.

The first line of a connection decides:

    {"subscribe": {...}}                    a subscriber; see fanout.py
    {"request": "list"|"status"|"flush"|"stop"}  control: answered, then closed
    {"request": "cancel", "commandId": ...} answered, and closed when the command has settled; see cancelling.py
    an object with a "type"                 a producer: the frames of one command; see producers.py

Whatever a client does wrong costs that client its connection. The server only speaks to subscribers and to
control; to a producer it passes on a cancel, and never waits for it to read.
"""

import asyncio
import errno
import logging
import os
import select
import socket
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from sidecar import rendezvous
from sidecar.core import frame as wire
from sidecar.core.errors import FrameError
from sidecar.daemon import identity
from sidecar.daemon.connection import READ_BYTES, Connection, Limits
from sidecar.daemon.control import list_answer, status_answer
from sidecar.daemon.fanout import ENCODERS, EncoderFactory, FanOut, encode_record
from sidecar.daemon.ledger import Ledger
from sidecar.daemon.producers import Producers
from sidecar.daemon.registry import Registry
from sidecar.daemon.sink import GuardedSink, TelemetrySink

log = logging.getLogger(__name__)

_ACCEPTS_A_TURN: Final = 64
_ACCEPT_PAUSE_S: Final = 0.2
_DRAIN_STEP_S: Final = 0.005


class Server:
    """Serves an already listening socket. Use: `start()`, wait for `stop_requested`, `await stop()`.

    All methods belong to the event loop's thread. `clock_ns` is monotonic. `requests`: further control requests by
    name, each of which gives its answer at once.
    """

    def __init__(
        self,
        listener: socket.socket,
        path: str,
        sink: TelemetrySink,
        *,
        limits: Limits | None = None,
        encoders: Mapping[str, EncoderFactory] = ENCODERS,
        requests: Mapping[str, Callable[[], dict[str, Any]]] | None = None,
        clock_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self.path = path
        self.sink = GuardedSink(sink)
        self.registry = Registry()
        self.limits = limits or Limits()
        self.fanout = FanOut(encoders, self.limits.max_buffered_bytes)
        self.read_buffer = memoryview(bytearray(READ_BYTES))
        self.stop_requested = asyncio.Event()
        self.stopping = False
        self.started_ns = clock_ns()
        self.connection_count = 0
        self.connections_refused = 0
        self._requests = requests or {}
        self._listener = listener
        self._clock_ns = clock_ns
        self._loop = asyncio.get_running_loop()
        self._connections: set[Connection] = set()
        self._accepting: set[asyncio.Task[object]] = set()
        self.producers = Producers(
            self.registry, Ledger(path), self.sink, self.fanout, self._note_idleness, clock_ns, self.limits.grace_s
        )
        self.cancels = self.producers.cancels
        self._idle_since_ns: int | None = self.started_ns

    # --- accepting -------------------------------------------------------------------------------------

    def start(self) -> None:
        self._listener.setblocking(False)
        self._loop.add_reader(self._listener.fileno(), self._accept, _ACCEPTS_A_TURN)
        self.sink.observe(lambda: list(self.registry.running.values()))

    def _accept(self, at_most: int) -> bool:
        """Accept what waits in the backlog. True: there may be more."""
        for _ in range(at_most):
            try:
                peer, _address = self._listener.accept()
            except (BlockingIOError, InterruptedError):
                return False
            except OSError as error:
                if error.errno == errno.ECONNABORTED:
                    continue
                if not self.stopping:
                    # Out of descriptors or memory: the backlog holds them until some are free again.
                    log.error("cannot accept: %s", error)
                    self._loop.remove_reader(self._listener.fileno())
                    self._loop.call_later(_ACCEPT_PAUSE_S, self._accept_again)
                return False
            self._admit(peer)
        return True

    def _accept_again(self) -> None:
        if not self.stopping:
            self._loop.add_reader(self._listener.fileno(), self._accept, _ACCEPTS_A_TURN)

    def _admit(self, peer: socket.socket) -> None:
        uid = rendezvous.peer_uid_of(peer)
        if uid is not None and uid not in (os.getuid(), 0):
            self._turn_away(peer, f"uid {uid} has no business here")
        elif self.connection_count >= self.limits.max_connections and not self.stopping:
            self._turn_away(peer, f"more than {self.limits.max_connections} connections")
        else:
            self._idle_since_ns = None
            self.connection_count += 1
            task = self._loop.create_task(
                self._loop.connect_accepted_socket(lambda: Connection(self, self.limits), peer)
            )
            self._accepting.add(task)
            task.add_done_callback(self._admitted)

    def _admitted(self, task: "asyncio.Task[object]") -> None:
        self._accepting.discard(task)
        if task.cancelled() or task.exception() is not None:
            log.warning("a connection could not be set up")
            self.connection_count -= 1
            self._note_idleness()

    def _turn_away(self, peer: socket.socket, reason: str) -> None:
        log.warning("connection refused: %s", reason)
        self.connections_refused += 1
        peer.close()

    # --- connections -----------------------------------------------------------------------------------

    def opened(self, connection: Connection) -> None:
        self._connections.add(connection)

    def line(self, connection: Connection, line: bytes) -> None:
        """A full line of a client. Raises FrameError for what costs it the connection."""
        if connection.subscriber is not None:
            return  # has nothing more to say to us
        if connection.is_producer:
            self.producers.frame(connection, line)
            return
        first = wire.load_object(line)
        if "subscribe" in first:
            self._subscribe(connection, first["subscribe"])
        elif "request" in first:
            self._control(connection, first)
        else:
            connection.is_producer = True
            self.producers.frame(connection, line)

    def closed(self, connection: Connection) -> None:
        self._connections.discard(connection)
        self.connection_count -= 1
        if connection.subscriber is not None:
            self.fanout.remove(connection.subscriber)
        self.cancels.forget(connection)
        self.producers.dropped(connection)
        self._note_idleness()

    # --- subscribers and control -----------------------------------------------------------------------

    def _subscribe(self, connection: Connection, subscribe: object) -> None:
        try:
            if not isinstance(subscribe, dict):
                raise FrameError("subscribe must be an object")
            connection.subscriber = self.fanout.add(
                subscribe,
                connection.transport,
                connection.close,
                self.registry.running.values(),
                self._clock_ns(),
            )
        except FrameError as error:
            self._answer(connection, {"type": "error", "message": str(error)})

    def _control(self, connection: Connection, request: dict[str, Any]) -> None:
        now_ns = self._clock_ns()
        name = request["request"]
        if name == "list":
            wants_silences = request.get("silences") is True
            self._answer(connection, *list_answer(self.registry.running.values(), now_ns, silences=wants_silences))
        elif name == "status":
            self._answer(connection, status_answer(self, os.getpid(), now_ns))
        elif name == "stop":
            self._answer(connection, identity.stopping())
            self.stop_requested.set()
        elif name == "flush":
            self.sink.send_now(everything=request.get("all") is True)
            self._answer(connection, {"type": "flushing", "pid": os.getpid()})
        elif name == "cancel":
            try:
                self.cancels.ask(connection, request)
            except FrameError as error:
                self._answer(connection, {"type": "error", "message": str(error)})
        elif isinstance(name, str) and name in self._requests:
            self._answer(connection, self._requests[name]())
        else:
            message = f"no request {name!r:.40}; use one of cancel, flush, list, status, stop"
            self._answer(connection, {"type": "error", "message": message})

    @staticmethod
    def _answer(connection: Connection, *records: dict[str, Any]) -> None:
        connection.transport.write(b"".join(map(encode_record, records)))
        connection.close()

    # --- the end ---------------------------------------------------------------------------------------

    def _note_idleness(self) -> None:
        busy = self.registry.running or self.connection_count
        self._idle_since_ns = None if busy else (self._idle_since_ns or self._clock_ns())

    def idle_ns(self) -> int:
        """How long nothing ran and nobody was connected; 0 when something is or somebody is."""
        return 0 if self._idle_since_ns is None else self._clock_ns() - self._idle_since_ns

    async def stop(self, budget_s: float, *, owns_listener: bool = True) -> None:
        """Take in everything that was sent until now, lose nothing of it, and close.

        On Linux this is exact: once our side is shut down for reading, a producer's next write fails (it then
        turns to a new daemon and replays), and all it had written before is still read here. Commands that
        run on are not lost; those whose producer had dropped already are.
        `owns_listener` False: the listener is shared with whoever gave it (systemd), and left alone.
        """
        self.stopping = True
        self._loop.remove_reader(self._listener.fileno())
        exact = sys.platform == "linux"
        if owns_listener:
            if exact:
                self._listener.shutdown(socket.SHUT_RD)
            while self._accept(_ACCEPTS_A_TURN):
                pass
        if self._accepting:
            await asyncio.wait(tuple(self._accepting), timeout=budget_s)
        deadline_s = self._loop.time() + budget_s
        for connection in self._speaking() if exact else ():
            self._shut_for_reading(connection)
        while self._speaking() and self._loop.time() < deadline_s:
            await asyncio.sleep(_DRAIN_STEP_S)
        self.producers.lose_dropped()
        # Only now: subscribers were to be told what came of the above.
        for connection in tuple(self._connections):
            connection.is_cut_by_us = True
            connection.close()
        while self._connections and self._loop.time() < deadline_s:
            await asyncio.sleep(_DRAIN_STEP_S)
        for connection in tuple(self._connections):
            connection.transport.abort()
        self._listener.close()

    def _speaking(self) -> list[Connection]:
        return [connection for connection in self._connections if connection.subscriber is None]

    @staticmethod
    def _shut_for_reading(connection: Connection) -> None:
        sock = connection.transport.get_extra_info("socket")
        try:
            # After the shutdown each of them reads as at its end: now is the time to tell who really is gone.
            connection.is_cut_by_us = not _has_hung_up(sock.fileno())
            sock.shutdown(socket.SHUT_RD)
        except OSError:
            connection.transport.abort()


def _has_hung_up(descriptor: int) -> bool:
    """Whether the peer has closed its end, whatever is still to be read."""
    if sys.platform != "linux":
        return False
    poller = select.poll()
    poller.register(descriptor, select.POLLRDHUP)
    return bool(poller.poll(0))
