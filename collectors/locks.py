"""Who holds a file lock, and who waits for it: proc(5), /proc/locks.

Cost: 10 microseconds and 1 more per lock of the host; where somebody waits for one, 5 more for each open file.
Privilege: none, ptrace access for those of open files; pids are of our pid namespace. Cannot see: the
holder of an open file description's lock (F_OFD_SETLK) is -1; a lock held on a remote server is not there.
"""

from collectors.descriptors import fdinfo
from collectors.kernel import Kernel
from collectors.processes import read_stat
from sidecar.core import evidence
from sidecar.core.evidence import Lock, Process

_FILES_AT_MOST = 512


def read_locks(kernel: Kernel) -> list[Lock]:
    """All locks of the host, waiters with their holders. [] where the file cannot be read."""
    locks: list[Lock] = []
    holder_of: dict[str, Lock] = {}
    for line in (kernel.read("locks") or b"").decode("ascii", "replace").splitlines():
        fields = line.replace("-> ", "").split()
        if len(fields) < 6:
            continue
        try:
            lock = Lock(int(fields[4]), fields[1], fields[3] == "WRITE", fields[5])
        except ValueError:
            continue
        if "->" in line:
            held = holder_of.get(fields[0])
            lock.holder = held.pid if held is not None else None
        else:
            holder_of[fields[0]] = lock
        locks.append(lock)
    return locks


def name_holders(kernel: Kernel, locks: list[Lock], interesting: set[int]) -> None:
    """Put the holder's program beside the locks that the processes of `interesting` wait for or could wait for."""
    for lock in locks:
        pid = lock.holder if lock.holder is not None else lock.pid
        if pid > 0 and (lock.pid in interesting or lock.holder is None) and not lock.holder_program:
            process, _ = read_stat(kernel, pid)
            lock.holder_program = process.program if process is not None else ""
            lock.holder_has_ended = _has_ended(process) if process is not None else not kernel.exists(pid)


def find_holders(kernel: Kernel, locks: list[Lock], processes: list[Process]) -> None:
    """Who has each lock that is waited for, by the `lock:` lines of their fdinfo: proc(5), fs/locks.c show_fd_locks.

    /proc/locks names who took it. A lock of an open file (flock, F_OFD_SETLK) is held by whoever has that open, and
    who took it may be gone, and its pid another's. `processes` have their whole tables read already.
    """
    waiting = [lock for lock in locks if lock.holder is not None]
    files = {lock.file for lock in waiting}
    has: dict[tuple[str, str], dict[int, str]] = {}
    left = _FILES_AT_MOST
    is_readable = False
    for process in processes:
        for found in list((process.descriptors or {}).values()):
            if found.kind != evidence.FILE or not found.target.startswith("/") or left <= 0:
                continue
            left -= 1
            info = fdinfo(kernel, process.pid, found.number)
            is_readable = is_readable or info is not None
            for line in info or ():
                fields = line.split()
                if line.startswith("lock:") and len(fields) > 6 and fields[6] in files:
                    has.setdefault((fields[2], fields[6]), {})[process.pid] = process.program
    for lock in waiting if is_readable else ():
        lock.programs = has.get((lock.kind, lock.file), {})
        lock.holders = tuple(sorted(lock.programs))


def _has_ended(process: Process) -> bool:
    """A zombie has closed its files; one whose main thread alone has ended has not."""
    return process.state in "ZX" and process.thread_count <= 1
