"""What a thread waits for, from the system call it sits in: the call and the kind of its descriptor decide."""

from collections.abc import Callable

from sidecar.core import evidence
from sidecar.core.advice import first
from sidecar.core.evidence import PAGE_FAULT, READ, RUNNING, WRITE, Call, Process, Thread
from sidecar.core.finding import INFERRED, UNSURE
from sidecar.core.rules.blind import wait_unseen
from sidecar.core.rules.descriptors import on_terminal, wait_on_descriptor, wait_on_set
from sidecar.core.rules.files import file_call, is_served, uninterruptible, wait_for_lock, wait_on_file_system
from sidecar.core.rules.scene import FUTEX, RUNNING_WAIT, Scene, Wait

_FROZEN_CHANNELS = ("refrigerator", "freezer")
_READS = frozenset({"read", "readv", "pread64", "preadv", "recvfrom", "recvmsg", "recvmmsg", "splice"})
_WRITES = frozenset({"write", "writev", "pwrite64", "pwritev", "sendto", "sendmsg", "sendmmsg", "sendfile"})
_FILE_CALLS = frozenset(
    {
        "open",
        "close",
        "stat",
        "fstat",
        "lstat",
        "access",
        "faccessat",
        "faccessat2",
        "newfstatat",
        "statx",
        "getdents64",
        "fsync",
        "fdatasync",
        "sync",
        "syncfs",
        "rename",
        "renameat",
        "renameat2",
        "unlink",
        "unlinkat",
        "mkdir",
        "mkdirat",
        "rmdir",
        "truncate",
        "ftruncate",
        "fallocate",
        "readlink",
        "readlinkat",
        "chdir",
        "execve",
        "execveat",
        "copy_file_range",
    }
)


def wait_of_thread(scene: Scene, process: Process, thread: Thread) -> Wait:
    """The wait of one thread that is neither stopped nor traced nor gone."""
    channel = thread.wait_channel or ""
    if any(part in channel for part in _FROZEN_CHANNELS):
        return Wait("frozen", f"in the freezer (kernel function {channel})")
    call = thread.call
    if call is None:
        return wait_unseen(scene, process, thread)
    if call.name == RUNNING:
        return Wait(RUNNING_WAIT, "on a CPU at each look, yet little CPU time", UNSURE)
    if thread.state == "D":
        return uninterruptible(scene, process, thread, call.name)
    if call.name == PAGE_FAULT:
        return Wait("unknown", "blocked outside a system call: a page fault", UNSURE)
    if call.name in _READS | _WRITES and is_served(process, thread):
        return wait_on_file_system(scene, process, thread, f"in {call.name}")
    if call.name in _READS | _WRITES:
        wait = wait_on_descriptor(scene, process, call.descriptor, READ if call.name in _READS else WRITE)
        if wait.kind == "ipc_wait":
            wait.is_guess = True  # its own time limit, SO_RCVTIMEO or SO_SNDTIMEO of socket(7), is visible nowhere
        return wait
    rule = _RULES.get(call.name)
    if rule is not None:
        return rule(scene, process, thread, call)
    if call.name in _FILE_CALLS:
        return file_call(scene, process, thread, call.name, call.path or "")
    if call.name == "restart_syscall" or call.name.startswith("nr"):
        return wait_unseen(scene, process, thread)
    return Wait("unknown", f"in {call.name}", UNSURE)


def _sleep(scene: Scene, process: Process, thread: Thread, call: Call) -> Wait:
    """nanosleep(2): how long it was asked for, how much is left as far as that can be told."""
    if call.was_resumed:
        return Wait("sleeping", "a sleep that was stopped and continued", INFERRED, is_timed=True)
    if call.left_s is not None:
        return Wait("sleeping", f"sleeps until a set time, {call.left_s:.1f} s left", is_timed=True, left_s=call.left_s)
    if call.asked_s is None:
        return Wait("sleeping", "sleeps, for how long is not readable", is_timed=True)
    return Wait("sleeping", f"sleeps, asked for {call.asked_s:.4g} s", is_timed=True, left_s=call.asked_s)


def _set(scene: Scene, process: Process, thread: Thread, call: Call) -> Wait:
    limit_s = call.asked_s if call.asked_s is not None else call.left_s
    if call.polled is None:
        limit = f", at most {limit_s:.3g} s" if limit_s is not None else ""
        text = f"{call.name}: the set it waits on cannot be read{limit}"
        return Wait("unknown", text, UNSURE, is_timed=bool(call.is_timed), left_s=limit_s)
    wait = wait_on_set(scene, process, call.polled, call.name, limit_s, is_timed=call.is_timed)
    if call.was_resumed:
        wait.confidence = INFERRED
    return wait


def _epoll(scene: Scene, process: Process, thread: Thread, call: Call) -> Wait:
    found = (process.descriptors or {}).get(call.descriptor if call.descriptor is not None else -1)
    polled = found.polled if found is not None and found.kind == evidence.EPOLL else None
    return wait_on_set(scene, process, polled, "epoll", call.asked_s, is_timed=call.is_timed)


def _child(scene: Scene, process: Process, thread: Thread, call: Call) -> Wait:
    """wait4(2), waitid(2)."""
    children = scene.children(process.pid)
    if call.name == "waitid" and call.descriptor is not None:
        return wait_on_descriptor(scene, process, call.descriptor, READ)
    if call.child is not None and call.child in children:
        children = (call.child,)
    if not children:
        return Wait("child_wait", "waits for a child, and none is seen alive", UNSURE)
    return Wait("child_wait", f"waits for child {scene.names(children)}", on=children)


def _signal(scene: Scene, process: Process, thread: Thread, call: Call) -> Wait:
    """pause(2), sigsuspend(2), sigtimedwait(2). A shell's `wait` is sigsuspend: with children it is them."""
    limit_s = call.asked_s
    if call.is_timed:
        limit = f", at most {limit_s:.4g} s" if limit_s is not None else ""
        return Wait("sleeping", f"waits for a signal{limit}", is_timed=True, left_s=limit_s)
    children = scene.children(process.pid)
    if children:
        return Wait("child_wait", f"waits for a signal; children: {scene.names(children)}", INFERRED, children, True)
    return Wait("signal_wait", f"waits for a signal ({call.name})")


def _futex(scene: Scene, process: Process, thread: Thread, call: Call) -> Wait:
    """futex(2): on another thread, of this process or (shared) of another. The process as a whole is judged later."""
    left_s = call.left_s if call.left_s is not None else call.asked_s
    if call.futex is not None and call.futex.joins in process.threads:
        text = f"joins thread {call.futex.joins}"
    elif call.futex is not None and call.futex.owner in process.threads:
        text = f"mutex owned by thread {call.futex.owner}"
    else:
        text = "a futex" if call.futex is None or call.futex.is_private else "a futex shared with other processes"
    if call.is_timed:
        text += f", at most {left_s:.3g} s" if left_s is not None else ", with a time limit"
    return Wait(FUTEX, text, is_timed=bool(call.is_timed), left_s=left_s)


def _lock(scene: Scene, process: Process, thread: Thread, call: Call) -> Wait:
    """flock(2), fcntl(2) F_SETLKW, with the holder from /proc/locks."""
    if not call.wants_lock:
        return wait_unseen(scene, process, thread)
    found = (process.descriptors or {}).get(call.descriptor if call.descriptor is not None else -1)
    path = found.target if found is not None else "a file"
    return wait_for_lock(scene, process, path) or Wait("lock_wait", f"a lock on {path}, not in /proc/locks", INFERRED)


def _accept(scene: Scene, process: Process, thread: Thread, call: Call) -> Wait:
    return wait_on_descriptor(scene, process, call.descriptor, READ)


def _open(scene: Scene, process: Process, thread: Thread, call: Call) -> Wait:
    """fifo(7): opening one end blocks until somebody opens the other. fs/pipe.c, wait_for_partner."""
    channel = thread.wait_channel or ""
    path = call.path or "a file"
    if channel.startswith(("wait_for_partner", "fifo_open")):
        hint = first("fifo_wait", pid=process.pid, file=path.replace("`", "'") if call.path else "")
        return Wait("fifo_wait", f"opens FIFO {path}; nobody has opened its other end", hint=hint)
    return file_call(scene, process, thread, call.name, path)


_RULES: dict[str, Callable[[Scene, Process, Thread, Call], Wait]] = {
    "nanosleep": _sleep,
    "clock_nanosleep": _sleep,
    "poll": _set,
    "select": _set,
    "epoll": _epoll,
    "wait4": _child,
    "waitid": _child,
    "pause": _signal,
    "rt_sigsuspend": _signal,
    "sigsuspend": _signal,
    "rt_sigtimedwait": _signal,
    "futex": _futex,
    "futex_waitv": _futex,
    "futex_wait": _futex,
    "flock": _lock,
    "fcntl": _lock,
    "accept": _accept,
    "accept4": _accept,
    "connect": _accept,
    "open": _open,
    "ioctl": lambda scene, process, thread, call: _ioctl(scene, process, call),
    "semop": lambda scene, process, thread, call: Wait("ipc_wait", "a System V semaphore"),
    "semtimedop": lambda scene, process, thread, call: Wait("ipc_wait", "a System V semaphore"),
    "msgrcv": lambda scene, process, thread, call: Wait("ipc_wait", "a System V message"),
    "msgsnd": lambda scene, process, thread, call: Wait("ipc_wait", "room in a System V message queue"),
    "mq_timedreceive": lambda scene, process, thread, call: Wait("ipc_wait", "a POSIX message"),
    "mq_timedsend": lambda scene, process, thread, call: Wait("ipc_wait", "room in a POSIX message queue"),
    "io_uring_enter": lambda scene, process, thread, call: _asynchronous(call),
    "io_getevents": lambda scene, process, thread, call: _asynchronous(call),
}


def _ioctl(scene: Scene, process: Process, call: Call) -> Wait:
    """tcdrain(3), tcsetattr with TCSADRAIN: waits until the terminal has taken what was written."""
    wait = wait_on_descriptor(scene, process, call.descriptor, READ)
    if wait.kind == "awaiting_input":
        hint = on_terminal(process, (process.descriptors or {}).get(call.descriptor or 0))
        return Wait("output_blocked", "waits until the terminal has taken its output (ioctl)", INFERRED, hint=hint)
    return Wait(wait.kind, f"ioctl on {wait.text}", INFERRED, wait.on, True)


def _asynchronous(call: Call) -> Wait:
    return Wait("unknown", f"{call.name}: what was submitted cannot be seen from outside", UNSURE)
