"""The product's senses and judgement, as the host uses them: one pair of looks at each level of what may be read."""

from __future__ import annotations

import os
import threading
from typing import Any

from collectors.kernel import Kernel
from collectors.look import Looker
from collectors.observer import observe
from sidecar.core.evidence import Context
from sidecar.core.verdict import judge

LEVELS: dict[str, frozenset[str]] = {
    "everything": frozenset(),
    "no syscall": frozenset({"syscall", "mem"}),
    "descriptors only": frozenset({"syscall", "mem", "wchan", "netlink"}),
    "nothing": frozenset({"syscall", "mem", "wchan", "netlink", "fd", "fdinfo", "io", "timers"}),
}
"""What is denied at each level. no syscall: as under Yama 2. descriptors only: as under gVisor. nothing: as of a
program that changed its user."""


class Engine:
    """Looks at one command. `pid` is its direct child's, `terminal` a descriptor of its terminal."""

    def __init__(self, pid: int, terminal: int | None, takes_output: bool) -> None:
        self._pid = pid
        self._terminal = terminal
        self._takes_output = takes_output
        self.exit_status: int | None = None

    def look(self, levels: list[str], interval_s: float) -> dict[str, dict[str, Any]]:
        """The verdict at each of the levels, all looked at in the same second."""
        found: dict[str, dict[str, Any]] = {}
        failures: list[BaseException] = []

        def one(level: str) -> None:
            try:
                found[level] = self._look(LEVELS[level], interval_s)
            except BaseException as error:  # noqa: BLE001  # raised again in the thread that asked
                failures.append(error)

        threads = [threading.Thread(target=one, args=(level,)) for level in levels]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failures:
            raise failures[0]
        return found

    def _look(self, denied: frozenset[str], interval_s: float) -> dict[str, Any]:
        looker = Looker(self._pid, supervisor=os.getpid(), terminal=self._terminal, kernel=Kernel(denied=denied))
        before, after = observe(looker, seconds=interval_s)
        exited = self.exit_status is not None
        context = Context(
            exit_status=self.exit_status,
            output_is_open=exited,
            output_holders=tuple(after.processes) if exited else (),
            output_is_blocked=not self._takes_output,
        )
        verdict = judge(before, after, context)
        return {
            "verdict": verdict.name,
            "group": verdict.group,
            "confidence": verdict.confidence,
            "leaf": verdict.leaf.program if verdict.leaf else None,
            "evidence": list(verdict.evidence),
            "unseen": list(verdict.unseen),
        }
