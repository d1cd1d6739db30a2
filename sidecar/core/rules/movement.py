"""What moved in a process tree between two looks: CPU, storage, connections, who ran, who came and went."""


from sidecar.core.evidence import Look, Process

TYPE_CHECKING = False  # typing.TYPE_CHECKING, without the 7 ms of importing typing
if TYPE_CHECKING:
    from dataclasses import dataclass, field
else:
    from sidecar.core.records import dataclass, field


@dataclass(slots=True)
class Movement:
    """Differences between two looks. Shares are of one core over the time between (1.0 = one core busy).

    `ran` are the processes of which a thread ran, or may have: what cannot be told (no schedstat) is in
    `ran_unknown`. `uninterruptible` and `runnable` are the largest share of samples in state D and R of one process.
    """

    seconds: float
    cpu_share: float = 0.0
    cpu_by_process: dict[int, float] = field(default_factory=dict)
    delay_share: float = 0.0
    storage_bytes: int = 0
    is_storage_seen: bool = True
    major_faults: int = 0
    uninterruptible: float = 0.0
    runnable: float = 0.0
    ran: set[int] = field(default_factory=set)
    ran_unknown: set[int] = field(default_factory=set)
    born: set[int] = field(default_factory=set)
    gone: set[int] = field(default_factory=set)
    reaped_work: bool = False
    received_bytes: int | None = None
    sent_bytes: int | None = None

    @property
    def is_any(self) -> bool:
        """Did anything in the tree move?"""
        return bool(
            self.ran
            or self.born
            or self.gone
            or self.reaped_work
            or self.cpu_share > 0
            or self.storage_bytes > 0
            or self.received_bytes
            or self.sent_bytes
        )

    @property
    def busiest(self) -> list[int]:
        """Processes that used CPU, the most first."""
        used = [pid for pid, share in self.cpu_by_process.items() if share > 0]
        return sorted(used, key=lambda pid: -self.cpu_by_process[pid])


def measure(before: Look, after: Look) -> Movement:
    """Compare two looks at one tree. A pid whose start time differs is another process."""
    seconds = max((after.taken_ns - before.taken_ns) / 1e9, 1e-3)
    movement = Movement(seconds)
    own_ns = reaped_ns = 0
    for pid, process in after.processes.items():
        earlier = same_process(before, process)
        if earlier is None:
            movement.born.add(pid)
        gained_ns = _own_cpu_ns(earlier, process)
        movement.cpu_by_process[pid] = gained_ns / 1e9 / seconds
        own_ns += gained_ns
        reaped_ns += max(0, process.reaped_cpu_ns - (earlier.reaped_cpu_ns if earlier is not None else 0))
        movement.delay_share = max(movement.delay_share, _delay_ns(earlier, process) / 1e9 / seconds)
        _compare_runs(movement, earlier, process)
        _compare_faults(movement, earlier, process)
        if process.storage_bytes is None:
            movement.is_storage_seen = False
        elif earlier is not None and earlier.storage_bytes is not None:
            movement.storage_bytes += max(0, process.storage_bytes - earlier.storage_bytes)
        elif earlier is None:
            movement.storage_bytes += process.storage_bytes
    vanished = [process for process in before.processes.values() if same_process(after, process) is None]
    movement.gone = {process.pid for process in vanished}
    # A child that was waited for takes its whole life's CPU to its parent: what was seen of it before is not new.
    movement.reaped_work = reaped_ns > 0
    reaped_ns -= sum(process.cpu_ns + process.reaped_cpu_ns for process in vanished)
    movement.cpu_share = (own_ns + max(0, reaped_ns)) / 1e9 / seconds
    for states in after.states.values():
        if states:
            movement.uninterruptible = max(movement.uninterruptible, states.count("D") / len(states))
            movement.runnable = max(movement.runnable, states.count("R") / len(states))
    _compare_sockets(movement, before, after)
    return movement


def same_process(look: Look, process: Process) -> Process | None:
    """The record of this process in another look: pids are reused, start times tell."""
    other = look.processes.get(process.pid)
    return other if other is not None and other.started_ticks == process.started_ticks else None


def _own_cpu_ns(earlier: Process | None, now: Process) -> int:
    """The greater of two measures: clock ticks of the process, and nanoseconds of threads seen both times."""
    if earlier is None:
        return now.cpu_ns
    precise_ns = 0
    for tid, thread in now.threads.items():
        old = earlier.threads.get(tid)
        if thread.cpu_ns is not None:
            old_ns = old.cpu_ns if old is not None and old.cpu_ns is not None else (0 if old is None else thread.cpu_ns)
            precise_ns += max(0, thread.cpu_ns - old_ns)
    return max(now.cpu_ns - earlier.cpu_ns, precise_ns, 0)


def _delay_ns(earlier: Process | None, now: Process) -> int:
    """The longest that one thread was runnable and had no CPU; schedstat."""
    longest = 0
    for tid, thread in now.threads.items():
        old = earlier.threads.get(tid) if earlier is not None else None
        if thread.run_delay_ns is not None and old is not None and old.run_delay_ns is not None:
            longest = max(longest, thread.run_delay_ns - old.run_delay_ns)
    return longest


def _compare_runs(movement: Movement, earlier: Process | None, now: Process) -> None:
    if earlier is None or earlier.threads.keys() != now.threads.keys():
        movement.ran.add(now.pid)
        return
    for tid, thread in now.threads.items():
        if thread.runs is None or earlier.threads[tid].runs is None:
            movement.ran_unknown.add(now.pid)
        elif thread.runs != earlier.threads[tid].runs:
            movement.ran.add(now.pid)


def _compare_faults(movement: Movement, earlier: Process | None, now: Process) -> None:
    if earlier is not None:
        for tid, thread in now.threads.items():
            old = earlier.threads.get(tid)
            if old is not None:
                movement.major_faults += max(0, thread.major_faults - old.major_faults)


def _compare_sockets(movement: Movement, before: Look, after: Look) -> None:
    for inode, record in after.sockets.items():
        earlier = before.sockets.get(inode)
        if earlier is None or record.bytes_received is None or earlier.bytes_received is None:
            continue
        received = max(0, record.bytes_received - earlier.bytes_received)
        sent = max(0, (record.bytes_sent or 0) - (earlier.bytes_sent or 0))
        movement.received_bytes = (movement.received_bytes or 0) + received
        movement.sent_bytes = (movement.sent_bytes or 0) + sent
