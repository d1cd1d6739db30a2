"""Each series that counts begins with 0, at each reader: what it has counted by then is shown a little later.

`increase()` of a series that first appears with 1 is 0: a program's first command that times out would be in no burn
rate, and the first of each kind in no heat map. What could be counted cannot all be there with 0 from the start: every
program times every verdict and outcome is thousands of series, of which a host sees a hundred. So a series is born
when there is something to count, with 0, and stays at 0 for a while, long enough for whoever reads every so often.

Prometheus can also take the 0 from the start time that comes with a sample, but only since 2.50, and where asked to.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from opentelemetry.sdk.metrics.export import AggregationTemporality, ExponentialHistogram, Gauge, Histogram

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from opentelemetry.sdk.metrics import Exemplar
    from opentelemetry.sdk.metrics.export import HistogramDataPoint, Metric, MetricsData, NumberDataPoint

    Key = tuple[str, frozenset[tuple[str, object]]]

_CUMULATIVE = AggregationTemporality.CUMULATIVE

EXPORTS_AT_ZERO = 3
"""So many exports show the 0, for who scrapes a Collector less often than it is sent to."""


def hold_of(export_interval_ns: int) -> int:
    """For how long the 0 is shown: that many exports, whichever way a timer is off."""
    return export_interval_ns * (2 * EXPORTS_AT_ZERO - 1) // 2


@dataclass(slots=True)
class _Held:
    """A series at 0. `exemplars`, by bucket, belong to what is not shown yet; the SDK gives each only once."""

    since_unix_ns: int
    exemplars: dict[int, Exemplar] = field(default_factory=dict)


class BornAtZero:
    """What one reader has shown. Not for more threads than one at a time."""

    def __init__(self, hold_ns: int, born_before: Collection[str] = ()) -> None:
        """`born_before`: names of instruments whose series are given their 0 before they count; shown as they are."""
        self._hold_ns = hold_ns
        self._born_before = frozenset(born_before)
        self._held: dict[Key, _Held] = {}
        self._grown: set[Key] = set()
        self._is_over = False

    def end(self) -> None:
        """From now on everything is shown as it is: there may be no later."""
        self._is_over = True

    def of(self, data: MetricsData) -> MetricsData:
        """`data` with the points of newborn series at 0. Gauges, and what is sent as differences, are as they were."""
        return replace(
            data,
            resource_metrics=[
                replace(
                    of_resource,
                    scope_metrics=[
                        replace(of_scope, metrics=[self._metric(metric) for metric in of_scope.metrics])
                        for of_scope in of_resource.scope_metrics
                    ],
                )
                for of_resource in data.resource_metrics
            ],
        )

    def _metric(self, metric: Metric) -> Metric:
        found = metric.data
        if metric.name in self._born_before:
            return metric
        if isinstance(found, Gauge | ExponentialHistogram) or found.aggregation_temporality != _CUMULATIVE:
            return metric
        if isinstance(found, Histogram):
            return replace(metric, data=replace(found, data_points=self._histograms(metric.name, found.data_points)))
        if not found.is_monotonic:
            return metric
        return replace(metric, data=replace(found, data_points=self._sums(metric.name, found.data_points)))

    def _sums(self, name: str, points: Sequence[NumberDataPoint]) -> list[NumberDataPoint]:
        shown = []
        for point in points:
            held = self._hold(name, point)
            shown.append(point if held is None else replace(point, value=0, exemplars=()))
        return shown

    def _histograms(self, name: str, points: Sequence[HistogramDataPoint]) -> list[HistogramDataPoint]:
        shown = []
        for point in points:
            key = _key(name, point)
            earlier = self._held[key].exemplars if key in self._held else {}
            earlier |= {bisect_left(point.explicit_bounds, each.value): each for each in point.exemplars}
            held = self._hold(name, point)
            if held is None:
                shown.append(replace(point, exemplars=tuple(earlier.values())) if earlier else point)
                continue
            held.exemplars = earlier
            zeros = [0] * len(point.bucket_counts)
            shown.append(replace(point, count=0, sum=0.0, bucket_counts=zeros, min=0.0, max=0.0, exemplars=()))
        return shown

    def _hold(self, name: str, point: NumberDataPoint | HistogramDataPoint) -> _Held | None:
        """What is known of a series that is to be shown as 0; None: show it as it is."""
        key = _key(name, point)
        if key in self._grown:
            return None
        held = self._held.setdefault(key, _Held(point.time_unix_nano))
        # A clock that was set back must not hold a series for as long.
        age_ns = abs(point.time_unix_nano - held.since_unix_ns)
        if not self._is_over and (age_ns < self._hold_ns or age_ns == 0):
            return held
        del self._held[key]
        self._grown.add(key)
        return None


def _key(name: str, point: NumberDataPoint | HistogramDataPoint) -> Key:
    return name, frozenset((point.attributes or {}).items())
