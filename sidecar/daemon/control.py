"""The answers to control requests: which commands run, how the daemon is."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from sidecar import __version__
from sidecar.core import frame as wire
from sidecar.core.command import Command
from sidecar.core.errors import FrameError
from sidecar.core.silences import silences_of
from sidecar.daemon.fanout import counts_of

if TYPE_CHECKING:
    from sidecar.daemon.server import Server

Record = dict[str, Any]

_IDENTITY_KEYS = (
    "commandId",
    "program",
    "pid",
    "supervisorPid",
    "toolName",
    "toolCallId",
    "sessionId",
    "timeoutMs",
    "heartbeatIntervalMs",
    "traceId",
    "io",
)


def list_answer(commands: Iterable[Command], now_ns: int, *, silences: bool = False) -> list[Record]:
    """A `command` record per running command, oldest first, and the `end` record. `silences` adds core.silences."""
    records: list[Record] = []
    for command in commands:
        identity = {key: command.identity[key] for key in _IDENTITY_KEYS if key in command.identity}
        further = {"silences": silences_of(command)} if silences else {}
        records.append({"type": "command", **identity, **counts_of(command, now_ns), **further})
    return [*records, {"type": "end", "count": len(records)}]


def status_answer(server: "Server", pid: int, now_ns: int) -> Record:
    """The `status` record. Counts are since the start of this daemon; `telemetry` is what the sink says."""
    status: Record = {
        "type": "status",
        "pid": pid,
        "version": __version__,
        "socket": server.path,
        "uptimeMs": (now_ns - server.started_ns) // 1_000_000,
        "commands": len(server.registry.running),
        "connections": server.connection_count,
        "subscribers": len(server.fanout.subscribers),
        "subscribersLagged": server.fanout.lagged,
        "framesReceived": server.producers.frames_received,
        "connectionsRefused": server.connections_refused,
    }
    return {**status, "telemetry": _fitting(status, server.sink.status())}


def _fitting(status: Record, telemetry: Record) -> Record:
    """`telemetry`, cut until the answer fits into a line: of its lists (of problems, say) the latest stay."""
    while True:
        try:
            wire.encode({**status, "telemetry": telemetry})
            return telemetry
        except FrameError:
            if not any(isinstance(value, list) and value for value in telemetry.values()):
                return {"truncated": True}
            telemetry = {
                key: value[(len(value) + 1) // 2 :] if isinstance(value, list) else value
                for key, value in telemetry.items()
            }
