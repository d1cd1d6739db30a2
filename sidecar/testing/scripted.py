"""A command that never ran: its frames, made on a fake clock, and the state they add up to."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from sidecar.core import frame as wire
from sidecar.core.command import Command

if TYPE_CHECKING:
    from sidecar.testing.clock import FakeClock

    Frame = dict[str, Any]

_NS_PER_MS = 1_000_000


class ScriptedCommand:
    """Plays a supervisor's part. Each step returns the frame, which `command` has taken in already.

    `identity` overrides or adds keys of the command_started frame (a key with the value None is left out).
    All frames went through the wire's own encoder and parser.
    """

    def __init__(self, clock: FakeClock, program: str = "make", **identity: Any) -> None:
        self._clock = clock
        self._started_ns = clock.monotonic_ns()
        self._last_output_ns: int | None = None
        self._longest_ns = 0
        self._bytes = 0
        self._lines = 0
        self._beats = 0
        self._seq = -1
        self.id: str = identity.pop("commandId", None) or f"0190-{os.urandom(8).hex()}"
        self.identity: Frame = {
            "traceId": os.urandom(16).hex(),
            "spanId": os.urandom(8).hex(),
            "traceFlags": "01",
            "pid": 4711,
            "supervisorPid": 4710,
            "program": program,
            "heartbeatIntervalMs": 10_000,
            "io": "pipe",
            "startUnixMs": clock.unix_ns() // _NS_PER_MS,
            "startMonotonicMs": self._started_ns // _NS_PER_MS,
            **identity,
        }
        self._command: Command | None = None

    @property
    def command(self) -> Command:
        if self._command is None:
            raise RuntimeError("the scripted command was not started")
        return self._command

    @property
    def trace_id(self) -> str:
        return str(self.identity["traceId"])

    @property
    def span_id(self) -> str:
        return str(self.identity["spanId"])

    def start(self) -> Command:
        self._command = Command(self._frame(wire.STARTED, self.identity), self._clock.monotonic_ns())
        return self._command

    def fail_to_spawn(self, error: str = "ENOENT") -> Command:
        identity = {key: value for key, value in self.identity.items() if key != "pid"}
        frame = self._frame(wire.SETTLED, {**identity, **self._totals(), "reason": "spawn_failed", "error": error})
        self._command = Command(frame, self._clock.monotonic_ns())
        return self._command

    def write(self, size_bytes: int = 80, lines: int = 1) -> Frame:
        """Output now; the frame that tells the daemon of it."""
        now_ns = self._clock.monotonic_ns()
        self._longest_ns = max(self._longest_ns, self._silence_ns())
        self._last_output_ns = now_ns
        self._bytes += size_bytes
        self._lines += lines
        return self._apply(
            wire.ACTIVITY,
            {
                "elapsedMs": self._elapsed_ms(),
                "lastOutputAgeMs": 0,
                "totalLines": self._lines,
                "totalBytes": self._bytes,
            },
        )

    def beat(self, verdict: str | None = None, evidence: list[str] | None = None, **finding: Any) -> Frame:
        """`finding`: further keys of core.verdict_fields."""
        self._beats += 1
        payload = wire.progress_payload(
            self._elapsed_ms(),
            last_output_age_ms=self._age_ms(),
            total_lines=self._lines,
            total_bytes=self._bytes,
            timeout_ms=self.identity.get("timeoutMs"),
        )
        fields = {"shellProgress": payload, "verdict": verdict, "evidence": evidence, **finding}
        return self._apply(wire.PROGRESS, fields)

    def judge(self, verdict: str, evidence: list[str] | None = None, **finding: Any) -> Frame:
        """The verdict changed between two heartbeats."""
        fields = {"elapsedMs": self._elapsed_ms(), "verdict": verdict, "evidence": evidence, **finding}
        return self._apply(wire.VERDICT, fields)

    def settle(self, reason: str = "exited", **fields: Any) -> Frame:
        """The end. Without `exitCode` or `signal` an `exited` command exits with 0."""
        if reason == "exited":
            fields.setdefault("exitCode", 0)
        return self._apply(wire.SETTLED, {**self._totals(), "reason": reason, **fields})

    def lose(self) -> Frame:
        """The supervisor is gone."""
        return self.command.lose(self._clock.monotonic_ns())

    def _totals(self) -> Frame:
        return {
            "elapsedMs": self._elapsed_ms(),
            "totalBytes": self._bytes,
            "totalLines": self._lines,
            "heartbeatCount": self._beats,
            "lastOutputAgeMs": self._age_ms(),
            "longestSilenceMs": max(self._longest_ns, self._silence_ns()) // _NS_PER_MS,
            "descendantsLeft": 0,
        }

    def _apply(self, kind: str, fields: Frame) -> Frame:
        frame = self._frame(kind, fields)
        self.command.apply(frame, self._clock.monotonic_ns())
        return frame

    def _frame(self, kind: str, fields: Frame) -> Frame:
        self._seq += 1
        line = wire.encode({"v": wire.VERSION, "type": kind, "commandId": self.id, "seq": self._seq, **fields})
        frame = wire.parse(line)
        if frame is None:
            raise ValueError(f"the wire does not know the type {kind!r}")
        return frame

    def _elapsed_ms(self) -> int:
        return (self._clock.monotonic_ns() - self._started_ns) // _NS_PER_MS

    def _silence_ns(self) -> int:
        since_ns = self._started_ns if self._last_output_ns is None else self._last_output_ns
        return self._clock.monotonic_ns() - since_ns

    def _age_ms(self) -> int | None:
        return None if self._last_output_ns is None else self._silence_ns() // _NS_PER_MS
