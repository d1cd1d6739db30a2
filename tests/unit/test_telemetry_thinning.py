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
