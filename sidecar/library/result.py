"""How a command ended, and what it wrote."""

import errno
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sidecar.library.captured import Captured
from sidecar.library.progress import Progress
from sidecar.supervisor.leave import TIMEOUT_EXIT_CODE
from sidecar.supervisor.spawn import SpawnError


@dataclass(frozen=True, slots=True)
class Result:
    """Times are seconds.

    reason            "exited", "signaled", "timeout", "silence_timeout", "cancelled" or "spawn_failed"
    exit_code         as the agent's shell tool would see it: 124 timeout, 126 and 127 not started; None = by a signal
    signal            "SIGKILL"; None = it exited. Both None: nobody knows, for its supervisor was killed, and somebody
                      else in this program has waited for that
    stdout, stderr    what it wrote; of more than max_output_bytes the first half and the last half
    dropped_bytes     how much of both is missing in between
    elapsed_s         from its start to its end
    longest_silence_s, heartbeat_count
    verdict           the last one, while it was silent; None = there was none, or output has ended it
    stop              the receipt of a stop (docs/wire.md): who asked, what was sent, what survived; None = nobody did
    descendants_left  processes of it that live on
    command_id, trace_id   by which telemetry has it
    supervised        False where the machine had no room for a supervisor: then only what the exit status says is known
    frame             the last frame, as on the wire
    """

    reason: str
    exit_code: int | None
    signal: str | None
    stdout: bytes
    stderr: bytes
    dropped_bytes: int
    elapsed_s: float
    longest_silence_s: float
    heartbeat_count: int
    verdict: Progress | None
    stop: Mapping[str, Any] | None
    descendants_left: int
    command_id: str | None
    trace_id: str | None
    supervised: bool
    frame: Mapping[str, Any] | None = field(repr=False)

    @property
    def ok(self) -> bool:
        """It exited by itself, with 0."""
        return self.reason == "exited" and self.exit_code == 0

    @property
    def text(self) -> str:
        """stdout as text; what is no UTF-8 becomes U+FFFD."""
        return self.stdout.decode("utf-8", "replace")


def result_of(
    status: int | None,
    started: Mapping[str, Any] | None,
    settled: Mapping[str, Any] | None,
    verdict: Progress | None,
    stdout: Captured,
    stderr: Captured,
    elapsed_s: float,
    *,
    cancelled: bool,
) -> Result:
    """`status` is the supervisor's, as subprocess has it: -N for death by signal N; None = not to be had."""
    frame: Mapping[str, Any] = settled or {}
    identity: Mapping[str, Any] = started or frame
    if status is None:
        exit_code, signal_name = _ending_of(frame)
    else:
        exit_code, signal_name = (status, None) if status >= 0 else (None, _signal_name(-status))
    # Without a last frame the supervisor was killed, or asked to stop before it was one.
    unsaid = "cancelled" if cancelled else "signaled" if signal_name is not None else "exited"
    return Result(
        reason=frame.get("reason", unsaid),
        exit_code=exit_code,
        signal=signal_name,
        stdout=stdout.bytes(),
        stderr=stderr.bytes(),
        dropped_bytes=stdout.dropped_bytes + stderr.dropped_bytes,
        elapsed_s=frame["elapsedMs"] / 1000 if settled else elapsed_s,
        longest_silence_s=frame.get("longestSilenceMs", 0) / 1000,
        heartbeat_count=frame.get("heartbeatCount", 0),
        verdict=verdict,
        stop=frame.get("stop"),
        descendants_left=frame.get("descendantsLeft", 0),
        command_id=identity.get("commandId"),
        trace_id=identity.get("traceId"),
        supervised=settled is not None,
        frame=settled,
    )


def _ending_of(frame: Mapping[str, Any]) -> tuple[int | None, str | None]:
    """(exit code, signal) by the last frame: what the supervisor's own status would say."""
    reason = frame.get("reason")
    if reason in ("timeout", "silence_timeout"):
        return TIMEOUT_EXIT_CODE, None
    if reason == "spawn_failed":
        return SpawnError(getattr(errno, str(frame.get("error")), 0), "").exit_code, None
    return frame.get("exitCode"), frame.get("signal")


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"SIG{number}"
