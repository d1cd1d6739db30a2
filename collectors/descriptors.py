"""Where a descriptor leads, and who else has a pipe or socket open. proc(5): /proc/PID/fd, /proc/PID/fdinfo.

Only readlink, lstat and fdinfo: a stat through /proc/PID/fd/N goes to the file system, and hangs on a dead one.
Cost: 1 microsecond a descriptor, 2 more for one whose fdinfo is read. Privilege: ptrace access (read). Cannot see:
the process's `descriptors` are None.
"""

from collectors.kernel import Kernel
from collectors.mounts import Mounts, is_served_elsewhere
from sidecar.core import evidence
from sidecar.core.evidence import READ, WRITE, Descriptor, End, Process

DESCRIPTORS_AT_MOST = 4096
_SHARED_MEMORY = "/dev/shm/"  # noqa: S108 - compared with, never written to
_READABLE, _WRITABLE = 0o400, 0o200
_EPOLLIN, _EPOLLPRI, _EPOLLOUT = 0x1, 0x2, 0x4
_ANONYMOUS = {
    "timerfd": evidence.TIMERFD,
    "eventfd": evidence.EVENTFD,
    "signalfd": evidence.SIGNALFD,
    "inotify": evidence.INOTIFY,
    "fanotify": evidence.INOTIFY,
    "pidfd": evidence.PIDFD,
    "eventpoll": evidence.EPOLL,
}


def classify(target: str) -> str:
    """The kind of descriptor, from the text of its link."""
    if target.startswith("pipe:"):
        return evidence.PIPE
    if target.startswith("socket:"):
        return evidence.SOCKET
    if target.startswith("anon_inode:"):
        name = target[11:].strip("[]")
        return _ANONYMOUS.get(name, name)
    if target.startswith("pidfd:"):
        return evidence.PIDFD
    if target.startswith(("/dev/pts/", "/dev/ttyS", "/dev/hvc")) or target in ("/dev/tty", "/dev/console"):
        return evidence.TERMINAL
    if target.startswith("/dev/tty") and target[8:].isdecimal():
        return evidence.TERMINAL
    is_device = target.startswith("/dev/") and not target.startswith(_SHARED_MEMORY)
    return evidence.DEVICE if is_device else evidence.FILE


class Descriptors:
    """Reads descriptors into the processes of one look, each at most once."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._mounts: dict[int, Mounts] = {}
        self._detailed: set[tuple[int, int]] = set()

    def resolve(self, process: Process, number: int) -> Descriptor | None:
        """One descriptor, with what its fdinfo adds. None: closed, or not to be read."""
        if process.descriptors is None:
            return None
        found = process.descriptors.get(number)
        if found is None:
            target = self._kernel.link(f"{process.pid}/fd/{number}")
            if target is None:
                if "fd" in self._kernel.refused and not process.descriptors:
                    process.descriptors = None
                return None
            found = process.descriptors[number] = Descriptor(number, target, classify(target), inode_of(target))
        if (process.pid, number) not in self._detailed:
            self._detailed.add((process.pid, number))
            self._add_details(process, found)
        return found

    def read_all(self, process: Process) -> None:
        """The whole table, without what fdinfo adds."""
        if process.all_descriptors or process.descriptors is None:
            return
        names = self._kernel.names(f"{process.pid}/fd")
        if names is None:
            if "fd" in self._kernel.refused:
                process.descriptors = None
            return
        for number in [int(name) for name in names[:DESCRIPTORS_AT_MOST] if name.isdecimal()]:
            if number not in process.descriptors:
                target = self._kernel.link(f"{process.pid}/fd/{number}")
                if target is not None:
                    process.descriptors[number] = Descriptor(number, target, classify(target), inode_of(target))
        process.all_descriptors = True

    def mounts_of(self, pid: int) -> Mounts:
        if pid not in self._mounts:
            self._mounts[pid] = Mounts(self._kernel, pid)
        return self._mounts[pid]

    def _add_details(self, process: Process, found: Descriptor) -> None:
        if found.kind not in (evidence.FILE, evidence.TIMERFD, evidence.PIDFD, evidence.EPOLL):
            return
        info = fdinfo(self._kernel, process.pid, found.number)
        if info is None:
            return
        try:
            self._add_info(process, found, info)
        except (ValueError, IndexError):
            return  # a kernel that writes it in another way tells us nothing

    def _add_info(self, process: Process, found: Descriptor, info: list[str]) -> None:
        if found.kind == evidence.FILE:
            mount = next((line[7:].strip() for line in info if line.startswith("mnt_id:")), "")
            mounts = self.mounts_of(process.pid)
            at = mounts.of_id(mount)
            found.mount_point, found.file_system = at if at[1] else mounts.of_path(found.target)
            found.is_remote = is_served_elsewhere(found.file_system)
        elif found.kind == evidence.TIMERFD:
            found.left_s = _timer_left_s(info)
        elif found.kind == evidence.PIDFD:
            found.pid = next((int(line[4:]) for line in info if line.startswith("Pid:")), None)
        else:
            found.polled = _watched(info)


def fdinfo(kernel: Kernel, pid: int, number: int) -> list[str] | None:
    data = kernel.read(f"{pid}/fdinfo/{number}")
    return None if data is None else data.decode("utf-8", "replace").splitlines()


def inode_of(target: str) -> int:
    """The number in `pipe:[123]` and `socket:[123]`; 0 for others."""
    name, _, rest = target.partition(":[")
    if name in ("pipe", "socket") and rest[:-1].isdecimal():
        return int(rest[:-1])
    return 0


def _timer_left_s(info: list[str]) -> float | None:
    """timerfd_create(2), /proc/PID/fdinfo: `it_value: (seconds, nanoseconds)`; (0, 0) is not armed."""
    for line in info:
        if line.startswith("it_value:"):
            whole, _, part = line[9:].strip(" ()").partition(",")
            left_s = int(whole) + int(part) / 1e9
            return left_s or None
    return None


def _watched(info: list[str]) -> tuple[tuple[int, str], ...]:
    """epoll(7), fdinfo: `tfd: 5 events: 19 ...`. What is watched for errors only is left out."""
    watched = []
    for line in info:
        if line.startswith("tfd:"):
            fields = line.split()
            number, events = int(fields[1]), int(fields[3], 16)
            if events & (_EPOLLIN | _EPOLLPRI):
                watched.append((number, READ))
            elif events & _EPOLLOUT:
                watched.append((number, WRITE))
    return tuple(watched)


def ends_of(
    kernel: Kernel, wanted: set[str], processes: list[Process], supervisor: int | None, neighbours: list[Process]
) -> dict[str, list[End]]:
    """Everyone known to have each of `wanted` (link texts) open.

    `processes` have their whole tables read already; `supervisor` is our own pid; `neighbours` are processes
    around the tree that may be at the other end of its streams.
    """
    ends: dict[str, list[End]] = {target: [] for target in wanted}
    for process in processes:
        for found in (process.descriptors or {}).values():
            if found.target in wanted:
                _add_end(kernel, ends, process, found, in_tree=True, is_supervisor=False)
    for process in neighbours:
        for found in (process.descriptors or {}).values():
            if found.target in wanted:
                is_supervisor = process.pid == supervisor
                _add_end(kernel, ends, process, found, in_tree=False, is_supervisor=is_supervisor)
    return ends


def _add_end(
    kernel: Kernel,
    ends: dict[str, list[End]],
    process: Process,
    found: Descriptor,
    *,
    in_tree: bool,
    is_supervisor: bool,
) -> None:
    mode = kernel.link_mode(f"{process.pid}/fd/{found.number}")
    if mode:  # else it was closed since
        can_read, can_write = bool(mode & _READABLE), bool(mode & _WRITABLE)
        ends[found.target].append(
            End(process.pid, process.program, found.number, can_read, can_write, in_tree, is_supervisor)
        )
