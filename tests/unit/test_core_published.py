"""A verdict is shown once it was found twice in a row; a prompt, a stop and an exit at once."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.core.finding import Verdict
from sidecar.core.published import AT_ONCE, PublishedVerdict
from sidecar.core.verdict_names import ALL


def found(name: str) -> Verdict:
    return Verdict(name, "measured")


def test_two_in_a_row_are_shown_since_the_first() -> None:
    published = PublishedVerdict()
    assert not published.offer(found("sleeping"), 10)
    assert published.current is None
    assert published.offer(found("sleeping"), 20)
    assert (published.current, published.since_ns) == (found("sleeping"), 10)
    assert not published.offer(found("sleeping"), 30)
    assert published.since_ns == 10


def test_one_passing_call_changes_nothing() -> None:
    published = PublishedVerdict()
    for at in (1, 2):
        published.offer(found("network_wait"), at)
    assert not published.offer(found("disk_io"), 3)
    assert not published.offer(found("network_wait"), 4)
    assert not published.offer(found("disk_io"), 5)
    assert published.current == found("network_wait")


@pytest.mark.parametrize("name", sorted(AT_ONCE))
def test_what_is_a_state_and_not_a_moment_is_shown_at_once(name: str) -> None:
    published = PublishedVerdict()
    assert published.offer(found(name), 7)
    assert (published.current, published.since_ns) == (found(name), 7)


def test_output_ends_it() -> None:
    published = PublishedVerdict()
    published.offer(found("stopped"), 1)
    published.output()
    assert published.current is None
    assert not published.offer(found("sleeping"), 2)


@given(st.lists(st.sampled_from(ALL), max_size=40))
def test_what_is_shown_was_offered_twice_in_a_row_or_counts_at_once(names: list[str]) -> None:
    published = PublishedVerdict()
    for at, name in enumerate(names):
        shown = published.current
        changed = published.offer(found(name), at)
        assert changed == (published.current is not shown and (shown is None or shown.name != name))
        if changed:
            assert name in AT_ONCE or names[at - 1] == name
            assert names[published.since_ns] == name
