"""The command's control group: is it frozen, throttled, out of memory? cgroups(7), cgroup-v2.rst, cgroup-v1/*.rst.

Cost: 60 microseconds. Privilege: none, as long as /sys/fs/cgroup is mounted where we are. Cannot see: None.
"""

from collectors.kernel import Kernel
from sidecar.core.evidence import Cgroup


class Cgroups:
    """Where the controllers are mounted is read once; the counters at each look."""

    def __init__(self) -> None:
        self._mounts: dict[str, tuple[str, str]] | None = None

    def read(self, kernel: Kernel, pid: int) -> Cgroup | None:
        """The counters of the group `pid` is in."""
        data = kernel.read(f"{pid}/cgroup")
        if data is None:
            return None
        if self._mounts is None:
            self._mounts = _mount_points(kernel)
        cgroup = Cgroup()
        for line in data.decode("utf-8", "replace").splitlines():
            _, _, rest = line.partition(":")
            controllers, _, path = rest.partition(":")
            for controller in controllers.split(","):
                folder = self._folder(controller or _V2, path)
                if folder is not None:
                    reader = _READERS.get(controller)
                    if reader is not None:
                        reader(kernel, folder, cgroup)
        return cgroup

    def _folder(self, controller: str, path: str) -> str | None:
        mount = (self._mounts or {}).get(controller)
        if mount is None:
            return None
        point, root = mount
        if root != "/" and path.startswith(root):
            path = path[len(root) :]
        return point + path.rstrip("/")


_V2 = "cgroup2"


def _mount_points(kernel: Kernel) -> dict[str, tuple[str, str]]:
    """controller -> (where it is mounted, which group that is)."""
    mounts: dict[str, tuple[str, str]] = {}
    for line in (kernel.read("self/mountinfo") or b"").decode("utf-8", "replace").splitlines():
        left, _, right = line.partition(" - ")
        fields, kind = left.split(), right.split()
        if len(fields) < 5 or not kind:
            continue
        if kind[0] == "cgroup2":
            mounts[_V2] = (fields[4], fields[3])
        elif kind[0] == "cgroup" and len(kind) >= 3:
            for controller in kind[2].split(","):
                mounts.setdefault(controller, (fields[4], fields[3]))
    return mounts


def _values(kernel: Kernel, path: str) -> dict[str, int]:
    """A file of `name number` lines."""
    values = {}
    for line in (kernel.read_system(path) or b"").decode("ascii", "replace").splitlines():
        name, _, value = line.partition(" ")
        if value.strip().isdecimal():
            values[name] = int(value)
    return values


def _number(kernel: Kernel, path: str) -> int | None:
    text = (kernel.read_system(path) or b"").strip()
    return int(text) if text.isdigit() else None


def _read_v2(kernel: Kernel, folder: str, cgroup: Cgroup) -> None:
    events = _values(kernel, folder + "/cgroup.events")
    if "frozen" in events:
        cgroup.is_frozen = events["frozen"] == 1
        if cgroup.is_frozen:
            cgroup.frozen_by = _nearest(kernel, folder, "cgroup.freeze", b"1", "cgroup.freeze")
    _read_cpu_statistics(_values(kernel, folder + "/cpu.stat"), cgroup, folder + "/cpu.max")
    memory = _values(kernel, folder + "/memory.events")
    if memory:
        cgroup.memory_high_events, cgroup.oom_kills = memory.get("high"), memory.get("oom_kill")
        cgroup.memory_high = _number(kernel, folder + "/memory.high")
        cgroup.high_by = folder + "/memory.high"
        if cgroup.memory_high is not None:
            cgroup.memory_current = _number(kernel, folder + "/memory.current")


def _read_cpu(kernel: Kernel, folder: str, cgroup: Cgroup) -> None:
    _read_cpu_statistics(_values(kernel, folder + "/cpu.stat"), cgroup, folder + "/cpu.cfs_quota_us")


def _read_cpu_statistics(values: dict[str, int], cgroup: Cgroup, quota: str) -> None:
    """v2 counts in microseconds, v1 in nanoseconds."""
    if "nr_periods" in values:
        cgroup.periods, cgroup.throttled_periods = values["nr_periods"], values.get("nr_throttled")
        cgroup.throttled_by = quota
        cgroup.throttled_ns = values.get("throttled_time", values.get("throttled_usec", 0) * 1000)


def _read_memory(kernel: Kernel, folder: str, cgroup: Cgroup) -> None:
    values = _values(kernel, folder + "/memory.oom_control")
    if "under_oom" in values:
        cgroup.is_out_of_memory = values["under_oom"] == 1
        cgroup.oom_kills = values.get("oom_kill", cgroup.oom_kills)
        if cgroup.is_out_of_memory:
            cgroup.limited_by = _uppermost_out_of_memory(kernel, folder) + "/memory.limit_in_bytes"
            cgroup.memory_limit = _number(kernel, cgroup.limited_by)


def _read_freezer(kernel: Kernel, folder: str, cgroup: Cgroup) -> None:
    """THAWED, FREEZING or FROZEN; the root group has no such file."""
    state = (kernel.read_system(folder + "/freezer.state") or b"").strip()
    if state:
        cgroup.is_frozen = state in (b"FROZEN", b"FREEZING")
        if cgroup.is_frozen:
            cgroup.frozen_by = _nearest(kernel, folder, "freezer.self_freezing", b"1", "freezer.state")


def _nearest(kernel: Kernel, folder: str, file: str, value: bytes, wanted: str) -> str:
    """`wanted` of the group itself, or else of the nearest above it, whose `file` has `value`; empty: there is none."""
    while folder.count("/") > 1:
        found = kernel.read_system(f"{folder}/{file}")
        if found is None:
            return ""
        if found.strip() == value:
            return f"{folder}/{wanted}"
        folder = folder.rpartition("/")[0]
    return ""


def _uppermost_out_of_memory(kernel: Kernel, folder: str) -> str:
    """A group that is out of memory marks all below it: mm/memcontrol-v1.c, mem_cgroup_mark_under_oom."""
    while _values(kernel, folder.rpartition("/")[0] + "/memory.oom_control").get("under_oom") == 1:
        folder = folder.rpartition("/")[0]
    return folder


_READERS = {"": _read_v2, "cpu": _read_cpu, "memory": _read_memory, "freezer": _read_freezer}
