"""What arrived during the demo, told as facts, and what is still missing at its end. Pure: no I/O, no clock.

The demo plays the part of the agent (it makes the trace id and the tool call id of each command) and of the
operator (it gets frames, spans, metrics and logs). By those ids each arrival is put down to its command.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sidecar.core.values import counted

if TYPE_CHECKING:
    from sidecar.testing.received import ReceivedLog, ReceivedMetric, ReceivedSpan

FRAME, SPAN, METRIC, LOG, EXIT = "frame", "span", "metric", "log", "exit"


@dataclass(frozen=True, slots=True)
class Fact:
    """One line of the demo: when (seconds since the first command), by which way, about whom, and what."""

    at_s: float
    source: str
    who: str
    text: str


@dataclass(slots=True)
class Part:
    """One command of the demo: what was expected of it, and what was seen."""

    name: str
    shown_command: str
    trace_id: str
    expected_exit: int
    expected_reason: str
    expected_beats: int
    exit_code: int | None = None
    ended_s: float | None = None
    started_frames: int = 0
    beat_frames: int = 0
    settled_reason: str | None = None
    live_spans: int = 0
    live_spans_in_time: int = 0
    heartbeat_spans: int = 0
    command_span: "ReceivedSpan | None" = None
    faults: list[str] = field(default_factory=list)

    @property
    def tool_call_id(self) -> str:
        return f"demo-{self.name}"

    def missing(self) -> list[str]:
        """What should have arrived and did not, or arrived otherwise; empty = all is well."""
        wrong = list(self.faults)
        if self.exit_code != self.expected_exit:
            # Everything else follows from it, and would only hide it.
            return self._named([f"exit code {self.exit_code} instead of {self.expected_exit}", *wrong])
        if self.started_frames != 1:
            wrong.append(f"{self.started_frames} started frames instead of 1")
        if self.beat_frames != self.expected_beats:
            wrong.append(f"{self.beat_frames} heartbeat frames instead of {self.expected_beats}")
        if self.settled_reason != self.expected_reason:
            wrong.append(f"settled as {self.settled_reason} instead of {self.expected_reason}")
        if self.live_spans == self.heartbeat_spans:
            wrong.append("no sidecar.started span")
        if self.expected_beats and not self.heartbeat_spans:
            wrong.append("no sidecar.heartbeat span")
        if self.live_spans_in_time < min(self.live_spans, 1 + (self.expected_beats > 0)):
            wrong.append("the live spans arrived only after its end")
        if self.command_span is None:
            wrong.append("no span of the command itself")
        elif self.command_span.attributes.get("shell.heartbeat_count") != self.expected_beats:
            count = self.command_span.attributes.get("shell.heartbeat_count")
            wrong.append(f"shell.heartbeat_count is {count} instead of {self.expected_beats}")
        return self._named(wrong)

    def _named(self, wrong: list[str]) -> list[str]:
        return [f"{self.name}: {what}" for what in wrong]


class Story:
    """All parts, and the metrics of the daemon as they were last exported."""

    def __init__(self, parts: Sequence[Part], metric_pause_s: float) -> None:
        """`metric_pause_s`: metrics in which only an age has grown are told this often and not more."""
        self.parts = list(parts)
        self.metric_heartbeats = 0
        self.metric_points = 0
        self._by_call = {part.tool_call_id: part for part in self.parts}
        self._by_trace = {part.trace_id: part for part in self.parts}
        self._metric_pause_s = metric_pause_s
        self._metric_told_s = -1e9
        self._metric_counts: tuple[int, int] = (0, 0)
        self._values: dict[tuple[str, tuple[tuple[str, str], ...]], float] = {}

    def frame(self, record: Mapping[str, Any], at_s: float) -> Fact | None:
        """A record of the daemon's subscription."""
        part = self._by_call.get(record.get("toolCallId", ""))
        if part is None:
            return None
        kind = record.get("type")
        if kind == "command_started":
            part.started_frames += 1
            return Fact(at_s, FRAME, part.name, f"started: {record['program']}, pid {record['pid']}")
        if kind == "command_settled":
            part.settled_reason = record["reason"]
            return Fact(at_s, FRAME, part.name, _settled_text(record))
        if kind == "verdict":
            evidence = "".join(f": {text}" for text in record.get("evidence", ())[:1])
            return Fact(at_s, FRAME, part.name, f"verdict {record['verdict']}{evidence}")
        if "_meta" in record:
            part.beat_frames += 1
            if part.settled_reason is not None:
                part.faults.append("a heartbeat after the end")
            text = _beat_text(part.beat_frames, record["_meta"]["shellProgress"])
            return Fact(at_s, FRAME, part.name, text + _verdict_text(record["_meta"].get("sidecar", {}).get("verdict")))
        return None

    def span(self, span: "ReceivedSpan", at_s: float) -> Fact | None:
        part = self._by_trace.get(span.trace_id)
        if part is None:
            return None
        role = span.attributes.get("sidecar.span.role")
        if role == "command":
            part.command_span = span
            return Fact(at_s, SPAN, part.name, _command_span_text(span))
        part.live_spans += 1
        if part.ended_s is None or at_s < part.ended_s:
            part.live_spans_in_time += 1
        if role == "heartbeat":
            part.heartbeat_spans += 1
            covered_s = (span.end_unix_ns - span.start_unix_ns) / 1e9
            text = f"{span.name}, covers {covered_s:.1f} s of silence"
            return Fact(at_s, SPAN, part.name, text + _verdict_text(span.attributes.get("sidecar.verdict")))
        return Fact(at_s, SPAN, part.name, f"{span.name}, child of the command's span {span.parent_span_id[:8]}...")

    def metrics(self, points: Sequence["ReceivedMetric"], at_s: float) -> Fact | None:
        """The points of one export."""
        for point in points:
            labels = tuple(sorted((key, str(value)) for key, value in point.attributes.items()))
            self._values[point.name, labels] = point.value
        self.metric_points += len(points)
        heartbeats = round(self._total("sidecar.heartbeats"))
        active = round(self._total("sidecar.commands.active"))
        more = heartbeats - self.metric_heartbeats
        self.metric_heartbeats = heartbeats
        changed = self._metric_counts != (heartbeats, active)
        if not changed and (not active or at_s - self._metric_told_s < self._metric_pause_s):
            return None
        self._metric_told_s = at_s
        self._metric_counts = (heartbeats, active)
        text = f"sidecar.commands.active {active}, sidecar.heartbeats {heartbeats}" + (f" (+{more})" if more else "")
        age_s = self._latest(points, "sidecar.output.age")
        if active and age_s is not None:
            text += f", sidecar.output.age {age_s:.1f} s"
        return Fact(at_s, METRIC, "", text)

    def log(self, record: "ReceivedLog", at_s: float) -> Fact | None:
        part = self._by_trace.get(record.trace_id)
        if part is None:
            return None
        text = f"event {record.event_name} ({record.severity or 'no severity'})"
        return Fact(at_s, LOG, part.name, text + _verdict_text(record.attributes.get("sidecar.verdict")))

    def exited(self, part: Part, exit_code: int, at_s: float) -> Fact:
        part.exit_code = exit_code
        part.ended_s = at_s
        return Fact(at_s, EXIT, part.name, f"`sidecar run` ended with {exit_code}")

    @property
    def running(self) -> bool:
        return any(part.exit_code is None for part in self.parts)

    @property
    def exits_as_expected(self) -> bool:
        return all(part.exit_code == part.expected_exit for part in self.parts)

    @property
    def heartbeats(self) -> int:
        return sum(part.beat_frames for part in self.parts)

    def missing(self) -> list[str]:
        """All that should have arrived and did not, one line each."""
        lines = [line for part in self.parts for line in part.missing()]
        if not self.exits_as_expected:
            return lines
        expected = sum(part.expected_beats for part in self.parts)
        if self.metric_heartbeats != expected:
            lines.append(f"the metric sidecar.heartbeats is {self.metric_heartbeats} instead of {expected}")
        return lines

    def _total(self, name: str) -> float:
        return sum(value for (metric, _), value in self._values.items() if metric == name)

    @staticmethod
    def _latest(points: Sequence["ReceivedMetric"], name: str) -> float | None:
        return max((point.value for point in points if point.name == name), default=None)


def _beat_text(number: int, progress: Mapping[str, Any]) -> str:
    text = f"heartbeat {number}: running for {progress['elapsedMs'] / 1000:.1f} s"
    if "lastOutputAgeMs" in progress:
        return f"{text}, last output {progress['lastOutputAgeMs'] / 1000:.1f} s ago"
    return f"{text}, no output yet"


def _verdict_text(verdict: object) -> str:
    return "" if verdict is None else f", verdict {verdict}"


def _settled_text(record: Mapping[str, Any]) -> str:
    status = record.get("signal") or f"exit code {record.get('exitCode')}"
    beats = record["heartbeatCount"]
    lines, size = record["totalLines"], record["totalBytes"]
    # Of a file or a device no lines are counted, of a device nothing at all.
    wrote = counted(size, "byte") if size and not lines else counted(lines, "line")
    return (
        f"settled: {record['reason']}, {status}, after {record['elapsedMs'] / 1000:.1f} s, "
        f"{wrote}, {counted(beats, 'heartbeat')}"
    )


def _command_span_text(span: "ReceivedSpan") -> str:
    facts = [f"{(span.end_unix_ns - span.start_unix_ns) / 1e9:.1f} s"]
    for key in ("shell.heartbeat_count", "process.exit.code", "error.type"):
        if key in span.attributes:
            facts.append(f"{key}={span.attributes[key]}")
    return f"{span.name}, the command itself: {', '.join(facts)}"
