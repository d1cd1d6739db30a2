"""How busy the process tree of a command is, from proc(5) by way of collectors.processes. Linux only."""

import sys
from collections.abc import Iterable
from itertools import islice
from typing import Final

from collectors.kernel import Kernel
from collectors.processes import Tree

AT_MOST: Final = 500
"""So many trees are looked at at once."""


class TreeCpu:
    """Percent of one core, by two looks at the same tree. What ended between them counts through its parent."""

    def __init__(self, kernel: Kernel | None = None) -> None:
        self._kernel = kernel if kernel is not None else Kernel()
        self._before: dict[int, tuple[float, int]] = {}

    def percent(self, pid: int, now_s: float) -> float | None:
        """Since the last call for the same pid; None at the first one, and where nothing can be seen."""
        if sys.platform != "linux":
            return None
        tree = Tree(self._kernel)
        tree.walk([pid])
        if not tree.processes:
            self._before.pop(pid, None)
            return None
        total_ns = sum(process.cpu_ns + process.reaped_cpu_ns for process in tree.processes.values())
        before = self._before.get(pid)
        self._before[pid] = (now_s, total_ns)
        if before is None or now_s <= before[0]:
            return None
        # A process that left the tree takes its time with it.
        return max(0.0, (total_ns - before[1]) / (now_s - before[0]) / 1e7)

    def percents(self, pids: Iterable[int], now_s: float) -> dict[int, float | None]:
        """As `percent`, of the first `AT_MOST` of these, and of no others from here on."""
        looked = list(islice(pids, AT_MOST))
        for pid in self._before.keys() - set(looked):
            del self._before[pid]
        return {pid: self.percent(pid, now_s) for pid in looked}
