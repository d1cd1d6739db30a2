"""One command's frames: its identity, its numbers, in sequence. Builds them; sending is the link's business."""

import posix
import time

from sidecar.core import frame_line as wire

TYPE_CHECKING = False  # typing.TYPE_CHECKING, without the 7 ms of importing typing
if TYPE_CHECKING:
    from collections.abc import Callable

    from sidecar.core.output import OutputStats
    from sidecar.core.trace_context import TraceContext
    from sidecar.supervisor.options import RunOptions

    Frame = dict[str, wire.Json]

_MS = 1_000_000
_MAX_TEXT_CHARS = 256
_FRAME_REST_BYTES = 1024
"""What a frame may hold beside the identity: the keys of a settle frame, and what the daemon adds."""


_SUSPENDED_FROM_MS = 1000


def asleep_ns() -> int:
    """How long the machine has slept since it was started; 0 where no clock tells (clock_gettime(2))."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return 0 if clock is None else time.clock_gettime_ns(clock) - time.clock_gettime_ns(time.CLOCK_MONOTONIC)


def uuid7(unix_ms: int, random_bytes: bytes) -> str:
    """A UUIDv7 (RFC 9562, section 5.7) from the time and 10 bytes of entropy."""
    raw = bytearray(unix_ms.to_bytes(6, "big") + random_bytes[:10])
    raw[6] = raw[6] & 0x0F | 0x70
    raw[8] = raw[8] & 0x3F | 0x80
    text = raw.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


class Reports:
    """Makes the frames of one command. `started_ns` is monotonic, `unix_ms` the wall time of the same moment."""

    def __init__(
        self,
        options: "RunOptions",
        context: "TraceContext",
        *,
        io: str,
        started_ns: int,
        unix_ms: int,
        clock_asleep_ns: "Callable[[], int]" = asleep_ns,
    ) -> None:
        self._started_ns = started_ns
        self._timeout_ms = None if options.timeout_ns is None else options.timeout_ns // _MS
        self._seq = -1
        self._clock_asleep_ns = clock_asleep_ns
        self._asleep_ns = clock_asleep_ns()
        self.command_id = uuid7(unix_ms, posix.urandom(10))
        self._identity: Frame = {
            "traceId": context.trace_id,
            "spanId": context.span_id,
            "parentSpanId": context.parent_span_id,
            "traceFlags": f"{context.flags:02x}",
            "traceState": context.trace_state,
            "supervisorPid": posix.getpid(),
            "program": options.argv[0].rpartition("/")[2][:_MAX_TEXT_CHARS],
            "toolName": options.tool_name,
            "toolCallId": options.tool_call_id,
            "sessionId": options.session_id,
            "timeoutMs": self._timeout_ms,
            "silenceTimeoutMs": None if options.silence_timeout_ns is None else options.silence_timeout_ns // _MS,
            "heartbeatIntervalMs": options.heartbeat_interval_ns // _MS,
            "io": io,
            "startUnixMs": unix_ms,
            "startMonotonicMs": started_ns // _MS,
        }

    def complete(self, options: "RunOptions") -> None:
        """What the identity has room for beside what `Reports` was made with, and what the spawn did not wait for:
        the names of `options` that have changed, the bridge's match key, the command line."""
        self._identity["toolCallId"] = options.tool_call_id
        self._identity["sessionId"] = options.session_id
        if options.bridge_id is not None:
            from sidecar.core.match_key import command_text, match_key

            self._identity["bridgeId"] = options.bridge_id
            self._identity["matchKey"] = match_key(options.bridge_id, command_text(options.argv))
        if options.capture_command:
            self._identity["commandLine"] = _command_line(options.argv, self._identity)

    def entry(self) -> bytes:
        """The line that begins the command's entry in the ledger: its start, while it has no pid yet (0)."""
        seq: Frame = {"v": wire.VERSION, "type": wire.STARTED, "commandId": self.command_id, "seq": 0}
        return wire.encode({**seq, **self._identity, "pid": 0})

    def started(self, pid: int) -> "Frame":
        return self._frame(wire.STARTED, {**self._identity, "pid": pid})

    def progress(
        self, stats: "OutputStats", heartbeat_count: int, now_ns: int, verdict: "Frame | None" = None
    ) -> "Frame":
        """A heartbeat: what the wire calls shell_progress. `verdict`: the keys of core.verdict_fields."""
        payload = wire.progress_payload(
            self._elapsed_ms(now_ns),
            last_output_age_ms=self._age_ms(stats, now_ns),
            total_lines=stats.total_lines,
            total_bytes=stats.total_bytes,
            timeout_ms=self._timeout_ms,
        )
        longest_ms = stats.longest_silence_ns(now_ns) // _MS
        fields: Frame = {
            "shellProgress": payload,
            "heartbeatCount": heartbeat_count,
            "longestSilenceMs": longest_ms,
            **(verdict or {}),
        }
        return self._frame(wire.PROGRESS, fields)

    def verdict(self, verdict: "Frame", now_ns: int) -> "Frame":
        """The verdict has changed between heartbeats, or has met a limit. `verdict`: as in core.verdict_fields."""
        return self._frame(wire.VERDICT, {"elapsedMs": self._elapsed_ms(now_ns), **verdict})

    def activity(self, stats: "OutputStats", now_ns: int, *, repeats: bool = False) -> "Frame":
        """For the daemon only: output came since the last frame. `repeats`: it was a spinner or a clock."""
        fields: Frame = {
            "elapsedMs": self._elapsed_ms(now_ns),
            "lastOutputAgeMs": self._age_ms(stats, now_ns) or 0,
            "totalLines": stats.total_lines,
            "totalBytes": stats.total_bytes,
        }
        if repeats:
            fields["repeats"] = True
        return self._frame(wire.ACTIVITY, fields)

    def settled(
        self, reason: str, stats: "OutputStats", heartbeat_count: int, now_ns: int, extra: "Frame"
    ) -> "Frame":
        """The last frame. `extra` is what the end adds: exitCode, signal, descendantsLeft, stop, resource usage."""
        fields: Frame = {
            "reason": reason,
            "elapsedMs": self._elapsed_ms(now_ns),
            "totalBytes": stats.total_bytes,
            "totalLines": stats.total_lines,
            "heartbeatCount": heartbeat_count,
            "lastOutputAgeMs": self._age_ms(stats, now_ns),
            "longestSilenceMs": stats.longest_silence_ns(now_ns) // _MS,
            "descendantsLeft": 0,
            "suspendedMs": self._suspended_ms(),
            **extra,
        }
        return self._frame(wire.SETTLED, fields)

    def spawn_failed(self, error: str) -> "Frame":
        """The only frame of a command whose spawn failed: it carries the identity too."""
        fields: Frame = {
            **self._identity,
            "reason": "spawn_failed",
            "error": error,
            "elapsedMs": 0,
            "totalBytes": 0,
            "totalLines": 0,
            "heartbeatCount": 0,
            "longestSilenceMs": 0,
            "descendantsLeft": 0,
        }
        return self._frame(wire.SETTLED, fields)

    def _frame(self, kind: str, fields: "Frame") -> "Frame":
        self._seq += 1
        return {"v": wire.VERSION, "type": kind, "commandId": self.command_id, "seq": self._seq, **fields}

    def _suspended_ms(self) -> int | None:
        suspended_ms = (self._clock_asleep_ns() - self._asleep_ns) // _MS
        return suspended_ms if suspended_ms >= _SUSPENDED_FROM_MS else None

    def _elapsed_ms(self, now_ns: int) -> int:
        return max(0, now_ns - self._started_ns) // _MS

    def _age_ms(self, stats: "OutputStats", now_ns: int) -> int | None:
        return None if stats.last_output_ns is None else max(0, now_ns - stats.last_output_ns) // _MS


def _command_line(argv: list[str], identity: "Frame") -> str | None:
    """The command line without its secrets, as long as one frame has room for."""
    try:
        # Here, not above: it imports `re`, which costs every other command more than its spawn.
        from sidecar.core.redaction import MAX_BYTES, redact

        room = wire.MAX_FRAME_BYTES - _FRAME_REST_BYTES - len(wire.encode(identity))
        return redact(argv, min(MAX_BYTES, room)) if room > 0 else None
    except Exception:  # noqa: BLE001 - the command never pays for what telemetry fails at, and nothing unredacted goes out
        return None
