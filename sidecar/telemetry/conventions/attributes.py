"""The attributes of spans, events and resources."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

STABLE, DEVELOPMENT = "stable", "development"


@dataclass(frozen=True, slots=True)
class Attribute:
    """An attribute. `stability` is this project's promise; a name from OpenTelemetry says so in `origin`."""

    name: str
    type: str
    unit: str
    example: str
    brief: str
    stability: str = DEVELOPMENT
    origin: str = ""


SPAN_ROLE: Final = "sidecar.span.role"
COMMAND_ID: Final = "sidecar.command.id"
EXECUTABLE_NAME: Final = "process.executable.name"
PID: Final = "process.pid"
EXIT_CODE: Final = "process.exit.code"
COMMAND_LINE: Final = "process.command_line"
ERROR_TYPE: Final = "error.type"
GEN_AI_OPERATION: Final = "gen_ai.operation.name"
GEN_AI_TOOL_NAME: Final = "gen_ai.tool.name"
GEN_AI_TOOL_CALL_ID: Final = "gen_ai.tool.call.id"
GEN_AI_CONVERSATION_ID: Final = "gen_ai.conversation.id"
SESSION_ID: Final = "session.id"
HEARTBEAT_COUNT: Final = "shell.heartbeat_count"
LAST_OUTPUT_AGE_MS: Final = "shell.last_output_age_ms"
ELAPSED_MS: Final = "sidecar.elapsed_ms"
SEQ: Final = "sidecar.seq"
IO: Final = "sidecar.io"
TIMEOUT_MS: Final = "sidecar.timeout_ms"
HEARTBEAT_INTERVAL_MS: Final = "sidecar.heartbeat.interval_ms"
EVENTS_DROPPED: Final = "sidecar.heartbeat.events_dropped"
LONGEST_SILENCE_MS: Final = "sidecar.silence.longest_ms"
OUTPUT_BYTES: Final = "sidecar.output.bytes"
OUTPUT_LINES: Final = "sidecar.output.lines"
SETTLE_REASON: Final = "sidecar.settle.reason"
SIGNAL: Final = "sidecar.settle.signal"
SILENCE_TIMEOUT_MS: Final = "sidecar.silence.timeout_ms"
STOP_ASKED_BY: Final = "sidecar.stop.asked_by"
STOP_EVIDENCE: Final = "sidecar.stop.evidence"
STOP_ELAPSED_MS: Final = "sidecar.stop.elapsed_ms"
STOP_SENT: Final = "sidecar.stop.sent"
STOP_SURVIVOR_COUNT: Final = "sidecar.stop.survivor_count"
STOP_SURVIVORS: Final = "sidecar.stop.survivors"
SUSPENDED_MS: Final = "sidecar.suspended_ms"
VERDICT: Final = "sidecar.verdict"
VERDICT_PREVIOUS: Final = "sidecar.verdict.previous"
VERDICT_LIMIT: Final = "sidecar.verdict.limit"
VERDICT_CONFIDENCE: Final = "sidecar.verdict.confidence"
VERDICT_SINCE_MS: Final = "sidecar.verdict.since_ms"
VERDICT_PROGRESS: Final = "sidecar.verdict.progress"
LEAF_PID: Final = "sidecar.verdict.leaf.pid"
LEAF_NAME: Final = "sidecar.verdict.leaf.name"
VERDICT_GROUP: Final = "sidecar.verdict.group"
EVIDENCE: Final = "sidecar.evidence"
DESCENDANTS_LEFT: Final = "sidecar.descendants_left"
OUTPUT_HELD_BY: Final = "sidecar.output.held_by"
MAX_RSS_BYTES: Final = "sidecar.memory.max_rss_bytes"
CPU_USER_MS: Final = "sidecar.cpu.user_ms"
CPU_SYSTEM_MS: Final = "sidecar.cpu.system_ms"

_OTEL = "OpenTelemetry"
_REFERENCE = "reference implementation"

ATTRIBUTES: Final = {
    attribute.name: attribute
    for attribute in (
        Attribute(SPAN_ROLE, "string", "", "command", "`command`, `started` or `heartbeat`", STABLE),
        Attribute(COMMAND_ID, "string", "", "01890a5d-ac96-774b-bcce-b302099a8057", "The command's id (UUIDv7)"),
        Attribute(EXECUTABLE_NAME, "string", "", "pytest", "The program's name, no folder", STABLE, _OTEL),
        Attribute(PID, "int", "", "4711", "The command's process id; absent if none was made", STABLE, _OTEL),
        Attribute(EXIT_CODE, "int", "", "0", "Exit status; absent if it died by a signal", STABLE, _OTEL),
        Attribute(
            COMMAND_LINE,
            "string",
            "",
            "pytest -x",
            "The redacted command line; only where capture is switched on",
            DEVELOPMENT,
            _OTEL,
        ),
        Attribute(
            ERROR_TYPE,
            "string",
            "",
            "timeout",
            "Set when, and only when, the status is Error: an exit code other than 0, `signal:SIGKILL`, "
            "`timeout`, `silence_timeout`, `cancelled`, `lost`, or the errno of a failed spawn (`ENOENT`)",
            STABLE,
            _OTEL,
        ),
        Attribute(GEN_AI_OPERATION, "string", "", "execute_tool", "With a tool call known", DEVELOPMENT, _OTEL),
        Attribute(GEN_AI_TOOL_NAME, "string", "", "Bash", "The agent's tool that ran it", DEVELOPMENT, _OTEL),
        Attribute(GEN_AI_TOOL_CALL_ID, "string", "", "call_1", "The agent's tool call", DEVELOPMENT, _OTEL),
        Attribute(GEN_AI_CONVERSATION_ID, "string", "", "s-42", "The agent's session", DEVELOPMENT, _OTEL),
        Attribute(SESSION_ID, "string", "", "s-42", "The agent's session", DEVELOPMENT, _OTEL),
        Attribute(HEARTBEAT_COUNT, "int", "", "7", "Heartbeats of the whole command", STABLE, _REFERENCE),
        Attribute(
            LAST_OUTPUT_AGE_MS,
            "int",
            "ms",
            "4021",
            "Age of the last output at that moment; absent without any output",
            STABLE,
            _REFERENCE,
        ),
        Attribute(ELAPSED_MS, "int", "ms", "40007", "Since the command's start, monotonic"),
        Attribute(SEQ, "int", "", "5", "Sequence number of the frame this was made from"),
        Attribute(IO, "string", "", "pipe", "`pipe`, `pty`, or `direct` (the agent's own file or device)"),
        Attribute(TIMEOUT_MS, "int", "ms", "120000", "The effective timeout; absent without one"),
        Attribute(HEARTBEAT_INTERVAL_MS, "int", "ms", "10000", "Silence after which a heartbeat is due"),
        Attribute(EVENTS_DROPPED, "int", "", "2784", "Heartbeat events left out of the command's span"),
        Attribute(LONGEST_SILENCE_MS, "int", "ms", "61000", "The longest time without output"),
        Attribute(OUTPUT_BYTES, "int", "By", "840", "Bytes of output so far"),
        Attribute(OUTPUT_LINES, "int", "", "12", "Lines of output so far"),
        Attribute(
            SETTLE_REASON,
            "string",
            "",
            "exited",
            "`exited`, `signaled`, `timeout`, `silence_timeout`, `cancelled`, `spawn_failed` or `lost`",
            STABLE,
        ),
        Attribute(SIGNAL, "string", "", "SIGKILL", "The signal it died by"),
        Attribute(
            STOP_ASKED_BY,
            "string",
            "",
            "cancel",
            "Who asked for the stop: `timeout`, `silence_timeout`, `signal`, `cancel` or `verdict`; with the other "
            "`sidecar.stop.*` only on a command that was stopped",
        ),
        Attribute(STOP_EVIDENCE, "string", "", "SIGTERM from pid 4711 (node)", "The facts behind it"),
        Attribute(STOP_ELAPSED_MS, "int", "ms", "120000", "When it was asked for, since the command's start"),
        Attribute(
            STOP_SENT,
            "string[]",
            "",
            '["SIGTERM to 3 processes after 120000 ms"]',
            "What was sent, to how many processes and when, in order",
        ),
        Attribute(STOP_SURVIVOR_COUNT, "int", "", "0", "Processes that did not die of SIGKILL"),
        Attribute(STOP_SURVIVORS, "string[]", "", '["4711 dd (D, uninterruptible)"]', "The first of them"),
        Attribute(SILENCE_TIMEOUT_MS, "int", "ms", "600000", "Silence that stops the command; absent without a limit"),
        Attribute(SUSPENDED_MS, "int", "ms", "28800000", "How long the machine slept while the command ran"),
        Attribute(VERDICT, "string", "", "network_wait", "Why it is silent, as far as the kernel can tell"),
        Attribute(VERDICT_PREVIOUS, "string", "", "computing", "The verdict before this one"),
        Attribute(
            VERDICT_GROUP,
            "string",
            "",
            "waiting",
            "`working`, `waiting`, `needs_someone`, `may_be_hung` or `unknown`",
        ),
        Attribute(VERDICT_CONFIDENCE, "string", "", "measured", "`proved`, `measured`, `inferred` or `unknown`"),
        Attribute(VERDICT_SINCE_MS, "int", "ms", "163000", "For how long the verdict has held"),
        Attribute(
            VERDICT_PROGRESS,
            "boolean",
            "",
            "false",
            "Something in its process tree has moved since the look before",
        ),
        Attribute(LEAF_PID, "int", "", "4712", "The process at the end of the chain of waits"),
        Attribute(LEAF_NAME, "string", "", "psql", "The program of that process"),
        Attribute(
            VERDICT_LIMIT,
            "string",
            "",
            "may_be_hung:10m=report",
            "The rule of `--on-verdict` that was met",
        ),
        Attribute(EVIDENCE, "string[]", "", '["peer 10.0.0.7:443 answered 163 s ago"]', "Facts it was drawn from"),
        Attribute(DESCENDANTS_LEFT, "int", "", "1", "Processes that outlived the command"),
        Attribute(
            OUTPUT_HELD_BY,
            "string[]",
            "",
            '["4711 sleep: stdout"]',
            "The first of those that hold its output open, and what",
        ),
        Attribute(MAX_RSS_BYTES, "int", "By", "104857600", "Peak resident memory of the largest process"),
        Attribute(CPU_USER_MS, "int", "ms", "1520", "User CPU time of the tree"),
        Attribute(CPU_SYSTEM_MS, "int", "ms", "210", "System CPU time of the tree"),
    )
}

RESOURCE: Final = {
    attribute.name: attribute
    for attribute in (
        Attribute(
            "service.name",
            "string",
            "",
            "sidecar",
            "Always; OTEL_SERVICE_NAME does not rename it",
            STABLE,
            _OTEL,
        ),
        Attribute("service.version", "string", "", "0.1.0", "This project's version", STABLE, _OTEL),
        Attribute(
            "service.instance.id",
            "string",
            "",
            "6f5c3c1e-63a5-5d8f-9c43-1d6fbc4b41ff",
            "The same for one user's daemon on one host, for ever; random in inline mode, where many processes write",
            STABLE,
            _OTEL,
        ),
        Attribute("host.name", "string", "", "build-7", "The host's name", STABLE, _OTEL),
        Attribute(
            "host.id",
            "string",
            "",
            "b08dfa6083e7567a1921a715000001fb",
            "The machine's id, if it has one",
            STABLE,
            _OTEL,
        ),
        Attribute("telemetry.sdk.name", "string", "", "opentelemetry", "The SDK", STABLE, _OTEL),
        Attribute("telemetry.sdk.language", "string", "", "python", "Its language", STABLE, _OTEL),
        Attribute("telemetry.sdk.version", "string", "", "1.45.2", "Its version", STABLE, _OTEL),
    )
}
