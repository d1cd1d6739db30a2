"""Live spans thin out, and a change of verdict never waits."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from sidecar.telemetry.thinning import Thinning

EIGHT_HOURS_MS = 8 * 3600 * 1000


def _sent(interval_ms: int, until_ms: int) -> list[int]:
    thinning = Thinning(interval_ms)
    return [at_ms for at_ms in range(interval_ms, until_ms + 1, interval_ms) if thinning.due(at_ms)]


def test_gaps_are_10_20_40_60_60() -> None:
    assert _sent(10_000, 260_000) == [10_000, 30_000, 70_000, 130_000, 190_000, 250_000]


def test_eight_hours_stay_under_600_spans() -> None:
    assert len(_sent(10_000, EIGHT_HOURS_MS)) == 481
    assert len(_sent(1_000, EIGHT_HOURS_MS)) < 600


def test_short_intervals_start_narrow() -> None:
    assert _sent(1_000, 40_000) == [1_000, 3_000, 7_000, 15_000, 31_000]


def test_an_interval_beyond_a_minute_sends_every_beat() -> None:
    assert _sent(90_000, 360_000) == [90_000, 180_000, 270_000, 360_000]


def test_a_change_is_sent_at_once_and_the_next_gap_counts_from_it() -> None:
    thinning = Thinning(10_000)
    assert thinning.due(10_000)
    assert not thinning.due(20_000)
    assert thinning.due(21_000, change=True)
    assert not thinning.due(51_000)
    assert thinning.due(61_000)


@given(st.integers(1, 200_000), st.lists(st.integers(1, 100_000), max_size=300))
def test_never_denser_than_the_gap_before(interval_ms: int, steps_ms: list[int]) -> None:
    thinning, at_ms, sent = Thinning(interval_ms), 0, []
    for step_ms in steps_ms:
        at_ms += step_ms
        if thinning.due(at_ms):
            sent.append(at_ms)
    gaps = [later - earlier for earlier, later in itertools.pairwise(sent)]
    assert all(gap >= min(2 * interval_ms, 60_000) for gap in gaps)
    assert all(gap >= 60_000 for gap in gaps[20:])


@given(st.integers(10, 120_000), st.lists(st.tuples(st.integers(1, 200_000), st.booleans()), max_size=400))
def test_no_mix_of_beats_and_changes_goes_over_the_allowance(interval_ms: int, steps: list[tuple[int, bool]]) -> None:
    thinning, at_ms, sent = Thinning(interval_ms), 0, 0
    for step_ms, change in steps:
        at_ms += step_ms
        sent += thinning.due(at_ms, change=change)
        assert sent <= 64 + at_ms / 55_000


def test_a_verdict_that_flaps_for_eight_hours_stays_under_600_spans() -> None:
    for step_ms in (1_000, 7_000, 10_000, 59_999):
        thinning = Thinning(10_000)
        sent = sum(thinning.due(at_ms, change=True) for at_ms in range(step_ms, EIGHT_HOURS_MS, step_ms))
        assert sent <= 64 + 524, step_ms


def test_a_change_that_had_to_wait_is_told_within_a_minute() -> None:
    thinning = Thinning(10_000)
    for at_ms in range(1_000, 121_000, 1_000):
        thinning.due(at_ms, change=True)
    assert not thinning.due(121_000, change=True), "used up"
    later = [at_ms for at_ms in range(130_000, 200_000, 10_000) if thinning.due(at_ms)]
    assert later[0] - 121_000 <= 60_000


def test_after_a_calm_hour_a_change_is_sent_at_once_again() -> None:
    thinning = Thinning(10_000)
    for at_ms in range(1_000, 600_000, 1_000):
        thinning.due(at_ms, change=True)
    for at_ms in range(600_000, 4_200_000, 10_000):
        thinning.due(at_ms)
    assert thinning.due(4_203_000, change=True)
