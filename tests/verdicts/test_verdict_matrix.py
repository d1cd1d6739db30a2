"""Staged for real: one scenario of each verdict is judged as committed, as whoever runs the tests.

All of them, as root and as an unprivileged user, at each level of what may be read, are staged by `.ci/run`:
`python -m tests.verdicts.matrix --check`.
"""

from __future__ import annotations

import os

import pytest

from tests.verdicts import score
from tests.verdicts.matrix import committed, stage_all
from tests.verdicts.scenario import Scenario, scenarios

_QUICK = (
    "compute_below_a_shell",
    "transfer_in_small_pieces",
    "sleep_in_a_pipeline",
    "poll_in_a_shell_loop",
    "tcp_live_peer",
    "unix_socket_of_a_daemon",
    "pipe_from_a_process_outside",
    "pidfd_of_a_process_outside",
    "signal_pause_in_python",
    "watch_tail",
    "serve_accept",
    "idle_asyncio",
    "prompt_python",
    "prompt_getpass",
    "input_pipe_cat",
    "stopped_by_a_signal",
    "stopped_reading_in_the_background",
    "output_pipe_not_read",
    "lock_fcntl",
    "fifo_without_a_writer",
    "deadlock_python_two_locks",
    "deadlock_pipe_never_read",
    "connect_to_a_full_queue",
    "send_to_a_peer_that_does_not_read",
    "output_held_by_a_background_process",
)


@pytest.fixture(scope="module")
def results() -> list[score.Judged]:
    chosen = [one for one in scenarios() if one.name in _QUICK]
    assert len(chosen) == len(_QUICK)
    results, failures = stage_all([one for one in chosen if not one.missing()], [_user()])
    assert not failures
    return results


def _user() -> str:
    return "root" if os.geteuid() == 0 else "user"


@pytest.mark.parametrize("name", _QUICK)
def test_a_staged_state_is_judged_as_well_as_committed(name: str, results: list[score.Judged]) -> None:
    of_name = [one for one in results if one.scenario == name]
    if not of_name:
        pytest.skip("needs " + ", ".join(_named(name).missing()))
    fallen = score.worse(of_name, committed())
    if fallen and not any(one.is_false_alarm for one in fallen):
        # A passing call can be caught once; a verdict is published when it was found twice in a row.
        again, failures = stage_all([_named(name)], [_user()])
        assert not failures
        fallen = score.worse(again, committed())
    assert not fallen


def test_each_verdict_that_can_be_staged_here_is_staged() -> None:
    """The table of verdicts, but for those that are right only together with another."""
    from sidecar.core.verdict_names import ALL

    first = {verdict for one in scenarios() for verdict in one.right}
    assert first == set(ALL)


def test_there_are_enough_scenarios_and_enough_of_them_healthy() -> None:
    every = scenarios()
    assert len(every) >= 110
    assert sum(one.healthy for one in every) >= 40


def _named(name: str) -> Scenario:
    return next(one for one in scenarios() if one.name == name)
