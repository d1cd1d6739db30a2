"""The table of states: what may follow what, and that everything else leaves the state as it was."""

from collections.abc import Callable

import pytest

from sidecar.core import lifecycle
from sidecar.core.errors import LifecycleError
from sidecar.core.lifecycle import SETTLED, STATES, STOP_REASONS, TABLE, Lifecycle

EVENTS: dict[str, Callable[[Lifecycle], None]] = {
    "spawned": lambda life: life.spawned(),
    "spawn_failed": lambda life: life.spawn_failed(),
    "stop": lambda life: life.stop("timeout"),
    "exited": lambda life: life.exited(by_signal=False),
    "lost": lambda life: life.lost(),
}


def in_state(state: str) -> Lifecycle:
    life = Lifecycle()
    for event in {"starting": (), "running": ("spawned",), "stopping": ("spawned", "stop")}.get(
        state, ("spawned", "exited")
    ):
        EVENTS[event](life)
    assert life.state == state
    return life


@pytest.mark.parametrize("pair", sorted(TABLE))
def test_a_pair_of_the_table_leads_where_it_says(pair: tuple[str, str]) -> None:
    state, event = pair
    life = in_state(state)
    EVENTS[event](life)
    assert life.state == TABLE[pair]


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("event", sorted(EVENTS))
def test_a_pair_that_is_not_in_the_table_raises_and_changes_nothing(state: str, event: str) -> None:
    if (state, event) in TABLE:
        return
    life = in_state(state)
    reason = life.reason
    with pytest.raises(LifecycleError):
        EVENTS[event](life)
    assert (life.state, life.reason) == (state, reason)


def test_the_events_of_the_table_are_all_tested() -> None:
    assert {event for _, event in TABLE} == set(EVENTS)
    assert not any(state == SETTLED for state, _ in TABLE)


@pytest.mark.parametrize(("by_signal", "reason"), [(False, "exited"), (True, "signaled")])
def test_a_command_that_ends_by_itself_says_how(by_signal: bool, reason: str) -> None:
    life = in_state("running")
    life.exited(by_signal=by_signal)
    assert life.reason == reason


@pytest.mark.parametrize("first", STOP_REASONS)
@pytest.mark.parametrize("second", STOP_REASONS)
@pytest.mark.parametrize("by_signal", [False, True])
def test_the_first_reason_to_stop_stands(first: str, second: str, by_signal: bool) -> None:
    life = in_state("running")
    life.stop(first)
    life.stop(second)
    life.exited(by_signal=by_signal)
    assert (life.state, life.reason) == (SETTLED, first)


@pytest.mark.parametrize("reason", ["exited", "lost", "", "spawn_failed"])
def test_what_is_no_reason_to_stop_changes_nothing(reason: str) -> None:
    life = in_state("running")
    with pytest.raises(LifecycleError):
        life.stop(reason)
    assert (life.state, life.reason) == ("running", None)


@pytest.mark.parametrize("state", ["running", "stopping"])
def test_lost_is_what_the_daemon_says_of_one_whose_supervisor_went_away(state: str) -> None:
    life = in_state(state)
    life.lost()
    assert (life.state, life.reason) == (SETTLED, "lost")


def test_the_diagram_has_each_line_of_the_table() -> None:
    drawn = lifecycle.diagram().splitlines()
    assert drawn[0] == "stateDiagram-v2"
    for (state, event), target in TABLE.items():
        assert f"    {state} --> {target}: {event}" in drawn
