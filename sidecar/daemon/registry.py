"""The running commands, keyed by command id: frames in, what happened out. Pure: no I/O, no clock.

A frame may come twice, after the end of its command, or as a replay by a producer that had to reconnect:

- one whose (command id, seq) was seen says nothing new, and nothing is returned for it;
- ids of ended commands are remembered (a bounded number), so a late or replayed frame gives no second birth;
- one marked `replay` was already reported by an earlier daemon. It makes the state right and is returned
  with `replay` set: not to be counted again, not to be fanned out, no span of its own.
"""

from dataclasses import dataclass
from typing import Any, Final

from sidecar.core import frame as wire
from sidecar.core.command import Command
from sidecar.core.errors import FrameError

ENDED_REMEMBERED: Final = 4096
# A UUID has 36. Ids are kept for long, so their size is bounded.
MAX_ID_CHARS: Final = 64


@dataclass(frozen=True, slots=True)
class Started:
    command: Command
    replay: bool


@dataclass(frozen=True, slots=True)
class Beat:
    """A heartbeat. It may bring a new verdict along; `command.verdict` already is the new one."""

    command: Command
    frame: dict[str, Any]
    replay: bool


@dataclass(frozen=True, slots=True)
class Activity:
    """Output flows again or still. For the state only, never for subscribers."""

    command: Command
    replay: bool


@dataclass(frozen=True, slots=True)
class VerdictChanged:
    """Another verdict, or (`limit` in the frame) one that has held for as long as a rule allows."""

    command: Command
    frame: dict[str, Any]
    replay: bool


@dataclass(frozen=True, slots=True)
class Settled:
    """The end, always the last event of a command: by its own frame, as lost, or as a spawn that failed."""

    command: Command
    replay: bool


Event = Started | Beat | Activity | VerdictChanged | Settled


class Registry:
    """`running` maps command id -> Command, oldest first."""

    def __init__(self, ended_remembered: int = ENDED_REMEMBERED) -> None:
        self.running: dict[str, Command] = {}
        self.ended: dict[str, str] = {}
        """Command id -> program of those that are over, oldest first, as far back as the memory goes."""
        self._ended_remembered = ended_remembered

    def feed(self, frame: dict[str, Any], now_ns: int) -> list[Event]:
        """Take in a frame that wire.parse has checked; `now_ns` is the daemon's monotonic clock.

        Raises FrameError for one that its command cannot have: the state is then as it was.
        """
        command_id: str = frame["commandId"]
        if command_id in self.ended:
            return []
        replay = frame.get("replay") is True
        command = self.running.get(command_id)
        if command is None:
            return self._born(frame, replay, now_ns)
        verdicts_before = command.verdict_count
        if not command.apply(frame, now_ns):
            return []
        kind = frame["type"]
        if kind == wire.PROGRESS:
            return [Beat(command, frame, replay)]
        if kind == wire.ACTIVITY:
            return [Activity(command, replay)]
        if kind == wire.SETTLED:
            self._end(command)
            return [Settled(command, replay)]
        # The same verdict once more (its evidence may be newer) is no change; that it has held for too long is news.
        is_news = command.verdict_count != verdicts_before or "limit" in frame
        return [VerdictChanged(command, frame, replay)] if is_news else []

    def lose(self, command_id: str, now_ns: int) -> Settled | None:
        """The producer of a command is gone for good. None where the command is not running (any more)."""
        command = self.running.get(command_id)
        if command is None:
            return None
        command.lose(now_ns)
        self._end(command)
        return Settled(command, replay=False)

    def knows(self, command_id: str) -> bool:
        """Whether frames of this command have come (as far back as the memory goes)."""
        return command_id in self.running or command_id in self.ended

    def _born(self, frame: dict[str, Any], replay: bool, now_ns: int) -> list[Event]:
        if len(frame["commandId"]) > MAX_ID_CHARS:
            raise FrameError(f"a command id of {len(frame['commandId'])} characters")
        command = Command(frame, now_ns)
        if command.settled is not None:
            self._end(command)
            return [Settled(command, replay)]
        self.running[command.id] = command
        return [Started(command, replay)]

    def _end(self, command: Command) -> None:
        self.running.pop(command.id, None)
        self.ended[command.id] = str(command.identity["program"])
        if len(self.ended) > self._ended_remembered:
            del self.ended[next(iter(self.ended))]
