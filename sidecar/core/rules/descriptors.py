"""A wait on a descriptor: what it leads to decides, not the name of the call. pipe(7), tty(4), epoll(7), fifo(7)."""

from sidecar.core import evidence
from sidecar.core.advice import first, quoted
from sidecar.core.evidence import READ, WRITE, Descriptor, End, Process, Terminal, terminal_path
from sidecar.core.finding import INFERRED, MEASURED, UNSURE
from sidecar.core.rules.actors import is_hung, may_go_on, spared
from sidecar.core.rules.scene import Scene, Wait
from sidecar.core.rules.sockets import wait_on_socket

_TERMINAL_MASTERS = ("/dev/ptmx", "/dev/pts/ptmx")
TELLING = (
    "stopped",
    "output_blocked",
    "awaiting_input",
    "lock_wait",
    "network_peer_dead",
    "network_connecting",
    "network_peer_not_reading",
    "deadlock_suspected",
    "filesystem_wait",
    "disk_io",
    "network_wait",
    "fifo_wait",
    "ipc_wait",
    "pipe_wait",
    "listening",
    "watching_files",
    "polling",
    "sleeping",
    "traced",
    "child_wait",
    "signal_wait",
    "internal_wait",
    "futex",
    "running",
    "event_idle",
    "unknown",
)
"""When a process waits for several things at once, the first of these that is among them tells most."""


_NESTED_AT_MOST = 5
"""epoll(7) descriptors may watch each other that deep (EP_MAX_NESTS, fs/eventpoll.c). What is read may be of two
moments, and go in a circle all the same."""


def wait_on_descriptor(scene: Scene, process: Process, number: int | None, wanted: str, depth: int = 0) -> Wait:
    """`wanted` is READ or WRITE. `depth`: in how many sets it lies."""
    if process.descriptors is None:
        return Wait("unknown", f"waits on fd {number}; descriptors are not readable", UNSURE)
    found = process.descriptors.get(number) if number is not None else None
    if found is None:
        return Wait("unknown", f"waits on fd {number}, which was gone when looked at", UNSURE)
    if found.kind == evidence.TERMINAL:
        return _terminal(scene, process, found, wanted)
    if found.kind == evidence.PIPE:
        return _pipe(scene, process, found, wanted)
    if found.kind == evidence.SOCKET:
        return wait_on_socket(scene, process, found, wanted)
    if found.kind == evidence.FILE:
        return _file(scene, process, found, wanted)
    if found.kind == evidence.TIMERFD:
        if found.left_s is None:
            return Wait("event_idle", f"timer fd {found.number}, not armed")
        return Wait(
            "sleeping", f"timer fd {found.number} fires in {found.left_s:.1f} s", is_timed=True, left_s=found.left_s
        )
    if found.kind == evidence.PIDFD:
        on = (found.pid,) if found.pid in scene.alive else ()
        hint = ""
        if found.pid:
            hint = first("child_wait, of no child of its own", peer=scene.name(found.pid), peer_pid=found.pid)
        return Wait("child_wait", f"end of process {scene.name(found.pid or -1)} (pidfd)", on=on, hint=hint)
    if found.kind == evidence.INOTIFY:
        return Wait("watching_files", f"changes of files (inotify fd {found.number})")
    if found.kind == evidence.EPOLL:
        polled = found.polled if depth < _NESTED_AT_MOST else None
        return wait_on_set(scene, process, polled, "epoll", None, is_timed=False, depth=depth)
    if found.kind == evidence.SIGNALFD:
        children = scene.children(process.pid)
        if children:
            return Wait(
                "child_wait",
                f"signals (fd {found.number}); children: {scene.names(children)}",
                INFERRED,
                children,
                True,
            )
        return Wait("event_idle", f"signals (signalfd {found.number})")
    if found.target in _TERMINAL_MASTERS:
        children = scene.children(process.pid)
        if children:
            text = f"the terminal it made for {scene.names(children)} (fd {found.number})"
            return Wait("child_wait", text, INFERRED, children, is_guess=True)
    if found.kind == evidence.DEVICE:
        return Wait("unknown", f"waits on device {found.target}, fd {found.number}", UNSURE)
    return Wait("event_idle", f"{found.kind} fd {found.number}")


def wait_on_set(
    scene: Scene,
    process: Process,
    polled: tuple[tuple[int, str], ...] | None,
    what: str,
    left_s: float | None,
    *,
    is_timed: bool | None,
    depth: int = 0,
) -> Wait:
    """poll, select, epoll: self-pipes, event descriptors and timers left out, what remains is judged."""
    if polled is None:
        return Wait("unknown", f"{what}: the set cannot be read", UNSURE, is_timed=bool(is_timed), left_s=left_s)
    waits = [wait_on_descriptor(scene, process, number, wanted, depth + 1) for number, wanted in polled]
    outside = [wait for wait in waits if wait.kind != "event_idle"]
    timers = [wait.left_s for wait in outside if wait.kind == "sleeping" and wait.left_s is not None]
    outside = [wait for wait in outside if wait.kind != "sleeping"]
    limits = [limit for limit in (left_s, *timers) if limit is not None]
    shortest_s = min(limits) if limits else None
    limit = f", at most {shortest_s:.3g} s" if shortest_s is not None else ""
    timed = bool(is_timed) or bool(timers)
    if not outside:
        if timed:
            return Wait("sleeping", f"{what} of {len(waits)}: only a timer{limit}", is_timed=True, left_s=shortest_s)
        return Wait("event_idle", f"{what} of {len(waits)}: nothing outside the process, no time limit")
    candidates = _without_idle_input(outside, polled, process)
    if any(may_go_on(wait) for wait in candidates):
        candidates = [wait for wait in candidates if not is_hung(wait)]  # one that lives is enough
    # Whoever polls something outside the tree as well is waiting for that: a set is an "or".
    telling = most_telling([wait for wait in candidates if not wait.on] or candidates)
    more = f" (and {len(outside) - 1} more)" if len(outside) > 1 else ""
    on = tuple(sorted({pid for wait in outside for pid in wait.on}))
    # Any of them may wake it: its edges are all there is only where each leads into the tree.
    is_guess = any(wait.is_guess or not wait.on for wait in outside)
    text = f"{telling.text}{more}; {what}{limit}"
    lasted_s = telling.lasted_s
    found = Wait(telling.kind, text, telling.confidence, on, is_guess, timed, shortest_s, telling.hint, lasted_s)
    if is_hung(found) and timed and (shortest_s is None or lasted_s is None or shortest_s > lasted_s):
        return spared(found, "its time limit is not over")
    return found


def _without_idle_input(waits: list[Wait], polled: tuple[tuple[int, str], ...], process: Process) -> list[Wait]:
    """Input that a program would merely take as well as something else is not what it waits for.

    A service listens and takes keys; ssh and a watcher keep stdin in their set all the time; script, tmux or sudo
    hand on what is typed to a child, and the child decides.
    """
    kinds = {wait.kind for wait in waits}
    found = [(process.descriptors or {}).get(number) for number, _ in polled]
    on_terminal = any(item is not None and item.kind == evidence.TERMINAL for item in found)
    if kinds & (_BESIDE_KEYS if on_terminal else _BESIDE_STDIN) or any(wait.on for wait in waits):
        return [wait for wait in waits if wait.kind != "awaiting_input"] or waits
    return waits


_BESIDE_KEYS = frozenset({"listening"})
_BESIDE_STDIN = frozenset({"listening", "watching_files", "network_wait", "network_peer_dead", "network_connecting"})


def most_telling(waits: list[Wait]) -> Wait:
    return min(waits, key=lambda wait: TELLING.index(wait.kind) if wait.kind in TELLING else len(TELLING))


def _terminal(scene: Scene, process: Process, found: Descriptor, wanted: str) -> Wait:
    if wanted == WRITE:
        text = f"a write to terminal {found.target} (fd {found.number}) is not taken"
        return Wait("output_blocked", text, hint=on_terminal(process, found))
    in_front = is_in_front(process, scene.terminal_of(process))
    place = "in the foreground" if in_front else f"not in the foreground (group {process.foreground_group} is)"
    text = f"reads terminal {found.target} (fd {found.number}), {place}{describe_terminal(scene.terminal_of(process))}"
    return Wait("awaiting_input", text)


def on_terminal(process: Process, found: Descriptor | None = None) -> str:
    """What to do about output that a terminal does not take: that of `found`, else the process's own."""
    target = found.target if found is not None and found.target != "/dev/tty" else terminal_path(process.terminal)
    return first("output_blocked, on a terminal", terminal=quoted(target))


def is_its_terminal(process: Process, terminal: Terminal) -> bool:
    """Not another one, that a `script` or `sudo` in the tree has made for it."""
    return process.terminal != 0 and terminal.name in ("", terminal_path(process.terminal))


def is_in_front(process: Process, terminal: Terminal | None) -> bool:
    group = process.foreground_group
    if group <= 0 and terminal is not None and terminal.foreground_group is not None:
        group = terminal.foreground_group
    return group == process.group


def describe_terminal(terminal: Terminal | None) -> str:
    if terminal is None:
        return ""
    if not terminal.canonical:
        return ", key by key"
    return ", a line" if terminal.echo else ", a line with echo off: a secret"


def _pipe(scene: Scene, process: Process, found: Descriptor, wanted: str) -> Wait:
    ends = scene.ends(found.target)
    if wanted == WRITE:
        readers = [end for end in ends if end.can_read and end.pid != process.pid]
        supervisor = next((end.pid for end in readers if end.is_supervisor), None)
        if supervisor is not None:
            hint = first("output_blocked, by the agent", supervisor=supervisor)
            text = f"pipe fd {found.number} is full: the agent does not take the output"
            return Wait("output_blocked", text, hint=hint)
        inside = tuple(sorted({end.pid for end in readers if end.pid in scene.alive}))
        names = ", ".join(sorted({end.name for end in readers}))
        if inside:
            is_guess = any(end.pid not in scene.alive for end in readers)
            return Wait("pipe_wait", f"pipe fd {found.number} is full, reader: {names}", on=inside, is_guess=is_guess)
        if any(end.pid == process.pid and end.can_read for end in ends) and not readers:
            return Wait(
                "pipe_wait", f"pipe fd {found.number} is full, and only the process itself could read it", INFERRED
            )
        if not readers and not scene.sees_everybody:
            return Wait("unknown", f"pipe fd {found.number} is full, its reader is not readable", UNSURE)
        reader = names or "outside the tree"
        hint = _look_at("output_blocked, by a reader", readers)
        return Wait("output_blocked", f"pipe fd {found.number} is full, reader: {reader}", INFERRED, hint=hint)
    writers = [end for end in ends if end.can_write and end.pid != process.pid]
    inside = tuple(sorted({end.pid for end in writers if end.pid in scene.alive}))
    names = ", ".join(sorted({end.name for end in writers}))
    is_own = any(end.pid == process.pid and end.can_write for end in ends)
    if inside:
        is_guess = is_own or any(end.pid not in scene.alive for end in writers)
        return Wait("pipe_wait", f"pipe fd {found.number}, writer: {names}", on=inside, is_guess=is_guess)
    if is_own and not writers:
        return Wait("event_idle", f"its own pipe, fd {found.number}")
    if found.number == 0:
        writer = names or "outside the tree"
        if not writers and not scene.sees_everybody:
            return Wait("unknown", "reads stdin, a pipe; who could write to it is not readable", UNSURE)
        confidence = MEASURED if writers else INFERRED
        hint = _look_at("awaiting_input, from a pipe", writers)
        return Wait("awaiting_input", f"reads stdin, a pipe; writer: {writer}", confidence, hint=hint)
    if not writers and not scene.sees_everybody:
        return Wait("unknown", f"pipe fd {found.number}, its writer is not readable", UNSURE)
    hint = _look_at("pipe_wait, with a peer", writers)
    return Wait("pipe_wait", f"pipe fd {found.number}, writer: {names or 'outside the tree'}", INFERRED, hint=hint)


def _look_at(what_to_do: str, ends: list[End]) -> str:
    """At the process at the other end; empty where it is not known."""
    return first(what_to_do, peer=ends[0].name, peer_pid=ends[0].pid) if ends else ""


def _file(scene: Scene, process: Process, found: Descriptor, wanted: str) -> Wait:
    if found.is_remote and not scene.ends(found.target):
        return Wait("unknown", f"waits on {found.target} (fd {found.number}) on {found.file_system}", UNSURE)
    # An ordinary file on a local file system is always ready, and is read in state D: what waits here is a FIFO.
    ends = [end for end in scene.ends(found.target) if end.pid != process.pid]
    others = tuple(
        sorted({e.pid for e in ends if e.pid in scene.alive and (e.can_write if wanted == READ else e.can_read)})
    )
    verb = "writer" if wanted == READ else "reader"
    own = [end for end in scene.ends(found.target) if end.pid == process.pid]
    if not others and scene.sees_everybody and any(end.can_write and end.can_read for end in own):
        text = f"FIFO {found.target} (fd {found.number}); nobody else of the tree has it open"
        return Wait("fifo_wait", text, INFERRED)
    if not others and not scene.sees_everybody:
        return Wait("unknown", f"FIFO or special file {found.target}, its {verb} is not readable", UNSURE)
    names = scene.names(others) or "outside the tree"
    text = f"FIFO or special file {found.target} (fd {found.number}), {verb}: {names}"
    hint = first("pipe_wait, at a FIFO", file=quoted(found.target)) if found.target.startswith("/") else ""
    return Wait("pipe_wait", text, INFERRED, others, hint=hint)
