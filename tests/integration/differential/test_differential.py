"""Each scenario bare and wrapped: what the agent can observe is equal, to the byte; time within bounds.

`--repeat N` repeats the racy ones N times (wrapped; the bare command is run once for all); `-m racy` runs only those.
`tests/under_load` does both beside two busy cores.
"""

from concurrent.futures import ThreadPoolExecutor

import pytest
from harness import Observation, Right, Scenario, observe
from reports import REPORTS
from rows import EDGES, ENDS, LEFT, SHELL, SIGNALLED, STRANGE, STREAMED, TERMINAL, WORLDS
from supervised import Installation, on_linux

pytestmark = [on_linux, pytest.mark.timeout(0)]
ALL = [*REPORTS, *WORLDS, *STREAMED, *STRANGE, *ENDS, *SIGNALLED, *LEFT, *EDGES, *TERMINAL, *SHELL]
_AT_ONCE = 4
"""Repetitions side by side: they mostly wait, and get into each other's way."""
RACY = [scenario for scenario in ALL if scenario.racy]
ROWS = [
    pytest.param(scenario, id=scenario.name.replace(" ", "-"), marks=[pytest.mark.racy] if scenario.racy else [])
    for scenario in ALL
]


def _equal(bare: Observation, wrapped: Observation, scenario: Scenario) -> None:
    assert wrapped.facts() == bare.facts()
    assert wrapped.exit_s < bare.exit_s + scenario.slack_s
    assert wrapped.end_s < bare.end_s + scenario.slack_s
    assert wrapped.exit_s > bare.exit_s - scenario.slack_s
    assert wrapped.left_of_ours == []


def _as_it_should_be(seen: Observation, right: Right) -> None:
    assert seen.status == right.status
    assert b"".join(seen.streams.values()) == right.output
    assert seen.end_s < right.within_s
    assert len(seen.survivors) == len(right.survivors)
    for found, expected in zip(seen.survivors, sorted(right.survivors), strict=True):
        assert found.startswith(expected)
    assert seen.left_of_ours == []


def _check(scenario: Scenario, sidecar: Installation, times: int) -> None:
    reason = scenario.skip()
    if reason:
        pytest.skip(reason)

    def run(is_wrapped: bool) -> Observation:
        return observe(scenario, sidecar.environ, wrapped=is_wrapped)

    if scenario.right is not None:
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            for seen in pool.map(run, [True] * times):
                _as_it_should_be(seen, scenario.right)
        return
    # Both mostly wait: side by side they take half the time, and the machine is as loaded for the one as for the other.
    with ThreadPoolExecutor(2) as pool:
        bare, wrapped = pool.map(run, (False, True))
    _equal(bare, wrapped, scenario)
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for again in pool.map(run, [True] * (times - 1)):
            _equal(bare, again, scenario)


@pytest.mark.parametrize("scenario", ROWS)
def test_equal(scenario: Scenario, sidecar: Installation, repeat: int) -> None:
    _check(scenario, sidecar, repeat if scenario.racy else 1)


def test_there_are_enough_of_them() -> None:
    names = [scenario.name for scenario in ALL]
    assert len(names) == len(set(names)) >= 100
    assert len(RACY) >= 20
