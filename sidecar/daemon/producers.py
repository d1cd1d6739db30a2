"""Whose command is whose, and who is told what happened to it.

A producer owns its command. Nobody else's frame may touch it, except that a command_started frame with the
same identity (the producer, reconnecting) takes it over, and that any frame may pick up a command whose
producer just dropped. A drop without a settle frame is waited out for a grace, then the command is lost.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from sidecar.core import frame as wire
from sidecar.core.errors import FrameError
from sidecar.daemon.cancelling import Cancels
from sidecar.daemon.connection import Connection
from sidecar.daemon.fanout import FanOut
from sidecar.daemon.ledger import Ledger
from sidecar.daemon.registry import Beat, Event, Registry, Settled, Started, VerdictChanged
from sidecar.daemon.sink import GuardedSink

log = logging.getLogger(__name__)

_SETTLED_REMEMBERED: Final = 100_000
# Who a command is: a reconnecting producer must say the same.
_SAME_IDENTITY: Final = ("traceId", "spanId", "supervisorPid", "startMonotonicMs")


class Producers:
    """The connections that commands are told of over. `changed` is called when a command has ended.

    All methods belong to the event loop's thread. `clock_ns` is monotonic.
    """

    def __init__(
        self,
        registry: Registry,
        ledger: Ledger,
        sink: GuardedSink,
        fanout: FanOut,
        changed: Callable[[], None],
        clock_ns: Callable[[], int],
        grace_s: float,
    ) -> None:
        self.frames_received = 0
        self.ledger = ledger
        self.settled: deque[str] = deque(maxlen=_SETTLED_REMEMBERED)
        """Ids of the commands that have settled, for whoever does away with their entries in the ledger."""
        self._registry = registry
        self._sink = sink
        self._fanout = fanout
        self._loop = asyncio.get_running_loop()
        self._note_idleness = changed
        self._clock_ns = clock_ns
        self._grace_s = grace_s
        self._owners: dict[str, Connection] = {}
        self._graces: dict[str, asyncio.TimerHandle] = {}
        self.cancels = Cancels(registry, self._owners)

    def frame(self, connection: Connection, line: bytes) -> None:
        """A full line of a producer. Raises FrameError for what costs it the connection."""
        frame: dict[str, Any] | None = wire.parse(line)
        self.frames_received += 1
        if frame is None:
            if connection.command_id is None:
                connection.close_later()
            return
        command_id: str = frame["commandId"]
        if connection.command_id is None:
            self._attach(connection, command_id, frame)
        elif connection.command_id != command_id:
            raise FrameError("a producer's connection carries the frames of one command")
        for event in self._registry.feed(frame, self._clock_ns()):
            self._happened(event)
        if command_id not in self._registry.running:
            connection.close_later()

    def _attach(self, connection: Connection, command_id: str, frame: dict[str, Any]) -> None:
        command = self._registry.running.get(command_id)
        if command is not None:
            owner = self._owners.get(command_id)
            if frame["type"] == wire.STARTED:
                if any(frame.get(key) != command.identity.get(key) for key in _SAME_IDENTITY):
                    raise FrameError("a command_started frame for a command that is another")
            elif owner is not None:
                raise FrameError(f"a {frame['type']} frame for a command of another connection")
            if owner is not None:
                owner.command_id = None
            grace = self._graces.pop(command_id, None)
            if grace is not None:
                grace.cancel()
        connection.command_id = command_id
        self._owners[command_id] = connection

    def dropped(self, connection: Connection) -> None:
        """A connection has gone, a producer's or not; its command has the grace to be picked up again."""
        command_id = connection.command_id
        if command_id is not None and self._owners.get(command_id) is connection:
            del self._owners[command_id]
            if command_id in self._registry.running and not connection.is_cut_by_us:
                self._graces[command_id] = self._loop.call_later(self._grace_s, self._lose, command_id)

    def lose_dropped(self) -> None:
        """Nobody will come back: those in their grace are lost now."""
        for command_id, grace in tuple(self._graces.items()):
            grace.cancel()
            self._lose(command_id)

    def _lose(self, command_id: str) -> None:
        self._graces.pop(command_id, None)
        for frame in self.ledger.frames(command_id):
            # It may have ended well, and only have been killed before it could say so.
            self._take(frame)
        lost = self._registry.lose(command_id, self._clock_ns())
        if lost is not None:
            log.info("command %s is lost: its supervisor went away", command_id)
            self._happened(lost)

    def take_up(self, command_id: str, frames: list[dict[str, Any]]) -> None:
        """A command of which only the ledger tells: `frames` as they are there; lost where its end is not."""
        for frame in frames:
            self._take(frame, late=True)
        self._lose(command_id)

    def _take(self, frame: dict[str, Any], *, late: bool = False) -> None:
        try:
            for event in self._registry.feed(frame, self._clock_ns()):
                event.command.told_late = late
                self._happened(event)
        except FrameError as error:
            log.warning("an entry of the ledger cannot be: %s", error)

    def _happened(self, event: Event) -> None:
        command = event.command
        if isinstance(event, Settled):
            self._owners.pop(command.id, None)
            self.settled.append(command.id)
            self._note_idleness()
        if event.replay:
            if isinstance(event, Settled):
                self._sink.command_settled(command)  # it may have remembered something of it
            return
        if isinstance(event, Started):
            self._sink.command_started(command)
            self._fanout.publish(command, command.identity)
        elif isinstance(event, Beat):
            self._sink.heartbeat(command, event.frame)
            self._fanout.publish(command, event.frame)
        elif isinstance(event, VerdictChanged):
            self._sink.verdict_changed(command, event.frame)
            self._fanout.publish(command, event.frame)
        elif isinstance(event, Settled) and command.settled is not None:
            self._sink.command_settled(command)
            self._fanout.publish(command, command.settled)
            self.cancels.settled(command, command.settled)
