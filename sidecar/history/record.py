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
_SAME_SILENCE_MS: Final = 1000
"""Two beats whose silences begin so near to each other tell of one: ages are rounded, and clocks are read twice."""


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


def silences_of(command: Command) -> list[list[Any]]:
    """The silences that were long enough for a heartbeat or a verdict: from, to, and the verdicts as they changed."""
    silences: list[list[Any]] = []
    for beat in command.beats.kept:
        from_ms = 0 if beat.last_output_age_ms is None else max(0, beat.elapsed_ms - beat.last_output_age_ms)
        # A verdict between heartbeats may not know how old the output is: it is of the silence that goes on.
        unknown = beat.last_output_age_ms is None and not beat.is_heartbeat
        if not silences or (not unknown and from_ms > silences[-1][0] + _SAME_SILENCE_MS):
            silences.append([from_ms, beat.elapsed_ms, []])
        silence = silences[-1]
        silence[1] = beat.elapsed_ms
        if beat.verdict is not None and (not silence[2] or silence[2][-1][1] != beat.verdict):
            silence[2].append([beat.elapsed_ms, beat.verdict])
    if silences and command.settled is not None and "lastOutputAgeMs" in command.settled:
        elapsed_ms, age_ms = command.settled["elapsedMs"], command.settled["lastOutputAgeMs"]
        if elapsed_ms - age_ms <= silences[-1][0] + _SAME_SILENCE_MS:
            silences[-1][1] = elapsed_ms  # it was silent to its end
    elif silences and command.settled is not None and not command.has_output:
        silences[-1][1] = command.settled["elapsedMs"]
    return silences
