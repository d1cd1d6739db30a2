"""Runs scenarios, several at a time where they do not disturb each other, and hands back what was found."""

from __future__ import annotations

import concurrent.futures
import contextlib
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.verdicts import procfs
from tests.verdicts.helpers import StagingError
from tests.verdicts.scenario import Scenario
from tests.verdicts.score import Judged
from tests.verdicts.stage import Stage, staged
from tests.verdicts.theatre import Theatre

QUIET_AT_ONCE, BUSY_AT_ONCE = 8, 2
"""How many are staged at the same time: of those that wait, and of those that use a processor."""

LOOK_S = 1.0
_STARVED_SHARE = 0.4
_NS_PER_S = 1e9


@dataclass
class Found:
    """What came of one scenario: the verdict at each level, or why it could not be staged.

    `was_starved`: by our own measure the machine left the tree too little of a processor, so that for one that computes
    cpu_starved is as right.
    """

    scenario: Scenario
    verdicts: dict[str, dict[str, Any]] = field(default_factory=dict)
    error: str = ""
    was_starved: bool = False
    staging_s: float = 0.0

    def judged(self, user: str) -> list[Judged]:
        """Beside the label, for each level; `user` is root or user."""
        right = self.scenario.right
        return [
            Judged(f"{user}: {level}", self.scenario.name, right, self._said(verdict["verdict"]), self.scenario.healthy)
            for level, verdict in self.verdicts.items()
        ]

    def _said(self, verdict: str) -> str:
        starved = self.was_starved and verdict == "cpu_starved" and "computing" in self.scenario.right
        return "computing" if starved else verdict


def rehearse(
    theatre: Theatre,
    chosen: Iterable[Scenario],
    levels: list[str],
    *,
    unprivileged: bool,
    tell: Callable[[Found], None] = lambda found: None,
) -> list[Found]:
    """Stage each and look once at each level. `tell` is called as they come in."""
    found = []
    lanes: dict[str, list[Scenario]] = {"quiet": [], "busy": [], "alone": []}
    for scenario in chosen:
        lanes[scenario.lane].append(scenario)
    for lane, at_once in (("quiet", QUIET_AT_ONCE), ("busy", BUSY_AT_ONCE), ("alone", 1)):
        with workers(at_once) as pool:
            futures = [pool.submit(_rehearse, theatre, scenario, levels, unprivileged) for scenario in lanes[lane]]
            for future in concurrent.futures.as_completed(futures):
                found.append(future.result())
                tell(found[-1])
    return found


@contextlib.contextmanager
def workers(at_once: int) -> Iterator[concurrent.futures.ThreadPoolExecutor]:
    """A pool of threads. Interrupted, what has begun is ended properly, and nothing else begins."""
    with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
        try:
            yield pool
        finally:
            pool.shutdown(cancel_futures=True)


def end_properly_when_terminated() -> None:
    """SIGTERM is like Ctrl-C, so that nothing that was staged is left behind."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)


def _rehearse(theatre: Theatre, scenario: Scenario, levels: list[str], unprivileged: bool) -> Found:
    found = Found(scenario)
    started = time.monotonic()
    try:
        with staged(theatre, scenario.name, scenario.stage, unprivileged) as stage:
            found.staging_s = time.monotonic() - started
            found.verdicts, found.was_starved = _look(stage, levels)
    except (StagingError, AssertionError, OSError) as error:
        found.error = f"{type(error).__name__}: {error}"
    return found


def _look(stage: Stage, levels: list[str]) -> tuple[dict[str, dict[str, Any]], bool]:
    delay, started = procfs.run_delay_ns(stage.tree()), time.monotonic()
    verdicts = stage.look(levels, LOOK_S)
    waited_s = (procfs.run_delay_ns(stage.tree()) - delay) / _NS_PER_S
    return verdicts, waited_s > _STARVED_SHARE * (time.monotonic() - started)
