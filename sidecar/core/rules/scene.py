"""Two looks side by side, and one wait: what the rules of a verdict work on."""

from sidecar.core.evidence import Context, End, Look, Process, Socket, Terminal, Thread, terminal_path
from sidecar.core.finding import MEASURED
from sidecar.core.rules.movement import Movement, measure, same_process

TYPE_CHECKING = False  # typing.TYPE_CHECKING, without the 7 ms of importing typing
if TYPE_CHECKING:
    from dataclasses import dataclass
else:
    from sidecar.core.records import dataclass

FUTEX, RUNNING_WAIT = "futex", "running"
"""Kinds of wait that are no verdicts yet: on another thread of the process; on a CPU at each look."""


@dataclass(slots=True)
class Wait:
    """What a thread, or a whole process, waits for.

    `kind` is the name of a verdict, or FUTEX or RUNNING_WAIT. `on` are processes of the tree it waits for: an edge of
    the wait-for graph. `is_guess`: the edges are likely, or not all there is: they never prove a cycle.
    """

    kind: str
    text: str
    confidence: str = MEASURED
    on: tuple[int, ...] = ()
    is_guess: bool = False
    is_timed: bool = False
    left_s: float | None = None
    hint: str = ""
    lasted_s: float | None = None
    """Of a hang: for how long at least. A shorter time limit is a tick, and ends nothing."""


class Scene:
    """The two looks, what moved between them, and lookups."""

    def __init__(self, before: Look, after: Look, context: Context) -> None:
        self.before = before
        self.after = after
        self.context = context
        self.movement: Movement = measure(before, after)
        self.alive: dict[int, Process] = {pid: p for pid, p in after.processes.items() if p.is_alive}
        self.sees_everybody = after.is_whole and all(p.descriptors is not None for p in self.alive.values())
        """Every process of the tree was read, and the descriptors of each that were needed."""
        self._children: dict[int, list[int]] = {}
        for pid, process in self.alive.items():
            self._children.setdefault(process.parent, []).append(pid)

    def children(self, pid: int) -> tuple[int, ...]:
        """Its living children in the tree."""
        return tuple(self._children.get(pid, ()))

    def name(self, pid: int) -> str:
        process = self.after.processes.get(pid)
        return process.name if process is not None else f"[{pid}]"

    def names(self, pids: tuple[int, ...]) -> str:
        shown = ", ".join(self.name(pid) for pid in pids[:4])
        return f"{shown} and {len(pids) - 4} more" if len(pids) > 4 else shown

    def earlier_thread(self, process: Process, thread: Thread) -> Thread | None:
        earlier = same_process(self.before, process)
        return earlier.threads.get(thread.tid) if earlier is not None else None

    def has_run(self, process: Process, thread: Thread) -> bool | None:
        """Whether the thread ran since the look before; None: cannot be told."""
        earlier = self.earlier_thread(process, thread)
        if earlier is None or earlier.runs is None or thread.runs is None:
            return None
        return earlier.runs != thread.runs

    def terminal_of(self, process: Process) -> Terminal | None:
        """The terminal that was read, if it is this process's: one that script or sudo made has settings of its own."""
        terminal = self.after.terminal
        if terminal is None or terminal.name in ("", terminal_path(process.terminal)):
            return terminal
        return None

    def socket(self, inode: int) -> Socket | None:
        return self.after.sockets.get(inode)

    def earlier_socket(self, inode: int) -> Socket | None:
        return self.before.sockets.get(inode)

    def ends(self, target: str) -> list[End]:
        return self.after.ends.get(target, [])
