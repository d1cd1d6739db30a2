"""What was observed about a silent command: the records of one look at its process tree.

A look is taken by `collectors`, judged by `sidecar.core.verdict`. Everything here is a plain record: what could
not be read is None (or named in `Look.unseen`), never a guess. Times are nanoseconds of the monotonic clock and
nanoseconds of CPU, unless a name says otherwise; lengths the command asked for are seconds, as it asked.
"""

TYPE_CHECKING = False  # typing.TYPE_CHECKING, without the 7 ms of importing typing
if TYPE_CHECKING:
    from dataclasses import dataclass, field
else:
    from sidecar.core.records import dataclass, field

READ, WRITE = "r", "w"

TERMINAL, PIPE, FIFO, SOCKET, FILE, DEVICE = "terminal", "pipe", "fifo", "socket", "file", "device"
TIMERFD, EVENTFD, SIGNALFD, INOTIFY, PIDFD, EPOLL = "timerfd", "eventfd", "signalfd", "inotify", "pidfd", "eventpoll"
INTERNAL_KINDS = frozenset({EVENTFD, SIGNALFD, "io_uring", "perf_event", "userfaultfd"})
"""Kinds of descriptor that nobody outside the process writes to in the ordinary way."""

RUNNING, PAGE_FAULT = "running", "page_fault"
"""What stands in for a system call's name: on a CPU (or about to be) / blocked outside any system call."""


@dataclass(slots=True)
class Futex:
    """A wait for another thread: futex(2). `owner` and `joins` are thread ids where the memory tells them."""

    address: int
    is_private: bool
    owner: int | None = None
    joins: int | None = None


@dataclass(slots=True)
class Call:
    """The system call a thread sits in, its arguments as far as they say what it waits for.

    `descriptor` is the one it acts on; `polled` the set of poll, select or epoll with what is asked of each
    (READ or WRITE), None where the set could not be read. `is_timed`: it has a time limit; None = not known.
    `asked_s` is the length asked for, `left_s` what is left of it where an absolute time tells.
    """

    name: str
    descriptor: int | None = None
    polled: tuple[tuple[int, str], ...] | None = None
    is_timed: bool | None = None
    asked_s: float | None = None
    left_s: float | None = None
    child: int | None = None
    futex: Futex | None = None
    path: str | None = None
    mount_point: str = ""
    """Of the file system that `path` is on, of a call that is stuck."""
    wants_lock: bool = False
    was_resumed: bool = False
    """It was stopped and continued (restart_syscall): the registers are of the call before, and may be stale."""


@dataclass(slots=True)
class Thread:
    """One thread. `cpu_ns`, `run_delay_ns` and `runs` are /proc/PID/task/TID/schedstat (None: not readable)."""

    tid: int
    state: str
    cpu_ns: int | None = None
    run_delay_ns: int | None = None
    runs: int | None = None
    major_faults: int = 0
    call: Call | None = None
    wait_channel: str | None = None

    @property
    def is_gone(self) -> bool:
        return self.state in "ZX"


@dataclass(slots=True)
class Descriptor:
    """Where one descriptor leads: readlink and lstat of /proc/PID/fd/N, never anything through it.

    `file_system` and `mount_point` are set for files. `left_s` for a timerfd that is armed, `pid` for a pidfd, `polled`
    for an epoll descriptor.
    """

    number: int
    target: str
    kind: str
    inode: int = 0
    file_system: str = ""
    mount_point: str = ""
    left_s: float | None = None
    pid: int | None = None
    polled: tuple[tuple[int, str], ...] | None = None
    is_remote: bool = False
    """On a file system that another process or host serves (NFS, FUSE...)."""


@dataclass(slots=True)
class Process:
    """One process. `descriptors` has those that were looked at; None: the table is not readable.

    `cpu_ns` is its own, `reaped_cpu_ns` that of children it has waited for, both in steps of a clock tick.
    """

    pid: int
    parent: int
    program: str
    state: str
    group: int = 0
    session: int = 0
    terminal: int = 0
    foreground_group: int = -1
    started_ticks: int = 0
    cpu_ns: int = 0
    reaped_cpu_ns: int = 0
    thread_count: int = 1
    stop_signal: int = 0
    threads: dict[int, Thread] = field(default_factory=dict)
    descriptors: dict[int, Descriptor] | None = field(default_factory=dict)
    all_descriptors: bool = False
    """`descriptors` is the whole table, not only what was asked for."""
    storage_bytes: int | None = None
    """Bytes it caused to be read from or written to storage; /proc/PID/io."""
    handled_signals: frozenset[int] | None = None
    pending_timers: int | None = None
    tracer: int | None = None

    @property
    def is_alive(self) -> bool:
        """A leader whose main thread has ended shows Z while its other threads compute."""
        return self.state not in "ZX" or any(not thread.is_gone for thread in self.threads.values())

    @property
    def name(self) -> str:
        return f"{self.program}[{self.pid}]"


@dataclass(slots=True)
class End:
    """Somebody who has a pipe or socket open. `in_tree` False: the supervisor, the agent, a neighbour."""

    pid: int
    program: str
    number: int
    can_read: bool
    can_write: bool
    in_tree: bool = True
    is_supervisor: bool = False

    @property
    def name(self) -> str:
        return f"{self.program}[{self.pid}]"


@dataclass(slots=True)
class Socket:
    """One socket, as sock_diag(7) or /proc/PID/net tells it. Ages are milliseconds before the look.

    `protocol` is tcp, udp, unix, icmp, raw or netlink. `timer` is retransmit, keepalive, time_wait,
    zero_window or empty (linux/inet_diag.h, idiag_timer).
    """

    inode: int
    protocol: str
    state: str = ""
    local: str = ""
    remote: str = ""
    remote_port: int = 0
    path: str = ""
    peer_inode: int | None = None
    receive_queue: int = 0
    send_queue: int = 0
    timer: str = ""
    timer_left_ms: int = 0
    retransmits: int = 0
    probes: int = 0
    unacknowledged: int | None = None
    last_sent_ms: int | None = None
    last_received_ms: int | None = None
    last_acknowledged_ms: int | None = None
    bytes_received: int | None = None
    bytes_sent: int | None = None
    backoff: int = 0
    """How often the time to the next try was doubled; linux/tcp.h, tcpi_backoff."""
    peer_unread: int | None = None
    """The other end is on this host: bytes that wait there to be read."""


@dataclass(slots=True)
class Lock:
    """A line of /proc/locks: somebody holds, or waits for, a lock on a file. Pid -1: an open file description's."""

    pid: int
    kind: str
    is_write: bool
    file: str
    """major:minor:inode, hexadecimal device numbers as the kernel prints them."""
    holder: int | None = None
    """Set on a line of one who waits: who took it. A lock of an open file may have been inherited since."""
    holder_program: str = ""
    holders: tuple[int, ...] | None = None
    """On the same line: who has it now, of the tree and around it, as their fdinfo says. None: could not be read."""
    programs: dict[int, str] = field(default_factory=dict)
    """Of `holders`, by pid."""
    holder_has_ended: bool = False
    """Who took it is gone, or a zombie. A lock of an open file is then held by whoever inherited that."""


@dataclass(slots=True)
class Cgroup:
    """The counters of the command's control group that can explain a silence; None: not there or not readable."""

    is_frozen: bool | None = None
    throttled_periods: int | None = None
    periods: int | None = None
    throttled_ns: int | None = None
    memory_high_events: int | None = None
    memory_current: int | None = None
    memory_high: int | None = None
    oom_kills: int | None = None
    is_out_of_memory: bool | None = None
    """Out of memory with the killer off: memory.oom_control under_oom (v1)."""
    frozen_by: str = ""
    """The file that thaws it, of this group or of one above; so the others: what has to be written to."""
    throttled_by: str = ""
    high_by: str = ""
    limited_by: str = ""
    memory_limit: int | None = None
    """In bytes, of the group of `limited_by`."""


@dataclass(slots=True)
class Terminal:
    """The command's terminal: termios(3) flags and who is in the foreground."""

    name: str = ""
    echo: bool = True
    canonical: bool = True
    foreground_group: int | None = None
    takes_output: bool | None = None
    """False: its output is stopped (Ctrl-S), or its buffer full, or a writer is stuck. None: not known."""


def terminal_path(device: int) -> str:
    """/dev/pts/N for a pseudo terminal (majors 136 to 143, Documentation/admin-guide/devices.txt), else empty."""
    major = (device >> 8) & 0xFFF
    minor = (device & 0xFF) | ((device >> 12) & 0xFFF00)
    return f"/dev/pts/{minor + (major - 136) * 256}" if 136 <= major <= 143 else ""


@dataclass(slots=True)
class Unseen:
    """A source that could not be read, and what would make it readable."""

    source: str
    remedy: str


@dataclass(slots=True)
class Look:
    """The whole tree at one moment.

    `states` tells, for processes that were sampled since the look before, the states seen: {pid: "SSRS..."}.
    `ends` has, for each pipe or socket that somebody waits on, everyone known to have it open.
    `is_detailed` False: only counters were read, because they already decide.
    """

    taken_ns: int
    root: int
    processes: dict[int, Process] = field(default_factory=dict)
    states: dict[int, str] = field(default_factory=dict)
    sockets: dict[int, Socket] = field(default_factory=dict)
    ends: dict[str, list[End]] = field(default_factory=dict)
    locks: list[Lock] = field(default_factory=list)
    files: dict[int, dict[str, str]] = field(default_factory=dict)
    """Open regular files on which somebody else holds a lock: {pid: {major:minor:inode: path}}."""
    cgroup: Cgroup | None = None
    pressures: dict[str, int] = field(default_factory=dict)
    """Microseconds since boot in which somebody on this host waited for cpu, memory or io."""
    terminal: Terminal | None = None
    unseen: list[Unseen] = field(default_factory=list)
    is_detailed: bool = False
    is_whole: bool = True
    """False: the tree was larger than what a look takes in, or changed under it."""
    is_hidden: bool = False
    """The root is there (a signal could be sent to it), and /proc does not show it: hidepid, or no /proc at all."""


@dataclass(slots=True)
class Context:
    """What only the supervisor knows. `exit_status` None: the direct child runs.

    `output_is_open`: the command has exited and somebody still holds its output open. `is_suspended`: the machine
    slept between the looks.
    """

    exit_status: int | None = None
    output_is_open: bool = False
    output_holders: tuple[int, ...] = ()
    output_is_blocked: bool = False
    """The supervisor has bytes that the agent or the terminal does not take."""
    was_suspended: bool = False
