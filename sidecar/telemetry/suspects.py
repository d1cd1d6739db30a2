"""`sidecar.suspect.output.age`: the worst few commands under a verdict that may be a hang, by trace and session;
`sidecar.overdue.output.age`: the one that has been silent for the longest, whatever its verdict;
`sidecar.heartbeat.delay`: the worst few whose supervisor says nothing any more; and
`sidecar.lost.timestamp`: the last few whose supervisor died.

The metrics whose labels name a single command; hence the caps. They are put into each collection by the reader
and are no SDK instruments, because those never forget: an asynchronous gauge of SDK 1.45 keeps every label set it
has seen, and after 2,000 of them (its cardinality limit) puts all new ones into one overflow series. A daemon
that runs for weeks gets there.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from opentelemetry.sdk.metrics.export import Gauge, Metric, MetricsData, NumberDataPoint

from sidecar.core.suspicion import may_be_hung
from sidecar.core.verdict_fields import safe_text
from sidecar.core.verdict_names import label_of
from sidecar.telemetry.conventions.metrics import METRICS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sidecar.core.command import Command
    from sidecar.telemetry.families import Families

SHOWN = 5
EVIDENCE_BYTES = 200
LOST_SHOWN_S = 900.0
"""For so long a lost command is named: longer than an alert on `sidecar.commands.lost` looks back."""

_OVERDUE = "sidecar.overdue.output.age"
_DELAY = "sidecar.heartbeat.delay"
_NS_PER_S = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Suspect:
    """One command that a metric names: the age of its last output (or when it was lost, or by how much its heartbeat
    is late), its labels, and which metric."""

    value_s: float
    labels: dict[str, str]
    metric: str = "sidecar.suspect.output.age"


def is_suspect(command: Command, now_ns: int, budget_ms: int) -> bool:
    """Whether a running command may be hung. One that writes again is none, whatever its last verdict was."""
    return command.verdict_stands and may_be_hung(command.verdict_group, command.verdict_held_ms(now_ns), budget_ms)


def suspects_among(
    commands: Iterable[Command], families: Families, now_ns: int, budget_ms: int
) -> list[Suspect]:
    """All suspects, the worst first. `now_ns` is monotonic; `budget_ms`: see `sidecar.core.suspicion`."""
    found = [
        Suspect(
            command.output_age_ms(now_ns) / 1000,
            _judged(command, command.verdict, families),
        )
        for command in commands
        if is_suspect(command, now_ns, budget_ms)
    ]
    return sorted(found, key=lambda suspect: suspect.value_s, reverse=True)


def most_overdue(commands: Iterable[Command], families: Families, now_ns: int, budget_s: float) -> list[Suspect]:
    """The command without a timeout that has been silent for the longest, if that is longer than `budget_s`; else none.

    One with a timeout is never overdue: it is ended first. One series at a time, and a new one once in a budget at
    most: its labels cost as little as those of the suspects.
    """
    silent = [
        (command.output_age_ms(now_ns) / 1000, command)
        for command in commands
        if not command.identity.get("timeoutMs")
    ]
    age_s, worst = max(silent, key=lambda each: each[0], default=(0.0, None))
    if worst is None or age_s < budget_s:
        return []
    return [Suspect(age_s, _judged(worst, worst.standing_verdict, families), _OVERDUE)]


def beyond_hearing(
    commands: Iterable[Command], families: Families, now_ns: int, budget_ms: int
) -> list[Suspect]:
    """The commands whose heartbeat has been overdue for `budget_ms` and longer, the worst few, the worst first."""
    delays = [(command.heartbeat_delay_ms(now_ns), command) for command in commands]
    late = sorted((each for each in delays if each[0] >= budget_ms), key=lambda each: each[0], reverse=True)
    return [Suspect(delay_ms / 1000, _named(command, families), _DELAY) for delay_ms, command in late[:SHOWN]]


class Lost:
    """The last few commands whose supervisor died. Calls may come from any thread."""

    def __init__(self) -> None:
        self._latest: deque[Suspect] = deque(maxlen=SHOWN)

    def add(self, command: Command, families: Families, unix_ns: int) -> None:
        self._latest.append(Suspect(unix_ns / _NS_PER_S, _named(command, families), "sidecar.lost.timestamp"))

    def latest(self, unix_ns: int) -> list[Suspect]:
        """Those of the last quarter of an hour."""
        return [lost for lost in tuple(self._latest) if unix_ns / _NS_PER_S - lost.value_s < LOST_SHOWN_S]


def _judged(command: Command, verdict: str | None, families: Families) -> dict[str, str]:
    # The fact of when the verdict was new: with figures that move, each look would make another series.
    fact = command.fact if verdict is not None else ""
    return {
        **_named(command, families),
        "verdict": label_of(verdict),
        "evidence": safe_text(fact, EVIDENCE_BYTES),
    }


def _named(command: Command, families: Families) -> dict[str, str]:
    return {
        "family": families.of(command.identity["program"]),
        "trace_id": command.identity["traceId"],
        "session": command.identity.get("sessionId", ""),
    }


def with_suspects(data: MetricsData, suspects: Iterable[Suspect], now_unix_ns: int) -> MetricsData:
    """`data` and their metrics, in the scope of our own metrics; unchanged without a suspect or that scope."""
    points: dict[str, list[NumberDataPoint]] = {}
    for suspect in suspects:
        point = NumberDataPoint(suspect.labels, 0, now_unix_ns, suspect.value_s)
        points.setdefault(suspect.metric, []).append(point)
    if not points:
        return data
    metrics = [
        Metric(name, METRICS[name].brief, METRICS[name].unit, Gauge(found)) for name, found in points.items()
    ]
    return MetricsData(
        [
            replace(
                resource_metrics,
                scope_metrics=[
                    replace(scope, metrics=[*scope.metrics, *metrics]) if scope.scope.name == "sidecar" else scope
                    for scope in resource_metrics.scope_metrics
                ],
            )
            for resource_metrics in data.resource_metrics
        ]
    )
