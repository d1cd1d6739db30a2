"""The metrics: instrument, unit and bounded attributes of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sidecar.telemetry.conventions.attributes import DEVELOPMENT


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric: its instrument, unit and attributes, which are all bounded."""

    name: str
    instrument: str
    unit: str
    attributes: tuple[str, ...]
    brief: str
    bounds: tuple[float, ...] = ()
    stability: str = DEVELOPMENT


DURATION_BOUNDS_S: Final = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1200.0, 1800.0, 3600.0)

_COUNTER, _UP_DOWN, _GAUGE, _HISTOGRAM = (
    "counter",
    "observable up-down counter",
    "observable gauge",
    "histogram",
)

METRICS: Final = {
    metric.name: metric
    for metric in (
        Metric(
            "sidecar.commands.active",
            _UP_DOWN,
            "{command}",
            ("family", "state"),
            "Commands in flight; state is `running` (output flows) or `silent` (an interval without)",
        ),
        Metric("sidecar.commands.started", _COUNTER, "{command}", ("family",), "Commands started; born at 0"),
        Metric(
            "sidecar.commands.lost",
            _COUNTER,
            "{command}",
            ("family",),
            "Commands whose supervisor died; born at 0",
        ),
        Metric("sidecar.heartbeats", _COUNTER, "{heartbeat}", ("verdict",), "Heartbeats; born at 0"),
        Metric(
            "sidecar.verdicts",
            _COUNTER,
            "{verdict}",
            ("family", "verdict"),
            "Changes of verdict, by the new one; a family's are born at 0 with its first command",
        ),
        Metric(
            "sidecar.output.age",
            _GAUGE,
            "s",
            (),
            "Age of the oldest last output; 0 when nothing runs",
        ),
        Metric(
            "sidecar.output.oldest.timestamp",
            _GAUGE,
            "s",
            (),
            "When that output was (Unix time); now, when nothing runs. `time() - x` goes on growing when the "
            "producer dies, where an age would freeze",
        ),
        Metric(
            "sidecar.silence.ratio",
            _GAUGE,
            "1",
            (),
            "Age of the last output over the command's own budget: its timeout, or 60 s without; the worst",
        ),
        Metric(
            "sidecar.suspect.output.age",
            _GAUGE,
            "s",
            ("family", "verdict", "trace_id", "session"),
            "Age of the last output of a command that may be hung: by its verdict, or because it has needed someone "
            "for `suspect_after` (60 s); the worst 5 only",
        ),
        Metric("sidecar.suspect.hidden", _GAUGE, "{command}", (), "Suspects beyond those 5"),
        Metric(
            "sidecar.command.duration",
            _HISTOGRAM,
            "s",
            ("outcome",),
            "Duration of commands; outcome is the settle reason",
            DURATION_BOUNDS_S,
        ),
        Metric(
            "sidecar.command.silence.duration",
            _HISTOGRAM,
            "s",
            ("family",),
            "Each command's longest silence, to tune budgets by",
            DURATION_BOUNDS_S,
        ),
        Metric(
            "sidecar.daemon.loop.timestamp",
            _GAUGE,
            "s",
            (),
            "When the daemon's loop last turned (Unix time): a stuck loop ages",
        ),
    )
}
