"""What a thread waits for when its system call cannot be read: the kernel function, the descriptors, the terminal.

Wait channels are names of kernel functions and differ by version: they suggest a kind of wait, and the open
descriptors what it can be on. Where everything that fits is of one kind, that is inferred; where not, it is unknown
and says what it may be. Nothing here proves anything, and a hang is said only of a thread's one possible socket or
of a file system's own wait function.
"""

from collections.abc import Callable

from sidecar.core import evidence
from sidecar.core.evidence import READ, WRITE, Descriptor, Process, Thread
from sidecar.core.finding import INFERRED, UNSURE
from sidecar.core.rules.descriptors import (
    describe_terminal,
    is_in_front,
    is_its_terminal,
    on_terminal,
    wait_on_descriptor,
)
from sidecar.core.rules.files import uninterruptible, wait_for_lock, wait_on_file_system
from sidecar.core.rules.scene import FUTEX, Scene, Wait
from sidecar.core.values import counted
from sidecar.core.verdict_names import MAY_BE_HUNG

_Rule = Callable[[Scene, Process, Thread], Wait]


def wait_unseen(scene: Scene, process: Process, thread: Thread) -> Wait:
    """The best that can be said without the system call."""
    lock = wait_for_lock(scene, process, "a file")
    if lock is not None:
        lock.is_guess = process.thread_count > 1  # of which thread it is, /proc/locks does not say
        return lock
    channel = thread.wait_channel
    if channel is not None:
        function = channel.partition(".")[0]  # compilers add .isra.0 and .constprop.0
        for is_match, rule in _CHANNELS:
            if is_match(function):
                return _say(rule(scene, process, thread), channel)
    if thread.state == "D":
        return uninterruptible(scene, process, thread, "")
    return _from_structure(scene, process, thread)


def _say(wait: Wait, channel: str) -> Wait:
    wait.text += f" (kernel function {channel})"
    if wait.confidence not in (INFERRED, UNSURE):
        wait.confidence = INFERRED
    return wait


def _from_structure(scene: Scene, process: Process, thread: Thread) -> Wait:
    """Neither call nor channel, as of a setuid program or in a sandbox: terminal settings and children are left."""
    children = scene.children(process.pid)
    # What wakes now and then polls, or is served: only one that stood still waits for what it has open.
    stood_still = scene.has_run(process, thread) is False
    prompt = _secret_prompt(scene, process) or (_key_by_key(scene, process) if stood_still else None)
    if prompt is not None and not children:
        return prompt
    if children:
        text = f"its own wait is not readable; children: {scene.names(children)}"
        return Wait("child_wait", text, UNSURE, children, is_guess=True)
    likely = _all_that_fits(scene, process) if stood_still else None
    if likely is not None and likely.kind != "ipc_wait":  # a Unix socket may be one end of its own pair
        return likely
    return Wait(
        "unknown", f"state {thread.state}, what it waits for is not readable{_what_fits(scene, process)}", UNSURE
    )


def _all_that_fits(scene: Scene, process: Process) -> Wait | None:
    """All its descriptors that anything can come from are of one kind: a server's, a client's, a watcher's."""
    if process.descriptors is None or not process.all_descriptors:
        return None
    waits = _candidates(scene, process, READ, _OUTSIDE, None)
    kinds = {wait.kind for wait in waits} - {"event_idle"}
    if any(_may_be_otherwise(scene, process, found) for found in process.descriptors.values()):
        return None
    if len(kinds) != 1 or not kinds <= _LIKELY:
        return None
    wait = next(wait for wait in waits if wait.kind in kinds)
    return Wait(wait.kind, f"likely {wait.text}", INFERRED, wait.on, is_guess=True, is_timed=True)


def _may_be_otherwise(scene: Scene, process: Process, found: Descriptor) -> bool:
    """A connection that is in the making may be in trouble; of one with both ends here either may be waited for."""
    record = scene.socket(found.inode) if found.kind == evidence.SOCKET else None
    if record is None or record.protocol != "tcp":
        return False
    if record.state == "SYN_SENT":
        return True
    if not record.peer_inode:
        return False
    return any(end.pid == process.pid for end in scene.ends(f"socket:[{record.peer_inode}]"))


_OUTSIDE = {evidence.PIPE, evidence.SOCKET, evidence.TERMINAL, evidence.INOTIFY, evidence.TIMERFD, evidence.PIDFD}
_LIKELY = {"network_wait", "ipc_wait", "listening", "watching_files"}
"""What a process that has such a descriptor, and none of another kind, is likely to wait for."""


def _secret_prompt(scene: Scene, process: Process) -> Wait | None:
    """In the foreground of a terminal with echo off in line mode: termios(3), getpass(3)."""
    terminal = scene.terminal_of(process)
    if terminal is None or terminal.echo or not terminal.canonical:
        return None
    if not is_its_terminal(process, terminal) or not is_in_front(process, terminal):
        return None
    return Wait("awaiting_input", f"in the foreground of its terminal{describe_terminal(terminal)}", INFERRED)


def _what_fits(scene: Scene, process: Process) -> str:
    terminal = scene.terminal_of(process)
    if process.terminal and is_in_front(process, terminal):
        return "; it is in the foreground of its terminal, so it may wait for input"
    sockets = [found for found in (process.descriptors or {}).values() if found.kind == evidence.SOCKET]
    return f"; it has {counted(len(sockets), 'socket')} open" if sockets else ""


def _sleep(scene: Scene, process: Process, thread: Thread) -> Wait:
    return Wait("sleeping", "sleeps, for how long is not readable", INFERRED, is_timed=True)


def _futex(scene: Scene, process: Process, thread: Thread) -> Wait:
    return Wait(FUTEX, "a futex", INFERRED)


def _child(scene: Scene, process: Process, thread: Thread) -> Wait:
    children = scene.children(process.pid)
    return Wait("child_wait", f"waits for child {scene.names(children) or '(none alive)'}", INFERRED, children, True)


def _signal(scene: Scene, process: Process, thread: Thread) -> Wait:
    children = scene.children(process.pid)
    if children:
        return Wait("child_wait", f"waits for a signal; children: {scene.names(children)}", INFERRED, children, True)
    return Wait("signal_wait", "waits for a signal", INFERRED)


def _terminal_read(scene: Scene, process: Process, thread: Thread) -> Wait:
    return Wait("awaiting_input", f"reads a terminal{describe_terminal(scene.terminal_of(process))}", INFERRED)


def _terminal_write(scene: Scene, process: Process, thread: Thread) -> Wait:
    return Wait("output_blocked", "a write to a terminal is not taken", INFERRED)


def _pipe_read(scene: Scene, process: Process, thread: Thread) -> Wait:
    return _only_kind(scene, process, READ, {evidence.PIPE}, "reads a pipe")


def _pipe_write(scene: Scene, process: Process, thread: Thread) -> Wait:
    return _only_kind(scene, process, WRITE, {evidence.PIPE}, "a pipe is full")


def _unix_socket(scene: Scene, process: Process, thread: Thread) -> Wait:
    wait = _only_kind(scene, process, READ, {evidence.SOCKET}, "a unix socket", protocols={"unix"})
    return wait if wait.kind != "unknown" else Wait("ipc_wait", "a unix socket", INFERRED)


def _datagram(scene: Scene, process: Process, thread: Thread) -> Wait:
    return _only_kind(
        scene, process, READ, {evidence.SOCKET}, "a datagram", protocols={"udp", "unix", "netlink", "icmp", "raw"}
    )


def _accept(scene: Scene, process: Process, thread: Thread) -> Wait:
    waits = _candidates(scene, process, READ, {evidence.SOCKET}, {"tcp", "unix"})
    listening = [wait for wait in waits if wait.kind == "listening"]
    return listening[0] if listening else Wait("listening", "waits for a connection", INFERRED)


def _connect(scene: Scene, process: Process, thread: Thread) -> Wait:
    return _only_kind(scene, process, READ, {evidence.SOCKET}, "a connection", protocols={"tcp"})


def _send(scene: Scene, process: Process, thread: Thread) -> Wait:
    return _only_kind(scene, process, WRITE, {evidence.SOCKET}, "a send is not taken", protocols={"tcp"})


def _woken(scene: Scene, process: Process, thread: Thread) -> Wait:
    """wait_woken: a terminal read, a terminal whose output is stopped, a TCP receive and a TCP connect all look so."""
    if process.descriptors is None:
        return Wait("unknown", f"a terminal or a TCP socket{_what_fits(scene, process)}", UNSURE)
    if any(found.kind == evidence.TERMINAL for found in process.descriptors.values()):
        found = _secret_prompt(scene, process) or _key_by_key(scene, process) or _only_terminal(scene, process)
        if found is not None:
            return found
        return Wait("unknown", f"a terminal or a TCP socket{_what_fits(scene, process)}", UNSURE)
    return _only_kind(scene, process, READ, {evidence.SOCKET}, "a TCP socket", protocols={"tcp"})


def _only_terminal(scene: Scene, process: Process) -> Wait | None:
    """It is the terminal, since there is no TCP socket; and a read of it, since a write would get on: n_tty_poll."""
    terminal = scene.terminal_of(process)
    if terminal is None or terminal.takes_output is None or not is_its_terminal(process, terminal):
        return None
    for found in (process.descriptors or {}).values():
        record = scene.socket(found.inode) if found.kind == evidence.SOCKET else None
        if found.kind == evidence.SOCKET and (record is None or record.protocol == "tcp"):
            return None
        if found.kind == evidence.TERMINAL and found.target not in (terminal.name, "/dev/tty"):
            return None
    if not terminal.takes_output:
        return Wait("output_blocked", "a terminal that takes no output", INFERRED, hint=on_terminal(process))
    if not is_in_front(process, terminal):
        return None
    return Wait("awaiting_input", f"reads its terminal{describe_terminal(terminal)}", INFERRED)


def _epoll(scene: Scene, process: Process, thread: Thread) -> Wait:
    """fdinfo tells what an epoll descriptor watches; whether the wait has a time limit is not known."""
    sets = [found for found in (process.descriptors or {}).values() if found.kind == evidence.EPOLL]
    if not sets or any(found.polled is None for found in sets):
        return _from_structure(scene, process, thread)
    waits = [wait_on_descriptor(scene, process, found.number, READ) for found in sets]
    outside = [wait for wait in waits if wait.kind not in ("event_idle", "sleeping")]
    kinds = {wait.kind for wait in outside}
    if not outside and process.pid in scene.movement.ran:
        return Wait("sleeping", f"wakes by itself; {waits[0].text}", INFERRED, is_timed=True)
    if not outside and scene.children(process.pid):
        return _from_structure(scene, process, thread)
    if len(kinds) != 1 or kinds & set(MAY_BE_HUNG) or "unknown" in kinds:
        return Wait("unknown", f"epoll, with or without a time limit: {waits[0].text}", UNSURE)
    on = tuple(sorted({pid for wait in outside for pid in wait.on}))
    return Wait(outside[0].kind, outside[0].text, INFERRED, on, is_guess=True, is_timed=True)


def _poll(scene: Scene, process: Process, thread: Thread) -> Wait:
    """The set is not readable: only where one thing is all there is can it be told."""
    if process.descriptors is None or scene.children(process.pid):
        return _from_structure(scene, process, thread)
    prompt = _secret_prompt(scene, process) or _key_by_key(scene, process)
    if prompt is not None:
        return prompt
    found = _all_that_fits(scene, process)
    return found or Wait("unknown", f"poll or select{_what_fits(scene, process)}", UNSURE)


def _key_by_key(scene: Scene, process: Process) -> Wait | None:
    """Whoever put the terminal in front of it into a mode of single keys polls it for keys: termios(3), ICANON."""
    terminal = scene.terminal_of(process)
    if terminal is None or terminal.canonical or not is_its_terminal(process, terminal):
        return None
    if not is_in_front(process, terminal):
        return None
    if any(found.kind in (evidence.SOCKET, evidence.PIPE) for found in (process.descriptors or {}).values()):
        return None
    return Wait("awaiting_input", "polls, in the foreground of its terminal, which gives it key by key", INFERRED)


def _internal_event(scene: Scene, process: Process, thread: Thread) -> Wait:
    """A read of an eventfd or a timerfd: fs/eventfd.c, fs/timerfd.c."""
    wait = _only_kind(scene, process, READ, {evidence.EVENTFD, evidence.TIMERFD}, "an eventfd or a timerfd")
    found = {item.kind for item in (process.descriptors or {}).values()} & {evidence.EVENTFD, evidence.TIMERFD}
    if wait.kind == "unknown" and found == {evidence.EVENTFD}:
        return Wait("event_idle", "an eventfd", INFERRED)
    return wait


def _message(scene: Scene, process: Process, thread: Thread) -> Wait:
    return Wait("ipc_wait", "a System V or POSIX semaphore or message queue", INFERRED)


def _lock(scene: Scene, process: Process, thread: Thread) -> Wait:
    return Wait("lock_wait", "a lock on a file, whose holder is not named in /proc/locks", INFERRED)


def _file_system(scene: Scene, process: Process, thread: Thread) -> Wait:
    return wait_on_file_system(scene, process, thread, "a file")


def _fifo(scene: Scene, process: Process, thread: Thread) -> Wait:
    return Wait("fifo_wait", "opens a FIFO; nobody has opened its other end", INFERRED)


def _only_kind(
    scene: Scene, process: Process, wanted: str, kinds: set[str], what: str, protocols: set[str] | None = None
) -> Wait:
    """The one kind of wait that all descriptors which fit lead to; else unknown."""
    if process.descriptors is None:
        return Wait("unknown", f"{what}; descriptors are not readable", UNSURE)
    waits = [wait for wait in _candidates(scene, process, wanted, kinds, protocols) if wait.kind != "event_idle"]
    found = {wait.kind for wait in waits}
    if len(found) != 1 or "unknown" in found:
        return Wait("unknown", f"{what}: {', '.join(sorted(found)) or 'none fits'}", UNSURE)
    if len(waits) > 1 and waits[0].kind in MAY_BE_HUNG:
        return Wait("unknown", f"{what}, one of {len(waits)}", UNSURE)
    on = tuple(sorted({pid for wait in waits for pid in wait.on}))
    more = f" or {len(waits) - 1} more" if len(waits) > 1 else ""
    return Wait(waits[0].kind, waits[0].text + more, INFERRED, on, is_guess=True, hint=waits[0].hint)


def _candidates(scene: Scene, process: Process, wanted: str, kinds: set[str], protocols: set[str] | None) -> list[Wait]:
    return [
        wait_on_descriptor(scene, process, found.number, wanted)
        for found in (process.descriptors or {}).values()
        if found.kind in kinds and _fits(scene, process, found, wanted, protocols)
    ]


def _fits(scene: Scene, process: Process, found: Descriptor, wanted: str, protocols: set[str] | None) -> bool:
    if found.kind == evidence.SOCKET and protocols is not None:
        record = scene.socket(found.inode)
        if record is None or record.protocol not in protocols:
            return False
        return record.state != "LISTEN" or "udp" in protocols  # a unix accept waits where a datagram is waited for
    if found.kind == evidence.PIPE:
        own = [end for end in scene.ends(found.target) if end.pid == process.pid and end.number == found.number]
        return not own or (own[0].can_read if wanted == READ else own[0].can_write)
    return True


def _is(*names: str) -> Callable[[str], bool]:
    return lambda channel: channel in names


def _has(*parts: str) -> Callable[[str], bool]:
    return lambda channel: any(part in channel for part in parts)


_CHANNELS: tuple[tuple[Callable[[str], bool], _Rule], ...] = (
    (_has("nanosleep"), _sleep),
    (_has("futex"), _futex),
    (_is("do_wait", "do_wait4", "kernel_wait4", "do_waitid"), _child),
    (_is("sigsuspend", "__do_sys_pause", "do_sys_pause", "sys_pause"), _signal),
    (_has("n_tty_read", "tty_read"), _terminal_read),
    (_has("n_tty_write", "tty_wait_until_sent"), _terminal_write),
    (_has("pipe_read", "pipe_wait_readable"), _pipe_read),
    (_has("pipe_write", "pipe_wait_writable"), _pipe_write),
    (_has("unix_stream_read", "unix_stream_data_wait", "unix_wait_for_peer"), _unix_socket),
    (_has("skb_wait_for_more_packets", "skb_recv_datagram"), _datagram),
    (_has("inet_csk_accept"), _accept),
    (_has("inet_wait_for_connect", "inet_stream_connect"), _connect),
    (_has("sk_stream_wait_memory"), _send),
    (_has("sk_wait_data"), _connect),
    (_is("wait_woken"), _woken),
    (_has("ep_poll", "do_epoll_wait"), _epoll),
    (_has("poll_schedule_timeout", "do_poll", "do_sys_poll", "do_select"), _poll),
    (_is("do_wait_intr_irq"), _internal_event),
    (_is("__do_semtimedop", "do_semtimedop", "do_msgrcv", "do_msgsnd", "wq_sleep"), _message),
    (_has("fcntl_setlk", "flock_lock", "locks_lock", "do_lock_file_wait", "posix_lock"), _lock),
    (_is("wait_for_partner", "fifo_open"), _fifo),
    (_has("request_wait_answer", "fuse_", "rpc_wait", "nfs_", "p9_client", "ceph_", "cifs_"), _file_system),
)
"""Names of functions in kernel/, fs/, net/, ipc/ and drivers/tty, Linux 4.19 to 6.18; do_sigtimedwait is not among
them: with a time limit it is a sleep, without it a wait for a signal."""
