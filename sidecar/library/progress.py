"""What is told of a command while it runs: heartbeats, and changes of verdict."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from sidecar.core import frame as wire


@dataclass(frozen=True, slots=True)
class Progress:
    """The command is silent, and this is what can be said of it. Times are seconds.

    kind         "heartbeat": a full interval has passed without output; "verdict": another verdict holds
    elapsed_s    since the command was started
    silent_s     since its last output, or since the start where there was none
    total_bytes, total_lines   of its output so far
    timeout_s    the timeout; None = none
    verdict, group, confidence, since_s, evidence, hint
                 why it is silent (docs/verdicts.md); None and empty while nothing is known
    frame        the frame as it is on the wire (docs/wire.md), and
    started      the command's first one: what the encoders of `sidecar.gateways` take
    """

    kind: Literal["heartbeat", "verdict"]
    command_id: str
    elapsed_s: float
    silent_s: float
    total_bytes: int
    total_lines: int
    timeout_s: float | None
    verdict: str | None
    group: str | None
    confidence: str | None
    since_s: float | None
    evidence: tuple[str, ...]
    hint: str | None
    frame: Mapping[str, Any] = field(repr=False)
    started: Mapping[str, Any] = field(repr=False)

    @property
    def shell_progress(self) -> dict[str, Any] | None:
        """The progress payload of a heartbeat, in the reference's shape."""
        payload = self.frame.get("shellProgress")
        return dict(payload) if isinstance(payload, dict) else None


@dataclass(frozen=True, slots=True)
class Seen:
    """What the reader of the output knows of it: a verdict's frame has no counts."""

    silent_s: float
    total_bytes: int
    total_lines: int


def progress_of(frame: Mapping[str, Any], started: Mapping[str, Any], seen: Seen) -> Progress:
    """From a frame of the type shell_progress or verdict."""
    payload: Mapping[str, Any] = frame.get("shellProgress") or {}
    elapsed_ms: int = payload.get("elapsedMs", frame.get("elapsedMs", 0))
    is_heartbeat = frame["type"] == wire.PROGRESS
    if is_heartbeat:
        seen = Seen(
            payload.get("lastOutputAgeMs", elapsed_ms) / 1000,
            payload.get("totalBytes", 0),
            payload.get("totalLines", 0),
        )
    since_ms, timeout_ms = frame.get("sinceMs"), started.get("timeoutMs")
    return Progress(
        kind="heartbeat" if is_heartbeat else "verdict",
        command_id=frame["commandId"],
        elapsed_s=elapsed_ms / 1000,
        silent_s=seen.silent_s,
        total_bytes=seen.total_bytes,
        total_lines=seen.total_lines,
        timeout_s=None if timeout_ms is None else timeout_ms / 1000,
        verdict=frame.get("verdict"),
        group=frame.get("group"),
        confidence=frame.get("confidence"),
        since_s=None if since_ms is None else since_ms / 1000,
        evidence=tuple(frame.get("evidence") or ()),
        hint=frame.get("hint"),
        frame=frame,
        started=started,
    )
