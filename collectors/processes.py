"""The process tree: who there is, and each one's counters. proc(5): stat, io, task/TID/children, schedstat.

Cost: about 12 microseconds a process of one thread, 8 more for each further thread. Privilege: none for stat and
schedstat; io wants ptrace access. Cannot see: with hidepid, processes of other users are not there at all.
"""

import os

from collectors.kernel import Kernel
from sidecar.core.evidence import Process, Thread

PROCESSES_AT_MOST = 1000
THREADS_AT_MOST = 4000
"""A look is bounded: what is beyond is left out, and the look says that it is not whole."""

_IO_WORKERS = ("iou-wrk-", "iou-sqp-")
"""Threads of the kernel that io_uring puts into a process: they wait for work, and say nothing of it."""
_TICK_NS = 1_000_000_000 // (os.sysconf("SC_CLK_TCK") or 100)


def parse_stat(data: bytes) -> tuple[Process, int]:
    """A stat file as a Process without threads, and its major faults. Raises ValueError or IndexError.

    The program's name is in parentheses and may hold anything, `)` and newlines included; the kernel prints no
    other parenthesis after it.
    """
    opening, closing = data.index(b"("), data.rindex(b")")
    fields = data[closing + 2 :].split()
    return (
        Process(
            pid=int(data[:opening]),
            parent=int(fields[1]),
            program=data[opening + 1 : closing].decode("utf-8", "replace"),
            state=fields[0].decode("ascii", "replace"),
            group=int(fields[2]),
            session=int(fields[3]),
            terminal=int(fields[4]),
            foreground_group=int(fields[5]),
            started_ticks=int(fields[19]),
            cpu_ns=(int(fields[11]) + int(fields[12])) * _TICK_NS,
            reaped_cpu_ns=(int(fields[13]) + int(fields[14])) * _TICK_NS,
            thread_count=int(fields[17]),
            stop_signal=int(fields[49]) & 0x7F if len(fields) > 49 else 0,
        ),
        int(fields[9]),
    )


class Tree:
    """One walk. `processes` after `walk`; `is_whole` False where there was more than a look takes in."""

    def __init__(self, kernel: Kernel) -> None:
        self.processes: dict[int, Process] = {}
        self.is_whole = True
        self._kernel = kernel
        self._threads_left = THREADS_AT_MOST
        self._by_parent: dict[int, list[int]] | None = None

    def walk(self, roots: list[int], excluded: frozenset[int] = frozenset()) -> None:
        """Take in each root and all its descendants."""
        queue = list(roots)
        seen = set(excluded)
        while queue:
            pid = queue.pop()
            if pid in seen:
                continue
            seen.add(pid)
            if len(self.processes) >= PROCESSES_AT_MOST:
                self.is_whole = False
                return
            queue += self._take(pid)

    def _take(self, pid: int) -> list[int]:
        process, faults = read_stat(self._kernel, pid)
        if process is None:
            self.is_whole = False  # gone since its parent named it, or hidden from us
            return []
        self.processes[pid] = process
        children: list[int] = []
        if process.thread_count <= 1:
            thread = Thread(pid, process.state, major_faults=faults)
            _add_schedule(self._kernel, pid, thread)
            process.threads[pid] = thread
            children += self.children_of_thread(pid, pid)
            return children
        for tid in _thread_ids(self._kernel, pid):
            self._threads_left -= 1
            if self._threads_left < 0:
                self.is_whole = False
                break
            found = read_thread(self._kernel, pid, tid)
            if found is not None:
                process.threads[tid] = found
                children += self.children_of_thread(pid, tid)
        return children

    def children(self, pid: int) -> list[int]:
        """The children of a process, of all its threads."""
        return [child for tid in _thread_ids(self._kernel, pid) for child in self.children_of_thread(pid, tid)]

    def children_of_thread(self, pid: int, tid: int) -> list[int]:
        """From the children file, which needs CONFIG_PROC_CHILDREN; without it from the parents of all processes."""
        if self._by_parent is None:
            data = self._kernel.read(f"{pid}/task/{tid}/children")
            if data is not None:
                return _numbers(data)
            if not self._has_children_files(pid, tid):
                self._by_parent = self._scan()
        if self._by_parent is None:
            self.is_whole = False  # it was there a moment ago, and may have left children
            return []
        return self._by_parent.pop(pid, [])

    def _has_children_files(self, pid: int, tid: int) -> bool:
        """Whether the file is missing because the thread is gone, and not because there are no such files."""
        names = self._kernel.names(f"{pid}/task/{tid}")
        if "children" in self._kernel.denied:
            return False
        return names is None or "children" in names

    def _scan(self) -> dict[int, list[int]]:
        by_parent: dict[int, list[int]] = {}
        names = self._kernel.names(".")
        if names is None:
            self.is_whole = False
        for name in names or []:
            if name.isdecimal():
                process, _ = read_stat(self._kernel, int(name))
                if process is not None:
                    by_parent.setdefault(process.parent, []).append(process.pid)
        return by_parent


def read_stat(kernel: Kernel, pid: int) -> tuple[Process | None, int]:
    """One process and its major faults; None: gone."""
    data = kernel.read(f"{pid}/stat")
    if data is None:
        return None, 0
    try:
        return parse_stat(data)
    except (ValueError, IndexError):
        return None, 0


def read_thread(kernel: Kernel, pid: int, tid: int) -> Thread | None:
    """One thread of several: state and schedule."""
    data = kernel.read(f"{pid}/task/{tid}/stat")
    if data is None:
        return None
    try:
        record, faults = parse_stat(data)
    except (ValueError, IndexError):
        return None
    if record.program.startswith(_IO_WORKERS):
        return None
    thread = Thread(tid, record.state, major_faults=faults)
    _add_schedule(kernel, pid, thread)
    return thread


def _add_schedule(kernel: Kernel, pid: int, thread: Thread) -> None:
    fields = (kernel.read(f"{pid}/task/{thread.tid}/schedstat") or b"").split()
    if len(fields) == 3 and fields[2] != b"0":
        try:
            thread.cpu_ns, thread.run_delay_ns, thread.runs = int(fields[0]), int(fields[1]), int(fields[2])
        except ValueError:
            return


def add_storage(kernel: Kernel, process: Process) -> None:
    """Bytes the process caused to be read from and written to storage; proc(5), io."""
    data = kernel.read(f"{process.pid}/io")
    if data is None:
        return
    total = 0
    for line in data.splitlines():
        name, _, value = line.partition(b": ")
        if name in (b"read_bytes", b"write_bytes"):
            try:
                total += int(value)
            except ValueError:
                return
    process.storage_bytes = total


def sample_states(kernel: Kernel, pids: list[int], states: dict[int, str]) -> None:
    """Add each process's state of this moment to `states`."""
    for pid in pids:
        data = kernel.read(f"{pid}/stat")
        if data is not None:
            at = data.rfind(b")") + 2
            states[pid] = states.get(pid, "") + data[at : at + 1].decode("ascii", "replace")


def _thread_ids(kernel: Kernel, pid: int) -> list[int]:
    return [int(name) for name in kernel.names(f"{pid}/task") or [] if name.isdecimal()]


def _numbers(data: bytes) -> list[int]:
    return [int(part) for part in data.split() if part.isdigit()]
