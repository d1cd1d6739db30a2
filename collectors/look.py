"""One look at a process tree: every sense asked once, for no more than what the state leaves open.

Counters first, for all. Then, if they do not already decide (`core.working`), what each blocked thread waits for,
and only for what is waited on: the descriptor, its other ends, its socket, its lock.
"""

from collectors import terminals
from collectors.calls import read_call
from collectors.cgroups import Cgroups
from collectors.descriptors import Descriptors, ends_of, fdinfo
from collectors.dispositions import read_dispositions, read_timers
from collectors.kernel import Kernel
from collectors.locks import find_holders, name_holders, read_locks
from collectors.neighbours import neighbours_of
from collectors.pressures import read_pressures
from collectors.processes import Tree, add_storage, sample_states
from collectors.sockets import Sockets, unix_socket
from collectors.unseen import describe
from sidecar.core import evidence
from sidecar.core.evidence import RUNNING, Descriptor, Look, Process, Thread

_RETRIES_AT_MOST = 8
_RETRY_PAUSE_S = 0.003
_SAY_ENOUGH = frozenset(
    {
        "nanosleep",
        "clock_nanosleep",
        "futex",
        "poll",
        "select",
        "epoll",
        "wait4",
        "waitid",
        "accept",
        "accept4",
        "connect",
    }
    | {"recvfrom", "recvmsg", "pause", "rt_sigsuspend", "rt_sigtimedwait", "flock"}
)
"""Calls beside which the wait channel tells nothing new."""
_SLEEPS = frozenset({"nanosleep", "clock_nanosleep", RUNNING})
_SHORT_SLEEP_S = 2.0
_UNIX_SOCKETS_AT_MOST = 64


class Looker:
    """Looks at one tree again and again; keeps what does not change between the looks.

    `root` is the direct child's pid. `supervisor` is our own pid where we started the command: then what was
    reparented to us belongs to the tree too, but for the pids in `excluded`. `terminal` is a descriptor of the
    command's terminal. `proc_root` and `denied`: see `Kernel`.
    """

    def __init__(
        self,
        root: int,
        *,
        supervisor: int | None = None,
        terminal: int | None = None,
        excluded: frozenset[int] = frozenset(),
        kernel: Kernel | None = None,
    ) -> None:
        self.root = root
        self.supervisor = supervisor
        self.terminal = terminal
        self.excluded = excluded
        self.kernel = kernel if kernel is not None else Kernel()
        self.extra_roots: tuple[int, ...] = ()
        self._sockets = Sockets()
        self._cgroups = Cgroups()

    def look(self, before: Look | None = None) -> Look:
        """The first look of a pair: counters, and what the threads wait for. `before`: an earlier look saves work."""
        look = self.count(before)
        self.detail(look, before, is_last=False)
        return look

    def count(self, before: Look | None = None) -> Look:
        """Processes, threads, counters, control group. After it `detail` may add what each thread waits for."""
        kernel = self.kernel
        kernel.refused.clear()
        tree = Tree(kernel)
        roots = [self.root, *self.extra_roots]
        if self.supervisor is not None:
            roots += tree.children(self.supervisor)
        tree.walk(roots, self.excluded | {kernel.own_pid})
        look = Look(kernel.now_ns(), self.root, tree.processes, is_whole=tree.is_whole)
        look.is_hidden = self.root not in tree.processes and kernel.exists(self.root)
        for process in tree.processes.values():
            earlier = before.processes.get(process.pid) if before is not None else None
            if earlier is not None and earlier.storage_bytes is not None and _stood_still(earlier, process):
                process.storage_bytes = earlier.storage_bytes
            else:
                add_storage(kernel, process)
        first = next(iter(tree.processes), None)
        if first is not None:
            look.cgroup = self._cgroups.read(kernel, self.root if self.root in tree.processes else first)
        look.pressures = read_pressures(kernel)
        look.unseen = describe(kernel, look)
        return look

    def detail(self, look: Look, before: Look | None = None, *, is_last: bool = True) -> None:
        """Add to `look` what each thread waits for, and (of the last of a pair) who has the other ends of that."""
        alive = [process for process in look.processes.values() if process.is_alive]
        for process in alive:
            earlier = before.processes.get(process.pid) if before is not None else None
            if earlier is not None and _stood_still(earlier, process):
                # It had no chance to open, close or handle anything: only what runs out is read again.
                process.descriptors, process.all_descriptors = earlier.descriptors, earlier.all_descriptors
                process.handled_signals, process.tracer = earlier.handled_signals, earlier.tracer
                process.pending_timers = earlier.pending_timers
        self._read_calls(alive, before)
        descriptors = Descriptors(self.kernel)
        waited = _Waited()
        for process in alive:
            for thread in process.threads.values():
                self._resolve(process, thread, descriptors, waited)
        look.sockets = self._sockets.look_up(self.kernel, waited.sockets)
        if is_last:
            # Who has the other ends matters for the verdict alone, and that is drawn from the second look.
            look.terminal = terminals.read_terminal(self.kernel, self.terminal, alive)
            self._read_ends(look, alive, descriptors, waited)
            if waited.has_candidates and not waited.has_sleeper:
                for process in alive:
                    read_dispositions(self.kernel, process)
                    read_timers(self.kernel, process)
        self._read_locks(look, alive, descriptors, waited)
        look.unseen = describe(self.kernel, look)
        look.is_detailed = True

    def sample(self, look: Look, states: dict[int, str]) -> None:
        """Add the states of this moment of (some of) the processes of `look` to `states`."""
        sample_states(self.kernel, _worth_sampling(look), states)

    def _read_calls(self, alive: list[Process], before: Look | None) -> None:
        retries = _RETRIES_AT_MOST
        for process in alive:
            earlier = before.processes.get(process.pid) if before is not None else None
            for thread in process.threads.values():
                if thread.state in "ZXTtI":
                    continue
                thread.call = read_call(self.kernel, process.pid, thread.tid)
                if thread.call is not None and thread.call.name == RUNNING:
                    previous = earlier.threads.get(thread.tid) if earlier is not None else None
                    if previous is not None and previous.call is not None and previous.call.name != RUNNING:
                        thread.call = previous.call
                    while thread.call is not None and thread.call.name == RUNNING and retries > 0:
                        retries -= 1
                        self.kernel.pause(_RETRY_PAUSE_S)
                        thread.call = read_call(self.kernel, process.pid, thread.tid)
                call = thread.call
                if call is None or thread.state == "D" or call.was_resumed or call.name not in _SAY_ENOUGH:
                    thread.wait_channel = self._wait_channel(process.pid, thread.tid)
                if call is None and thread.state == "R" and thread.wait_channel is None:
                    previous = earlier.threads.get(thread.tid) if earlier is not None else None
                    thread.wait_channel = previous.wait_channel if previous is not None else None

    def _wait_channel(self, pid: int, tid: int) -> str | None:
        name = (self.kernel.read(f"{pid}/task/{tid}/wchan") or b"").decode("ascii", "replace").strip()
        return None if name in ("", "0") else name

    def _resolve(self, process: Process, thread: Thread, descriptors: Descriptors, waited: "_Waited") -> None:
        if thread.is_gone:
            return
        call = thread.call
        if call is None or call.name not in _SLEEPS:
            read_dispositions(self.kernel, process)
        elif call.name != RUNNING and len(process.threads) == 1:
            waited.has_sleeper = True
        if call is None:
            if thread.state not in "Tt":
                waited.may_hang = True
                if "nanosleep" in (thread.wait_channel or ""):
                    waited.short_sleepers.append(process)
                descriptors.read_all(process)
                for number in sorted(process.descriptors or {}):
                    waited.add(process, descriptors.resolve(process, number))
            return
        if call.path and (thread.state == "D" or call.name not in _SAY_ENOUGH):
            call.mount_point = descriptors.mounts_of(process.pid).of_path(call.path)[0]
        if call.wants_lock:
            waited.wants_locks = True
        if call.name == "futex":
            read_timers(self.kernel, process)
        if call.name == "futex" or thread.state == "D" or call.name not in _SAY_ENOUGH:
            waited.may_hang = True
        if call.name in ("nanosleep", "clock_nanosleep", "poll", "select") and not call.polled:
            length = call.asked_s if call.asked_s is not None else 0.0
            if length < _SHORT_SLEEP_S:
                # It may pace a transfer, or poll for a lock: its sockets and files matter though it waits on none.
                waited.short_sleepers.append(process)
                descriptors.read_all(process)
                for open_one in (process.descriptors or {}).values():
                    if open_one.kind == evidence.SOCKET:
                        waited.add(process, open_one)
        numbers = [number for number, _ in call.polled or ()]
        if call.descriptor is not None:
            numbers.append(call.descriptor)
        for number in numbers:
            found = descriptors.resolve(process, number)
            waited.add(process, found)
            if found is not None and found.kind == evidence.EPOLL:
                for watched, _ in found.polled or ():
                    waited.add(process, descriptors.resolve(process, watched))

    def _read_ends(self, look: Look, alive: list[Process], descriptors: Descriptors, waited: "_Waited") -> None:
        wanted = set(waited.pipes)
        for record in look.sockets.values():
            if record.peer_inode and record.inode in waited.sockets:
                wanted.add(f"socket:[{record.peer_inode}]")
        if not wanted:
            return
        for process in alive:
            descriptors.read_all(process)
        if waited.pipes:
            self._read_unix_sockets(look, alive)
        neighbours = neighbours_of(self.kernel, look, self.supervisor)
        for process in neighbours:
            descriptors.read_all(process)
        look.ends = ends_of(self.kernel, wanted, alive, self.supervisor, neighbours)

    def _read_unix_sockets(self, look: Look, alive: list[Process]) -> None:
        """Those of the tree, and their other ends: a message that waits there may carry an end of a pipe."""
        found = [one for process in alive for one in (process.descriptors or {}).values()]
        inodes = {one.inode for one in found if one.kind == evidence.SOCKET and one.inode}
        for inode in sorted(inodes - look.sockets.keys())[:_UNIX_SOCKETS_AT_MOST]:
            record = unix_socket(self.kernel, inode)
            if record is None:
                continue
            look.sockets[inode] = record
            peer = unix_socket(self.kernel, record.peer_inode) if record.peer_inode else None
            if peer is not None:
                look.sockets[peer.inode] = peer

    def _read_locks(self, look: Look, alive: list[Process], descriptors: Descriptors, waited: "_Waited") -> None:
        blind = any(thread.call is None for process in alive for thread in process.threads.values())
        if not (waited.wants_locks or waited.short_sleepers or blind):
            return
        pids = set(look.processes)
        locks = read_locks(self.kernel)
        held = {lock.file.rpartition(":")[2]: lock for lock in locks if lock.holder is None and lock.is_write}
        look.locks = [lock for lock in locks if lock.pid in pids]
        for process in waited.short_sleepers if held else ():
            for found in list((process.descriptors or {}).values()):
                if found.kind == evidence.FILE and found.target.startswith("/"):
                    lock = held.get(_inode_in(fdinfo(self.kernel, process.pid, found.number)))
                    if lock is not None and lock.pid != process.pid:
                        look.files.setdefault(process.pid, {})[lock.file] = found.target
                        if lock not in look.locks:
                            look.locks.append(lock)
        name_holders(self.kernel, look.locks, pids)
        if any(lock.holder is not None for lock in look.locks):
            for process in alive:
                descriptors.read_all(process)
            around = neighbours_of(self.kernel, look, self.supervisor)
            for process in around:
                descriptors.read_all(process)
            find_holders(self.kernel, look.locks, [*alive, *around])


class _Waited:
    """What the threads of a look wait on."""

    def __init__(self) -> None:
        self.pipes: set[str] = set()
        self.sockets: dict[int, int] = {}
        self.wants_locks = False
        self.may_hang = False
        """Somebody waits for a thread, or in a file system."""
        self.has_sleeper = False
        """A process that only sleeps will act: no hang is said (rules/actors.py), and nobody else need be asked."""
        self.short_sleepers: list[Process] = []

    @property
    def has_candidates(self) -> bool:
        """Something that could be a hang is waited for."""
        return bool(self.may_hang or self.pipes or self.sockets or self.wants_locks)

    def add(self, process: Process, found: Descriptor | None) -> None:
        if found is None:
            return
        if found.kind == evidence.SOCKET and found.inode:
            self.sockets[found.inode] = process.pid
        elif found.kind == evidence.PIPE or (
            found.kind == evidence.FILE and found.target.startswith("/") and not found.is_remote
        ):
            self.pipes.add(found.target)


def _stood_still(earlier: Process, now: Process) -> bool:
    """No thread ran since: then no counter of it can have moved."""
    if earlier.started_ticks != now.started_ticks or earlier.threads.keys() != now.threads.keys():
        return False
    return all(
        thread.runs is not None and thread.runs == earlier.threads[tid].runs for tid, thread in now.threads.items()
    )


def _worth_sampling(look: Look) -> list[int]:
    """At most 16 processes, those that run or are in uninterruptible sleep first."""
    pids = [process.pid for process in look.processes.values() if process.is_alive]
    busy = [pid for pid in pids if look.processes[pid].state in "RD"]
    return (busy + [pid for pid in pids if pid not in set(busy)])[:16]


def _inode_in(info: list[str] | None) -> str:
    return next((line[4:].strip() for line in info or () if line.startswith("ino:")), "")
