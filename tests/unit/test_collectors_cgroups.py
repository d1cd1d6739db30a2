"""Which file lifts what a control group does to a command: that of the group itself, or of one above it."""

import pytest

from collectors.cgroups import Cgroups
from collectors.kernel import Kernel
from sidecar.core.evidence import Cgroup

MOUNTS = """\
30 20 0:26 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
31 20 0:27 / /sys/fs/cgroup/freezer rw - cgroup cgroup rw,freezer
32 20 0:28 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu
33 20 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
"""
V2, FREEZER, MEMORY = "/sys/fs/cgroup/unified", "/sys/fs/cgroup/freezer", "/sys/fs/cgroup/memory"


class Files(Kernel):
    """A kernel with these files and no others."""

    def __init__(self, files: dict[str, str]) -> None:
        super().__init__()
        self.files = {"self/mountinfo": MOUNTS, **files}

    def read(self, path: str) -> bytes | None:
        return self.files[path].encode() if path in self.files else None

    read_system = read


def looked(group: str, **files: str) -> Cgroup:
    found = Cgroups().read(Files({"7/cgroup": group, **files}), 7)
    assert found is not None
    return found


@pytest.mark.parametrize("by", ["/a/b/c", "/a/b", "/a"])
def test_the_group_that_was_frozen_and_not_the_one_that_is_with_it(by: str) -> None:
    files = {f"{V2}{group}/cgroup.freeze": "1\n" if group == by else "0\n" for group in ("/a/b/c", "/a/b", "/a")}
    found = looked("0::/a/b/c\n", **{f"{V2}/a/b/c/cgroup.events": "populated 1\nfrozen 1\n"}, **files)
    assert (found.is_frozen, found.frozen_by) == (True, f"{V2}{by}/cgroup.freeze")


def test_the_freezer_of_version_1() -> None:
    files = {f"{FREEZER}/a/b/freezer.self_freezing": "0\n", f"{FREEZER}/a/freezer.self_freezing": "1\n"}
    found = looked("6:freezer:/a/b\n", **{f"{FREEZER}/a/b/freezer.state": "FROZEN\n"}, **files)
    assert (found.is_frozen, found.frozen_by) == (True, f"{FREEZER}/a/freezer.state")


def test_one_that_is_not_frozen_or_cannot_be_seen_up_to_its_root() -> None:
    assert looked("0::/a\n", **{f"{V2}/a/cgroup.events": "frozen 0\n"}).frozen_by == ""
    found = looked("0::/a\n", **{f"{V2}/a/cgroup.events": "frozen 1\n"})
    assert (found.is_frozen, found.frozen_by) == (True, "")


def test_the_uppermost_that_is_out_of_memory_has_the_limit() -> None:
    full = "oom_kill_disable 1\nunder_oom 1\noom_kill 0\n"
    files = {f"{MEMORY}/a/b/memory.oom_control": full, f"{MEMORY}/a/memory.oom_control": full}
    files[f"{MEMORY}/memory.oom_control"] = full.replace("under_oom 1", "under_oom 0")
    found = looked("4:memory:/a/b\n", **files, **{f"{MEMORY}/a/memory.limit_in_bytes": "1000\n"})
    assert (found.limited_by, found.memory_limit) == (f"{MEMORY}/a/memory.limit_in_bytes", 1000)


def test_the_quotas_of_both_versions() -> None:
    counters = "nr_periods 10\nnr_throttled 9\n"
    assert looked("0::/a\n", **{f"{V2}/a/cpu.stat": counters}).throttled_by == f"{V2}/a/cpu.max"
    found = looked("1:cpu:/a\n", **{"/sys/fs/cgroup/cpu/a/cpu.stat": counters})
    assert found.throttled_by == "/sys/fs/cgroup/cpu/a/cpu.cfs_quota_us"
