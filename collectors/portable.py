"""A look without /proc (macOS, BSD): what psutil tells of a process tree. Less is seen, and less is said.

States, CPU time and parents are enough for computing, stopped and a secret prompt; what a thread waits for cannot be
seen, and the verdict is unknown then. Cost: about 0.2 ms a process. Privilege: one's own processes. psutil is loaded
with this module and nowhere else.
"""

import os

import psutil

from collectors import terminals
from collectors.look import Looker
from sidecar.core.evidence import Look, Process, Thread, Unseen

_STATES = {
    psutil.STATUS_RUNNING: "R",
    psutil.STATUS_SLEEPING: "S",
    psutil.STATUS_DISK_SLEEP: "D",
    psutil.STATUS_STOPPED: "T",
    psutil.STATUS_ZOMBIE: "Z",
    psutil.STATUS_DEAD: "X",
    psutil.STATUS_IDLE: "S",
    psutil.STATUS_WAITING: "S",
}
_UNSEEN = Unseen("what each thread waits for", "run the sidecar on Linux: no other kernel shows it without tracing")
_TICKS = 1000  # start times are compared only with each other: thousandths of a second do


class PortableLooker(Looker):
    """A Looker that asks psutil: the same methods, the same records, fewer facts in them."""

    def count(self, before: Look | None = None) -> Look:
        look = Look(self.kernel.now_ns(), self.root, unseen=[_UNSEEN])
        for root in (self.root, *self.extra_roots):
            for one in _with_descendants(root):
                if one.pid not in self.excluded and one.pid != self.kernel.own_pid:
                    record = _record(one)
                    if record is not None:
                        look.processes[one.pid] = record
        return look

    def detail(self, look: Look, before: Look | None = None, *, is_last: bool = True) -> None:
        alive = [process for process in look.processes.values() if process.is_alive]
        look.terminal = terminals.read_terminal(self.kernel, self.terminal, alive)
        if look.terminal is not None:
            for process in alive:
                process.foreground_group = look.terminal.foreground_group or -1
        look.is_detailed = True

    def sample(self, look: Look, states: dict[int, str]) -> None:
        for pid in list(look.processes)[:16]:
            try:
                state = _STATES.get(psutil.Process(pid).status(), "S")
            except psutil.Error:
                continue
            states[pid] = states.get(pid, "") + state


def _with_descendants(root: int) -> list[psutil.Process]:
    try:
        process = psutil.Process(root)
        return [process, *process.children(recursive=True)]
    except psutil.Error:
        return []


def _record(one: psutil.Process) -> Process | None:
    """None: gone meanwhile."""
    try:
        with one.oneshot():
            times, state = one.cpu_times(), _STATES.get(one.status(), "S")
            group = os.getpgid(one.pid)
            record = Process(
                pid=one.pid,
                parent=one.ppid(),
                program=one.name(),
                state=state,
                group=group,
                terminal=1 if one.terminal() else 0,
                started_ticks=int(one.create_time() * _TICKS),
                cpu_ns=int((times.user + times.system) * 1e9),
                descriptors=None,
            )
    except (psutil.Error, OSError):
        return None
    reaped = getattr(times, "children_user", 0.0) + getattr(times, "children_system", 0.0)
    record.reaped_cpu_ns = int(reaped * 1e9)
    record.threads[one.pid] = Thread(one.pid, state)
    return record
