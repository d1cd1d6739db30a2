"""What every bridge keeps of the commands that run behind it: which are its own, whose call each is, what was told.

Pure. It is told what the daemon says (records of the format ndjson); the bridge of a protocol says which calls may be
beaten for, and what a heartbeat is called there.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sidecar.core import frame as wire
from sidecar.gateways.context import Record
from sidecar.gateways.gate import Call
from sidecar.gateways.matching import Matcher

_SNAPSHOT = "snapshot"
"""The first word of a daemon to a subscriber (docs/wire.md): what runs is told anew behind it."""


@dataclass(frozen=True, slots=True)
class News:
    """A heartbeat, or a change of verdict, of a command that belongs to a call which may be told of now.

    `frame` is in the producer's words (docs/wire.md). `verdict_is_new`: the client has not been told of it yet.
    """

    call: Call
    command: Record
    record: Record
    frame: Record
    verdict_is_new: bool


class Commands:
    """One bridge's commands. Nothing raises, whatever the record is."""

    def __init__(self, bridge_id: str, matcher: Matcher) -> None:
        self._bridge_id = bridge_id
        self._matcher = matcher
        self._commands: dict[str, Record] = {}
        self._told: dict[str, str] = {}

    def news(self, record: Record, running: Iterable[Call]) -> News | None:
        """What is to be told of a record; `running` are the calls that may be beaten for, oldest first."""
        kind = record.get("type")
        if kind == wire.STARTED:
            self._started(record, running)
            return None
        if kind == wire.SETTLED:
            self._forget(str(record.get("commandId")), running)
            return None
        if kind == _SNAPSHOT:
            self._commands.clear()
            self._told.clear()
            self._matcher.commands_unknown()
            return None
        frame = record if kind == wire.VERDICT else frame_of(record)
        command_id = str(frame.get("commandId"))
        command = self._commands.get(command_id)
        if command is None:
            return None
        running = list(running)
        call = self._matcher.call_of(command_id, running)
        if call is None or call not in running:
            return None
        verdict = frame.get("verdict")
        return News(call, command, record, frame, verdict is not None and verdict != self._told.get(command_id))

    def told(self, news: News) -> None:
        """The client has the verdict now."""
        verdict = news.frame.get("verdict")
        if verdict is not None:
            self._told[news.command["commandId"]] = verdict

    def _started(self, record: Record, running: Iterable[Call]) -> None:
        command_id = record.get("commandId")
        if record.get("bridgeId") == self._bridge_id and isinstance(command_id, str):
            self._commands[command_id] = record
            self._matcher.command_started(
                command_id, record.get("toolCallId"), record.get("matchKey"), record.get("sessionId"), running
            )

    def _forget(self, command_id: str, running: Iterable[Call]) -> None:
        self._commands.pop(command_id, None)
        self._told.pop(command_id, None)
        self._matcher.command_ended(command_id, running)


def frame_of(native: Mapping[str, Any]) -> Record:
    """A heartbeat in the producer's words, from the native format that subscribers get."""
    meta = mapping(native.get("_meta"))
    if "shellProgress" not in meta:
        return {}
    return {**mapping(meta.get("sidecar")), "type": wire.PROGRESS, "shellProgress": meta["shellProgress"]}


def mapping(value: object) -> Mapping[str, Any]:
    """The value where it is an object, else an empty one: nothing that an agent says is believed to have a shape."""
    return value if isinstance(value, Mapping) else {}
