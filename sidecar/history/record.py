"""What is kept of a command that has ended. Pure.

A record is a JSON object. All times are milliseconds; a `?` = may be absent:

    commandId program startUnixMs elapsedMs reason heartbeatCount longestSilenceMs totalBytes totalLines
    descendantsLeft pid? toolName? toolCallId? sessionId? traceId? timeoutMs? commandLine? exitCode? signal? error?
    cpuUserMs? cpuSystemMs? maxRssBytes? outputHeldBy? stop?     as in the frames (docs/wire.md)
    verdict? group? confidence? evidence? leaf? hint? unseen?    the last verdict, whether or not output has ended it
    silences   [[fromMs, toMs, [[atMs, verdict], ...]], ...]     since the start, as far as heartbeats tell
"""

from typing import Any, Final

from sidecar.core.command import Command
from sidecar.core.silences import silences_of
from sidecar.core.verdict_fields import ADVICE_KEYS, KEYS

Record = dict[str, Any]

_IDENTITY: Final = (
    "commandId",
    "program",
    "pid",
    "toolName",
    "toolCallId",
    "sessionId",
    "traceId",
    "timeoutMs",
    "commandLine",
    "startUnixMs",
)
_SETTLED: Final = (
    "elapsedMs",
    "reason",
    "exitCode",
    "signal",
    "error",
    "heartbeatCount",
    "longestSilenceMs",
    "totalBytes",
    "totalLines",
    "descendantsLeft",
    "outputHeldBy",
    "maxRssBytes",
    "cpuUserMs",
    "cpuSystemMs",
    "stop",
)


def record_of(command: Command) -> Record:
    """`command` has settled."""
    settled = command.settled or {}
    record: Record = {key: command.identity[key] for key in _IDENTITY if key in command.identity}
    record |= {key: settled[key] for key in _SETTLED if key in settled}
    if command.finding:
        record |= {key: command.finding[key] for key in (*KEYS, *ADVICE_KEYS) if key in command.finding}
        record["group"] = command.verdict_group
        # They were of the moment of the look.
        for key in ("sinceMs", "alive", "progress"):
            record.pop(key, None)
    record["silences"] = silences_of(command)
    return record
