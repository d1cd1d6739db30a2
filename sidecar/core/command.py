"""What is known of one command, put together from its frames: the state behind spans, metrics and tables.

Both the daemon (many commands) and the inline mode (one) feed their frames in here. Frames may come twice
(a producer that reconnects replays): one whose seq was seen changes nothing. Pure: the caller gives the clock.
"""

from collections import deque
from typing import TYPE_CHECKING, Any

from sidecar.core import frame as wire
from sidecar.core.curation import Curated
from sidecar.core.errors import FrameError, LifecycleError
from sidecar.core.lifecycle import SETTLE_REASONS, Lifecycle
from sidecar.core.verdict_fields import ADVICE_KEYS, KEYS
from sidecar.core.verdict_names import GROUPS, group_of

if TYPE_CHECKING:
    Frame = dict[str, Any]  # a checked frame: wire.parse has seen each key and its type

_ROUNDING_MS = 100
"""By so much two frames may disagree on when a verdict began, which is much less than a silence takes to get one."""

_RESUMED_KEPT = 256

_WITHOUT_BEATS = ("output_blocked", "stopped")
"""While a command's output is not taken nothing beats; nor where its supervisor was stopped with it, as one job."""


class Beat:
    """One heartbeat, or (`is_heartbeat` False) a change of verdict between two: times are ms since the start."""

    __slots__ = ("elapsed_ms", "is_heartbeat", "last_output_age_ms", "seq", "verdict")

    def __init__(
        self,
        seq: int,
        elapsed_ms: int,
        last_output_age_ms: int | None,
        verdict: str | None,
        *,
        is_heartbeat: bool = True,
    ) -> None:
        self.seq = seq
        self.elapsed_ms = elapsed_ms
        self.last_output_age_ms = last_output_age_ms
        self.verdict = verdict
        self.is_heartbeat = is_heartbeat


class Command:
    """One command as its frames tell it.

    `identity` is the command_started frame (or the settled one of a failed spawn), `settled` the
    command_settled frame once there is one. `received_ns` is the reader's monotonic clock at the last frame
    that told how old the output was, so that ages can be carried forward without trusting another clock.
    """

    def __init__(self, frame: "Frame", now_ns: int) -> None:
        """From the first frame of a command: command_started, or command_settled of a failed spawn."""
        self.lifecycle = Lifecycle()
        self.identity = frame
        self.id: str = frame["commandId"]
        self.settled: Frame | None = None
        self.heartbeat_count = 0
        self.beats: Curated[Beat] = Curated()
        self.verdict: str | None = None
        self.verdict_count = 0
        """Verdicts so far: grows with each other one, and with the same one anew in a later silence."""
        self.finding: Frame = {}
        """All that was said with the verdict: the keys of core.verdict_fields."""
        self._verdict_from_ms = self._verdict_said_ms = self._repeats_from_ms = 0
        self._facts: dict[str, str] = {}
        self._facts_from_ms = 0
        self.total_bytes = 0
        self.total_lines = 0
        self.longest_silence_ms = 0
        self.has_output = False
        self.silence_flagged = False
        self.repeats = False
        """Its output flows, and is a spinner or a clock: it ends no verdict."""
        self.resumed_ms: deque[int] = deque(maxlen=_RESUMED_KEPT)
        """When output came again after a heartbeat or a verdict, as far as it was told; the latest of them."""
        self.told_late = False
        """No frame of it came: it was over when its supervisor's ledger was found."""
        self._received_ns = self._heard_ns = now_ns
        self._elapsed_ms = 0
        self._age_ms = 0
        self._last_seq: int = frame["seq"]
        if frame["type"] == wire.STARTED:
            self.lifecycle.spawned()
        elif frame["type"] == wire.SETTLED and frame["reason"] == "spawn_failed":
            self.lifecycle.spawn_failed()
            self.settled = frame
        else:
            raise FrameError(f"{frame['type']} frame of a command that was never started")

    def apply(self, frame: "Frame", now_ns: int) -> bool:
        """Take a later frame of this command in. False = seen before, or after the end: nothing changed.

        Raises FrameError for a settle reason that does not exist.
        """
        if frame["seq"] <= self._last_seq or self.settled is not None:
            return False
        kind = frame["type"]
        if kind == wire.STARTED:
            raise FrameError("a second command_started frame of the same command")
        if kind == wire.SETTLED:
            self._settle(frame)
        elif kind == wire.PROGRESS:
            self._progress(frame, now_ns)
        elif kind == wire.ACTIVITY:
            repeats = frame.get("repeats", False)
            if repeats and not self.repeats:
                self._repeats_from_ms = frame["elapsedMs"]
            self.repeats = repeats
            if not repeats:
                self._resumed(frame["elapsedMs"] - frame["lastOutputAgeMs"])
            self._output(frame, frame["elapsedMs"], frame["lastOutputAgeMs"], now_ns)
        elif kind == wire.VERDICT:
            self._take_verdict(frame, now_ns)
        self._last_seq = frame["seq"]
        self._heard_ns = now_ns
        return True

    def _resumed(self, output_ms: int) -> None:
        """Output is told of: the first since what was said last of a silence ends that."""
        said_ms = self.beats.kept[-1].elapsed_ms if self.beats.kept else output_ms
        if output_ms > said_ms and not (self.resumed_ms and self.resumed_ms[-1] > said_ms):
            self.resumed_ms.append(output_ms)

    def lose(self, now_ns: int) -> "Frame":
        """The supervisor is gone without a settle frame. Returns the settle frame made in its place."""
        settled: Frame = {
            "v": wire.VERSION,
            "type": wire.SETTLED,
            "commandId": self.id,
            "seq": self._last_seq + 1,
            "reason": "lost",
            "elapsedMs": self.elapsed_ms(now_ns),
            "totalBytes": self.total_bytes,
            "totalLines": self.total_lines,
            "heartbeatCount": self.heartbeat_count,
            "longestSilenceMs": max(self.longest_silence_ms, self.output_age_ms(now_ns)),
            "descendantsLeft": 0,
        }
        if self.has_output:
            settled["lastOutputAgeMs"] = self.output_age_ms(now_ns)
        self.lifecycle.lost()
        self.settled = settled
        return settled

    def elapsed_ms(self, now_ns: int) -> int:
        """Since the spawn; after the end, the whole duration."""
        if self.settled is not None:
            return int(self.settled["elapsedMs"])
        return self._elapsed_ms + (now_ns - self._received_ns) // 1_000_000

    def output_age_ms(self, now_ns: int) -> int:
        """How long ago the last output was, or the start where there was none.

        Between frames this grows with the reader's clock: up to a second too old while output flows (the
        producer says so once a second), exact while there is silence.
        """
        return self._age_ms + (now_ns - self._received_ns) // 1_000_000

    def heartbeat_delay_ms(self, now_ns: int) -> int:
        """For how long a heartbeat is overdue, counted from when it should have come; 0 where none is owed.

        A supervisor that runs says something once an interval: that there is silence, or that output flows.
        """
        interval_ms: int = self.identity["heartbeatIntervalMs"]
        if interval_ms == 0 or self.standing_verdict in _WITHOUT_BEATS:
            return 0
        return max(0, (now_ns - self._heard_ns) // 1_000_000 - interval_ms)

    @property
    def evidence(self) -> list[str]:
        """The facts behind the verdict."""
        evidence: list[str] = self.finding.get("evidence", [])
        return evidence

    @property
    def fact(self) -> str:
        """The weightiest fact behind the verdict, as it was told first with it in this silence; empty if none was.

        Unlike `evidence` it stays the same while its figures move on, and when the verdict comes and goes.
        """
        return self._facts.get(self.verdict or "", "")

    @property
    def standing_verdict(self) -> str | None:
        """The verdict, unless output has ended it."""
        return self.verdict if self.verdict_stands else None

    @property
    def verdict_group(self) -> str:
        """Of the verdict: what its supervisor says, who may know more verdicts than we do; else by its name."""
        group = self.finding.get("group")
        return group if group in GROUPS else group_of(self.verdict)

    @property
    def verdict_stands(self) -> bool:
        """There is a verdict, and no output came since it was said last: output ends what a verdict is about.

        Output that only repeats itself ends nothing.
        """
        if self.verdict is None:
            return False
        return self._verdict_said_ms >= self._silence_from_ms

    def verdict_held_ms(self, now_ns: int) -> int:
        """For how long the verdict has been the same, within this silence; 0 where none stands."""
        if not self.verdict_stands:
            return 0
        held_ms = self.elapsed_ms(now_ns) - self._verdict_from_ms
        return max(0, held_ms if self.repeats else min(held_ms, self.output_age_ms(now_ns)))

    @property
    def _silence_from_ms(self) -> int:
        """When the output ended that a verdict is not about; of output that repeats, the last that was new."""
        return self._repeats_from_ms if self.repeats else self._elapsed_ms - self._age_ms

    @property
    def silent(self) -> bool:
        """A full interval without output has passed, and none came since."""
        return self.silence_flagged and self.settled is None

    def _progress(self, frame: "Frame", now_ns: int) -> None:
        payload = frame["shellProgress"]
        changed = frame.get("verdict") is not None and self._verdict(frame, payload["elapsedMs"])
        age_ms = payload.get("lastOutputAgeMs")
        # A replay carries a selection of the beats: the producer's own count is the right one.
        self.heartbeat_count = frame.get("heartbeatCount", self.heartbeat_count + 1)
        self.silence_flagged = True
        if age_ms is None:
            self._seen(payload["elapsedMs"], payload["elapsedMs"], now_ns)
        else:
            self._output(payload, payload["elapsedMs"], age_ms, now_ns)
            self.silence_flagged = True
        self.longest_silence_ms = max(self.longest_silence_ms, self._age_ms)
        self.beats.add(Beat(frame["seq"], payload["elapsedMs"], age_ms, self.standing_verdict), change=changed)

    def _take_verdict(self, frame: "Frame", now_ns: int) -> None:
        if not self._verdict(frame, frame["elapsedMs"]):
            return  # newer evidence for the same is no event
        # The frame does not say how old the output is; our own clock does, near enough. Not in a replay.
        known = self.has_output and not frame.get("replay")
        age_ms = self.output_age_ms(now_ns) if known else None
        self.beats.add(Beat(frame["seq"], frame["elapsedMs"], age_ms, self.verdict, is_heartbeat=False), change=True)

    def _verdict(self, frame: "Frame", elapsed_ms: int) -> bool:
        """True: another one, or the same that began anew after it was said last (in a later silence)."""
        name = frame["verdict"]
        from_ms = self._verdict_from_ms if name == self.verdict else elapsed_ms
        if "sinceMs" in frame:
            from_ms = elapsed_ms - frame["sinceMs"]
        is_new = name != self.verdict or from_ms > self._verdict_said_ms + _ROUNDING_MS
        self._verdict_from_ms = from_ms
        self._verdict_said_ms = elapsed_ms
        self.verdict = name
        self.finding = {key: frame[key] for key in (*KEYS, *ADVICE_KEYS) if key in frame}
        if abs(self._silence_from_ms - self._facts_from_ms) > _ROUNDING_MS:
            self._facts.clear()
            self._facts_from_ms = self._silence_from_ms
        if self.evidence:
            self._facts.setdefault(name, self.evidence[0])
        self.verdict_count += is_new
        return is_new

    def _output(self, counts: "Frame", elapsed_ms: int, age_ms: int, now_ns: int) -> None:
        self.has_output = True
        # A daemon that was away is told of output that may be old by then.
        self.silence_flagged &= age_ms >= self.identity["heartbeatIntervalMs"] > 0
        self.total_bytes = counts["totalBytes"]
        self.total_lines = counts["totalLines"]
        self._seen(elapsed_ms, age_ms, now_ns)

    def _seen(self, elapsed_ms: int, age_ms: int, now_ns: int) -> None:
        # A frame that waited for its reader, which was frozen, say, is of when it was sent: not later than it came, and
        # as much after the one before as its own clock says.
        sent_ns = self._received_ns + (elapsed_ms - self._elapsed_ms) * 1_000_000
        self._elapsed_ms = elapsed_ms
        self._age_ms = age_ms
        self._received_ns = min(now_ns, sent_ns)

    def _settle(self, frame: "Frame") -> None:
        reason = frame["reason"]
        if reason not in SETTLE_REASONS or reason in ("spawn_failed", "lost"):
            raise FrameError(f"a running command cannot settle as {reason!r:.40}")
        if reason in ("exited", "signaled"):
            self.lifecycle.exited(by_signal=reason == "signaled")
        else:
            try:
                self.lifecycle.stop(reason)
            except LifecycleError as error:  # pragma: no cover - the table allows it from every live state
                raise FrameError(str(error)) from None
            self.lifecycle.exited(by_signal="signal" in frame)
        self.settled = frame
        # The producer's own count is right even where frames were lost on the way.
        self.heartbeat_count = frame["heartbeatCount"]
        self.total_bytes = frame["totalBytes"]
        self.total_lines = frame["totalLines"]
        self.longest_silence_ms = frame["longestSilenceMs"]
        self.has_output = self.has_output or "lastOutputAgeMs" in frame
