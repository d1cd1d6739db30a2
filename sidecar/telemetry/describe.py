"""A command as attributes: the same words on its spans and in its log events."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sidecar.core.receipt import sent_in_words
from sidecar.telemetry.conventions import attributes as a

if TYPE_CHECKING:
    from typing import Any

    from sidecar.core.command import Command

    Attributes = dict[str, str | int | float | bool | list[str]]


def who(command: Command) -> Attributes:
    """Which command this is, and whose."""
    frame = command.identity
    attributes = _present(
        {
            a.COMMAND_ID: command.id,
            a.EXECUTABLE_NAME: frame["program"],
            a.PID: frame.get("pid"),
            a.SESSION_ID: frame.get("sessionId"),
            a.GEN_AI_CONVERSATION_ID: frame.get("sessionId"),
        }
    )
    if "toolCallId" in frame or "toolName" in frame:
        attributes[a.GEN_AI_OPERATION] = "execute_tool"
        attributes |= _present(
            {
                a.GEN_AI_TOOL_NAME: frame.get("toolName"),
                a.GEN_AI_TOOL_CALL_ID: frame.get("toolCallId"),
            }
        )
    return attributes


def how(command: Command) -> Attributes:
    """How it was started. The command line where the supervisor was asked for it: redacted, by then."""
    frame = command.identity
    return _present(
        {
            a.COMMAND_LINE: frame.get("commandLine"),
            a.IO: frame["io"],
            a.TIMEOUT_MS: frame.get("timeoutMs"),
            a.SILENCE_TIMEOUT_MS: frame.get("silenceTimeoutMs"),
            a.HEARTBEAT_INTERVAL_MS: frame["heartbeatIntervalMs"],
        }
    )


def moment(command: Command, elapsed_ms: int, age_ms: int | None) -> Attributes:
    """What is known at `elapsed_ms`. `age_ms` is None without any output so far."""
    attributes = _present(
        {
            a.ELAPSED_MS: elapsed_ms,
            a.LAST_OUTPUT_AGE_MS: age_ms,
            a.TIMEOUT_MS: command.identity.get("timeoutMs"),
        }
    )
    if command.has_output:
        attributes |= {a.OUTPUT_BYTES: command.total_bytes, a.OUTPUT_LINES: command.total_lines}
    return attributes | (_verdict(command) if command.verdict_stands else {})


def _verdict(command: Command) -> Attributes:
    found = command.finding
    leaf = found.get("leaf", {})
    return _present(
        {
            a.VERDICT: command.verdict,
            a.VERDICT_GROUP: command.verdict_group,
            a.VERDICT_CONFIDENCE: found.get("confidence"),
            a.VERDICT_SINCE_MS: found.get("sinceMs"),
            a.VERDICT_PROGRESS: found.get("progress"),
            a.LEAF_PID: leaf.get("pid"),
            a.LEAF_NAME: leaf.get("program"),
            a.EVIDENCE: command.evidence or None,
        }
    )


def end(command: Command) -> Attributes:
    """How it ended. The command must be settled."""
    frame = settled_frame(command)
    return _present(
        {
            a.EXIT_CODE: frame.get("exitCode"),
            a.ERROR_TYPE: error_type(frame),
            a.HEARTBEAT_COUNT: command.heartbeat_count,
            a.LAST_OUTPUT_AGE_MS: frame.get("lastOutputAgeMs"),
            a.LONGEST_SILENCE_MS: frame["longestSilenceMs"],
            a.OUTPUT_BYTES: frame["totalBytes"],
            a.OUTPUT_LINES: frame["totalLines"],
            a.SETTLE_REASON: frame["reason"],
            a.SIGNAL: frame.get("signal"),
            a.VERDICT: command.verdict,
            a.VERDICT_GROUP: None if command.verdict is None else command.verdict_group,
            a.EVIDENCE: command.evidence or None,
            a.DESCENDANTS_LEFT: frame["descendantsLeft"],
            a.OUTPUT_HELD_BY: frame.get("outputHeldBy"),
            a.MAX_RSS_BYTES: frame.get("maxRssBytes"),
            a.CPU_USER_MS: frame.get("cpuUserMs"),
            a.CPU_SYSTEM_MS: frame.get("cpuSystemMs"),
            a.SUSPENDED_MS: frame.get("suspendedMs"),
            **_stop(frame.get("stop")),
        }
    )


def _stop(receipt: dict[str, Any] | None) -> dict[str, Any]:
    """The receipt of a stop (core/receipt.py); nothing for a command that was not stopped."""
    if receipt is None:
        return {}
    return {
        a.STOP_ASKED_BY: receipt["askedBy"],
        a.STOP_EVIDENCE: receipt.get("evidence"),
        a.STOP_ELAPSED_MS: receipt["atMs"],
        a.STOP_SENT: list(sent_in_words(receipt)),
        a.STOP_SURVIVOR_COUNT: receipt["survivorCount"],
        a.STOP_SURVIVORS: receipt.get("survivors"),
    }


def error_type(settled: dict[str, Any]) -> str | None:
    """`error.type` of a command_settled frame; None for a command that succeeded."""
    reason = settled["reason"]
    if reason == "exited":
        code = settled.get("exitCode", 0)
        return str(code) if code else None
    if reason == "signaled":
        return f"signal:{settled.get('signal', 'unknown')}"
    if reason == "spawn_failed":
        return str(settled.get("error", reason))
    return str(reason)


def settled_frame(command: Command) -> dict[str, Any]:
    """The command's settle frame. ValueError while it runs: that is the caller's mistake."""
    if command.settled is None:
        raise ValueError(f"command {command.id} has not settled")
    return command.settled


def _present(attributes: dict[str, Any]) -> Attributes:
    return {name: value for name, value in attributes.items() if value is not None}
