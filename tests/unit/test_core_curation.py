"""Which events are kept: the first, the changes, the last; in order, bounded, the rest counted."""

from hypothesis import given
from hypothesis import strategies as st

from sidecar.core.curation import CHANGES, FIRST, LAST, Curated


def filled(marks: list[bool], first: int, changes: int, last: int) -> Curated[int]:
    kept: Curated[int] = Curated(first, changes, last)
    for number, change in enumerate(marks):
        kept.add(number, change=change)
    return kept


def test_nothing_is_nothing() -> None:
    kept: Curated[int] = Curated()
    assert (kept.kept, kept.total, kept.dropped) == ([], 0, 0)


def test_the_first_the_changes_and_the_last_of_a_long_life() -> None:
    marks = [number in (20, 50, 51) for number in range(100)]
    kept = filled(marks, first=3, changes=2, last=4)
    assert kept.kept == [0, 1, 2, 20, 51, 96, 97, 98, 99]
    assert kept.dropped == 91


def test_by_default_it_stays_below_the_sdk_limit_of_events() -> None:
    kept = filled([True] * 10_000, FIRST, CHANGES, LAST)
    default: Curated[int] = Curated()
    for number in range(10_000):
        default.add(number, change=True)
    assert default.kept == kept.kept
    assert len(default.kept) < 128


@given(
    marks=st.lists(st.booleans(), max_size=60),
    first=st.integers(0, 6),
    changes=st.integers(0, 6),
    last=st.integers(0, 6),
)
def test_the_selection_is_the_one_that_the_rule_makes(marks: list[bool], first: int, changes: int, last: int) -> None:
    kept = filled(marks, first, changes, last)
    numbers = list(range(len(marks)))
    head, rest = numbers[:first], numbers[first:]
    tail = rest[max(0, len(rest) - last) :]
    middle = rest[: len(rest) - len(tail)]
    marked = [number for number in middle if marks[number]]
    if len(marked) > changes:
        early = changes // 2
        marked = marked[:early] + marked[len(marked) - (changes - early) :]
    assert kept.kept == [*head, *marked, *tail]
    assert kept.total == len(marks)
    assert kept.dropped == len(marks) - len(kept.kept)
    assert len(kept.kept) <= first + changes + last


def test_a_verdict_that_flapped_early_does_not_cost_the_late_change() -> None:
    kept: Curated[int] = Curated()
    for number in range(4000):
        kept.add(number, change=number < 1000 or number == 3000)
    assert 3000 in kept.kept
