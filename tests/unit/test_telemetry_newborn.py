"""The 0 that a series begins with: at each reader, for as long as somebody may need to see it, and not in the last."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.sdk.metrics import AlwaysOnExemplarFilter, Counter, Histogram, MeterProvider
from opentelemetry.sdk.metrics.export import AggregationTemporality, InMemoryMetricReader, MetricsData
from opentelemetry.sdk.resources import Resource

from sidecar.telemetry.newborn import EXPORTS_AT_ZERO, BornAtZero, hold_of

S = 1_000_000_000


class Rig:
    """A meter, and a reader's data at times that are told."""

    def __init__(self, hold_ns: int, temporality: AggregationTemporality = AggregationTemporality.CUMULATIVE) -> None:
        self._reader = InMemoryMetricReader(preferred_temporality={Counter: temporality, Histogram: temporality})
        meters = MeterProvider(
            [self._reader], Resource({}), exemplar_filter=AlwaysOnExemplarFilter(), shutdown_on_exit=False
        )
        self.meter = meters.get_meter("m")
        self.newborn = BornAtZero(hold_ns)

    def points(self, at_s: float) -> dict[str, Any]:
        """Name and label -> the point that is shown."""
        data = self._reader.get_metrics_data()
        assert data is not None
        for scope in data.resource_metrics[0].scope_metrics:
            for metric in scope.metrics:
                for point in metric.data.data_points:
                    object.__setattr__(point, "time_unix_nano", int(at_s * S))
        shown: MetricsData = self.newborn.of(data)
        return {
            metric.name + str((point.attributes or {}).get("k", "")): point
            for scope in shown.resource_metrics[0].scope_metrics
            for metric in scope.metrics
            for point in metric.data.data_points
        }


def test_a_counter_is_0_for_a_while_and_then_what_it_is() -> None:
    rig = Rig(25 * S)
    counter = rig.meter.create_counter("c")
    counter.add(3, {"k": "a"})
    assert [rig.points(at_s)["ca"].value for at_s in (100, 110, 120, 130, 140)] == [0, 0, 0, 3, 3]
    counter.add(1, {"k": "a"})
    counter.add(1, {"k": "b"})
    points = rig.points(150)
    assert (points["ca"].value, points["cb"].value) == (4, 0)
    assert rig.points(175)["cb"].value == 1


def test_what_was_there_with_0_for_long_grows_at_once() -> None:
    rig = Rig(25 * S)
    counter = rig.meter.create_counter("c")
    counter.add(0)
    assert rig.points(100)["c"].value == 0
    assert rig.points(130)["c"].value == 0
    counter.add(1)
    assert rig.points(131)["c"].value == 1


@pytest.mark.parametrize("hold_s", [0, 25])
def test_the_first_that_a_reader_sees_is_always_0(hold_s: int) -> None:
    rig = Rig(hold_s * S)
    rig.meter.create_counter("c").add(1)
    assert rig.points(5)["c"].value == 0
    assert rig.points(5 + max(1, hold_s))["c"].value == 1


def test_a_histogram_is_empty_at_first_and_its_exemplars_come_later() -> None:
    rig = Rig(25 * S)
    histogram = rig.meter.create_histogram("h", explicit_bucket_boundaries_advisory=(1, 10))
    histogram.record(0.5)
    first = rig.points(100)["h"]
    assert (first.count, first.sum, list(first.bucket_counts), list(first.exemplars)) == (0, 0, [0, 0, 0], [])
    histogram.record(5)
    assert rig.points(105)["h"].count == 0
    histogram.record(7)
    histogram.record(70)
    assert rig.points(110)["h"].count == 0
    shown = rig.points(130)["h"]
    assert (shown.count, shown.sum, list(shown.bucket_counts)) == (4, 82.5, [1, 2, 1])
    # The SDK gives each once; of one bucket the latest is kept.
    assert sorted(each.value for each in shown.exemplars) == [0.5, 7, 70]
    assert list(rig.points(140)["h"].exemplars) == []
    histogram.record(8)
    assert [each.value for each in rig.points(150)["h"].exemplars] == [8]


def test_the_last_export_holds_nothing_back() -> None:
    rig = Rig(25 * S)
    counter, histogram = rig.meter.create_counter("c"), rig.meter.create_histogram("h")
    counter.add(1, {"k": "a"})
    assert rig.points(100)["ca"].value == 0
    counter.add(1, {"k": "b"})
    histogram.record(5)
    rig.newborn.end()
    points = rig.points(101)
    assert (points["ca"].value, points["cb"].value, points["h"].count) == (1, 1, 1)


def test_what_was_born_before_it_counts_is_shown_as_it_is() -> None:
    rig = Rig(25 * S)
    rig.newborn = BornAtZero(25 * S, ("c",))
    for name in ("c", "d"):
        rig.meter.create_counter(name).add(1)
    points = rig.points(100)
    assert (points["c"].value, points["d"].value) == (1, 0)


def test_what_does_not_only_grow_is_left_alone() -> None:
    rig = Rig(25 * S)
    rig.meter.create_up_down_counter("u").add(5)
    rig.meter.create_gauge("g").set(7)
    points = rig.points(100)
    assert (points["u"].value, points["g"].value) == (5, 7)


def test_differences_are_left_alone() -> None:
    rig = Rig(25 * S, AggregationTemporality.DELTA)
    rig.meter.create_counter("c").add(5)
    rig.meter.create_histogram("h").record(5)
    points = rig.points(100)
    assert (points["c"].value, points["h"].count) == (5, 1)


def test_a_clock_that_is_set_back_holds_nothing_for_ever() -> None:
    rig = Rig(25 * S)
    rig.meter.create_counter("c").add(1)
    assert rig.points(9000)["c"].value == 0
    assert rig.points(10)["c"].value == 1


def test_a_timer_that_is_off_makes_no_export_more_or_less() -> None:
    assert (EXPORTS_AT_ZERO - 1) * 10 * S < hold_of(10 * S) < EXPORTS_AT_ZERO * 10 * S


@given(
    steps=st.lists(st.tuples(st.integers(0, 3), st.sampled_from("ab")), min_size=1, max_size=30),
    interval_s=st.integers(1, 60),
)
def test_each_series_is_0_first_never_falls_and_is_right_in_the_end(
    steps: list[tuple[int, str]], interval_s: int
) -> None:
    """Whatever is counted between which exports; and who reads every third one has seen the 0."""
    rig = Rig(hold_of(interval_s * S))
    counter = rig.meter.create_counter("c")
    seen: dict[str, list[float]] = {}
    counted: dict[str, int] = {}
    for number, (count, key) in enumerate(steps):
        if count:
            counter.add(count, {"k": key})
            counted[key] = counted.get(key, 0) + count
        if counted:
            for name, point in rig.points(1000 + number * interval_s).items():
                seen.setdefault(name, []).append(point.value)
    for values in seen.values():
        assert values == sorted(values)
        assert values[:EXPORTS_AT_ZERO] == [0] * min(EXPORTS_AT_ZERO, len(values))
        assert 0 not in values[EXPORTS_AT_ZERO:]
    if counted:
        rig.newborn.end()
        last = {name: point.value for name, point in rig.points(1000 + len(steps) * interval_s).items()}
        assert last == {f"c{key}": count for key, count in counted.items()}
