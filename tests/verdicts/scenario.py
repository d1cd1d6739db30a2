"""What a scenario is: how to stage one labelled state of a command, and which verdicts are right for it.

The label was written down from what the program does, before any engine had a look at it. Where two verdicts are
equally right (a retry loop is polling and a lock wait), both are named.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sidecar.core.verdict_names import GROUPS, MAY_BE_HUNG, group_of

if TYPE_CHECKING:
    from tests.verdicts.stage import Stage

Staging = Callable[["Stage"], None]

_OF_THE_MACHINE: dict[str, Callable[[], bool]] = {
    "cgroup v1": lambda: os.access("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", os.W_OK),
    "cgroup v2": lambda: os.access(_unified() + "/cgroup.procs", os.W_OK),
    "fuse": lambda: os.access("/dev/fuse", os.R_OK | os.W_OK),
    "loop device": lambda: os.path.exists("/dev/loop-control"),
}
"""What no package brings. Any other need is root, the server of PostgreSQL, or a program on PATH."""


@dataclass(frozen=True)
class Scenario:
    """`right`: verdicts, any of which is right. `lane`: quiet (many at a time), busy (it uses a processor), or alone
    (it disturbs others, or is disturbed).

    `hung`: nothing of this will ever move again by itself, or something outside has failed it. A scenario that is not
    is healthy: no look at it may say that it may be hung.
    """

    name: str
    right: tuple[str, ...]
    stage: Staging
    needs: tuple[str, ...]
    lane: str
    hung: bool

    @property
    def healthy(self) -> bool:
        return not self.hung and not any(verdict in MAY_BE_HUNG for verdict in self.right)

    @property
    def group(self) -> str:
        return group_of(self.right[0])

    def missing(self) -> list[str]:
        """What is not there for it."""
        return [need for need in self.needs if not available(need)]

    def could_be_installed(self) -> bool:
        """What is missing is no matter of the machine's kernel and control groups, so that in CI it is a fault."""
        return not any(need in _OF_THE_MACHINE for need in self.missing())


_ALL: list[Scenario] = []


def scenario(
    *right: str, needs: Iterable[str] = (), alone: bool = False, hung: bool = False
) -> Callable[[Staging], Staging]:
    """Register the function as a scenario of its name, whose right verdicts are `right`."""
    known = {name for names in GROUPS.values() for name in names}
    assert right
    assert set(right) <= known, right

    def register(function: Staging) -> Staging:
        name = function.__name__
        assert all(one.name != name for one in _ALL), name
        lane = "alone" if alone else "busy" if right[0] == "computing" else "quiet"
        _ALL.append(Scenario(name, right, function, tuple(needs), lane, hung))
        return function

    return register


def scenarios() -> list[Scenario]:
    from tests.verdicts import kinds

    kinds.load()
    return list(_ALL)


def available(need: str) -> bool:
    if need == "root":
        return os.geteuid() == 0
    if need == "postgresql":
        return bool(postgresql_folder())
    check = _OF_THE_MACHINE.get(need)
    return check() if check else shutil.which(need) is not None


def postgresql_folder() -> str | None:
    """The folder of initdb and postgres: Debian keeps it off PATH."""
    found = shutil.which("initdb")
    if found:
        return os.path.dirname(os.path.realpath(found))
    base = "/usr/lib/postgresql"
    versions = sorted(os.listdir(base)) if os.path.isdir(base) else []
    return f"{base}/{versions[-1]}/bin" if versions else None


def _unified() -> str:
    return "/sys/fs/cgroup/unified" if os.path.isdir("/sys/fs/cgroup/unified") else "/sys/fs/cgroup"
