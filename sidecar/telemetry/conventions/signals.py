"""The spans, by role, the events on them, and the log events; with the attributes each can have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sidecar.telemetry.conventions.attributes import (
    COMMAND_ID,
    COMMAND_LINE,
    CPU_SYSTEM_MS,
    CPU_USER_MS,
    DESCENDANTS_LEFT,
    DEVELOPMENT,
    ELAPSED_MS,
    ERROR_TYPE,
    EVENTS_DROPPED,
    EVIDENCE,
    EXECUTABLE_NAME,
    EXIT_CODE,
    GEN_AI_CONVERSATION_ID,
    GEN_AI_OPERATION,
    GEN_AI_TOOL_CALL_ID,
    GEN_AI_TOOL_NAME,
    HEARTBEAT_COUNT,
    HEARTBEAT_INTERVAL_MS,
    IO,
    LAST_OUTPUT_AGE_MS,
    LEAF_NAME,
    LEAF_PID,
    LONGEST_SILENCE_MS,
    MAX_RSS_BYTES,
    OUTPUT_BYTES,
    OUTPUT_HELD_BY,
    OUTPUT_LINES,
    PID,
    SEQ,
    SESSION_ID,
    SETTLE_REASON,
    SIGNAL,
    SILENCE_TIMEOUT_MS,
    SPAN_ROLE,
    STABLE,
    STOP_ASKED_BY,
    STOP_ELAPSED_MS,
    STOP_EVIDENCE,
    STOP_SENT,
    STOP_SURVIVOR_COUNT,
    STOP_SURVIVORS,
    SUSPENDED_MS,
    TIMEOUT_MS,
    VERDICT,
    VERDICT_CONFIDENCE,
    VERDICT_GROUP,
    VERDICT_LIMIT,
    VERDICT_PREVIOUS,
    VERDICT_PROGRESS,
    VERDICT_SINCE_MS,
)


@dataclass(frozen=True, slots=True)
class Signal:
    """A span (by its role), or an event, and the attributes it can have.

    `example` is a span's name, or the body of a log event.
    """

    name: str
    brief: str
    example: str
    attributes: tuple[str, ...]
    stability: str = DEVELOPMENT


_WHO = (
    COMMAND_ID,
    EXECUTABLE_NAME,
    PID,
    GEN_AI_OPERATION,
    GEN_AI_TOOL_NAME,
    GEN_AI_TOOL_CALL_ID,
    GEN_AI_CONVERSATION_ID,
    SESSION_ID,
)
_MOMENT = (
    ELAPSED_MS,
    LAST_OUTPUT_AGE_MS,
    OUTPUT_BYTES,
    OUTPUT_LINES,
    TIMEOUT_MS,
    VERDICT,
    VERDICT_GROUP,
    VERDICT_CONFIDENCE,
    VERDICT_SINCE_MS,
    VERDICT_PROGRESS,
    LEAF_PID,
    LEAF_NAME,
    EVIDENCE,
)
_END = (
    EXIT_CODE,
    ERROR_TYPE,
    HEARTBEAT_COUNT,
    LAST_OUTPUT_AGE_MS,
    LONGEST_SILENCE_MS,
    OUTPUT_BYTES,
    OUTPUT_LINES,
    SETTLE_REASON,
    SIGNAL,
    VERDICT,
    VERDICT_GROUP,
    EVIDENCE,
    DESCENDANTS_LEFT,
    OUTPUT_HELD_BY,
    MAX_RSS_BYTES,
    CPU_USER_MS,
    CPU_SYSTEM_MS,
    SUSPENDED_MS,
    STOP_ASKED_BY,
    STOP_EVIDENCE,
    STOP_ELAPSED_MS,
    STOP_SENT,
    STOP_SURVIVOR_COUNT,
    STOP_SURVIVORS,
)
_HOW = (COMMAND_LINE, IO, TIMEOUT_MS, SILENCE_TIMEOUT_MS, HEARTBEAT_INTERVAL_MS)

_SUPERVISORS = (
    *(EXIT_CODE, SIGNAL, OUTPUT_HELD_BY, MAX_RSS_BYTES, CPU_USER_MS, CPU_SYSTEM_MS, SUSPENDED_MS),
    *(STOP_ASKED_BY, STOP_EVIDENCE, STOP_ELAPSED_MS, STOP_SENT, STOP_SURVIVOR_COUNT, STOP_SURVIVORS),
)
"""Of those, what only the supervisor can say."""

ROLE_COMMAND, ROLE_STARTED, ROLE_HEARTBEAT = "command", "started", "heartbeat"
STARTED: Final = "sidecar.started"
HEARTBEAT: Final = "sidecar.heartbeat"
VERDICT_EVENT: Final = "sidecar.verdict"
SETTLED: Final = "sidecar.settled"
LOST: Final = "sidecar.lost"

SPANS: Final = {
    span.name: span
    for span in (
        Signal(
            ROLE_COMMAND,
            "The command, named as its program; kind CLIENT; exported once, when it has ended. Its id is "
            "what the command finds in TRACEPARENT. Status Error when `error.type` is set.",
            "pytest",
            (SPAN_ROLE, *_WHO, *_HOW, EVENTS_DROPPED, *_END),
            STABLE,
        ),
        Signal(
            ROLE_STARTED,
            "`sidecar.started`: of no length but a nanosecond, child of the command, exported when the command starts.",
            "sidecar.started",
            (SPAN_ROLE, *_WHO, *_HOW),
            STABLE,
        ),
        Signal(
            ROLE_HEARTBEAT,
            "`sidecar.heartbeat`: from the last output to now, child of the command, exported at once. "
            "Thinned out to 10, 20, 40, 60, 60 ... seconds; a change of verdict is sent at once, and one of a verdict "
            "that flaps within a minute.",
            "sidecar.heartbeat",
            (SPAN_ROLE, *_WHO, HEARTBEAT_COUNT, *_MOMENT),
            STABLE,
        ),
    )
}

SPAN_EVENTS: Final = {
    event.name: event
    for event in (
        Signal(
            HEARTBEAT,
            "A heartbeat: on its own live span, and, curated, on the command's.",
            "sidecar.heartbeat",
            (ELAPSED_MS, LAST_OUTPUT_AGE_MS, VERDICT, EVIDENCE, SEQ),
        ),
        Signal(
            VERDICT_EVENT,
            "A change of verdict between heartbeats; in the same places.",
            "sidecar.verdict",
            (ELAPSED_MS, LAST_OUTPUT_AGE_MS, VERDICT, EVIDENCE, SEQ),
        ),
    )
}

LOG_EVENTS: Final = {
    event.name: event
    for event in (
        Signal(
            STARTED,
            "The command was started.",
            "pytest started",
            (*_WHO, *_HOW),
        ),
        Signal(
            HEARTBEAT,
            "A full interval without output has passed.",
            "pytest still runs after 14.0 s, last output 10.0 s ago, network_wait",
            (*_WHO, HEARTBEAT_COUNT, SEQ, *_MOMENT),
        ),
        Signal(
            VERDICT_EVENT,
            "The verdict changed.",
            "pytest is now network_peer_dead after 17.0 s",
            (*_WHO, VERDICT_PREVIOUS, VERDICT_LIMIT, SEQ, *_MOMENT),
        ),
        Signal(
            SETTLED,
            "The command has ended.",
            "pytest ended after 20.0 s: exited (2)",
            (*_WHO, ELAPSED_MS, TIMEOUT_MS, *_END),
        ),
        Signal(
            LOST,
            "The supervisor is gone and nobody settled the command. Nobody knows how it ended.",
            "make was lost after 30.0 s: its supervisor is gone",
            (*_WHO, ELAPSED_MS, TIMEOUT_MS, *(name for name in _END if name not in _SUPERVISORS)),
        ),
    )
}
