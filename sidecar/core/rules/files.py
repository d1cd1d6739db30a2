"""A wait inside a file system or for a file lock: state D and calls on files. flock(2), fcntl(2), proc(5).

Uninterruptible sleep has several causes. Storage that answers is work; a file system that another process or host
serves, or one that is frozen, and did not answer between the looks, may be hung; vfork's parent is neither.
"""

from sidecar.core.advice import first, quoted
from sidecar.core.evidence import PAGE_FAULT, Descriptor, Lock, Process, Thread
from sidecar.core.finding import INFERRED, UNSURE
from sidecar.core.rules.scene import Scene, Wait

_BLOCK_CHANNELS = (
    "io_schedule",
    "folio_wait",
    "wait_on_page",
    "wait_on_buffer",
    "bit_wait_io",
    "blk_",
    "blkdev",
    "balance_dirty",
    "jbd2",
    "log_wait",
    "submit_bio",
    "rq_qos",
    "wbt_wait",
    "get_request",
)
"""Kernel functions in which a thread waits for storage: block/, mm/filemap.c, fs/jbd2."""
_SERVED_CHANNELS = ("request_wait_answer", "fuse_", "rpc_wait", "nfs", "cifs", "wait_for_response", "p9_client", "ceph")
"""fs/fuse/dev.c, net/sunrpc/sched.c, fs/smb/client/transport.c, net/9p/client.c: a wait for the file server."""
_FROZEN_CHANNELS = ("percpu_rwsem_wait", "percpu_down_read", "sb_start_write", "__sb_start_write")
"""A write to a file system that fsfreeze(8) has frozen: fs/super.c, kernel/locking/percpu-rwsem.c."""
_VFORK_CHANNELS = ("vfork", "kernel_clone", "do_fork", "_do_fork")
_POSIX = "POSIX"


def uninterruptible(scene: Scene, process: Process, thread: Thread, name: str) -> Wait:
    """State D in the call `name` (empty: not readable)."""
    channel = thread.wait_channel or ""
    if name in ("vfork", "clone", "clone3") or (not name and channel.startswith(_VFORK_CHANNELS)):
        children = scene.children(process.pid)
        text = f"waits for {scene.names(children) or 'a child'} to start a program or end (vfork)"
        return Wait("child_wait", text, on=children, is_guess=not name)
    if "mem_cgroup_handle_over_high" in channel:
        return Wait("memory_thrash", "held back over memory.high of its control group")
    if "mem_cgroup_oom" in channel:
        return Wait("oom_stall", "waits for memory of its control group")
    call = thread.call
    found = _descriptor(process, thread)
    path = (call.path if call is not None else None) or (found.target if found is not None else "")
    what = "a page fault" if name == PAGE_FAULT else name or "a call that is not readable"
    text = f"uninterruptible in {what}{_place(path, found)}" + (f", kernel function {channel}" if channel else "")
    has_run = scene.has_run(process, thread)
    mount = (call.mount_point if call is not None and call.path else "") or (found.mount_point if found else "")
    if channel.startswith(_FROZEN_CHANNELS):
        return _of_file_system(text, has_run, "filesystem_wait, frozen", mount)
    if is_served(process, thread):
        return _of_file_system(text, has_run, "filesystem_wait", mount)
    if any(part in channel for part in _BLOCK_CHANNELS):
        if has_run:
            return Wait("disk_io", text, INFERRED)
        return Wait("unknown", f"{text}: storage has not answered since before the look, as far as is seen", UNSURE)
    return Wait("unknown", text, UNSURE)


def wait_on_file_system(scene: Scene, process: Process, thread: Thread, what: str) -> Wait:
    """Interruptible, for a file system that somebody else serves."""
    found = _descriptor(process, thread)
    channel = thread.wait_channel or ""
    text = f"{what}{_place('', found)}" + (f", kernel function {channel}" if channel else "")
    mount = (thread.call.mount_point if thread.call is not None else "") or (found.mount_point if found else "")
    return _of_file_system(text, scene.has_run(process, thread), "filesystem_wait", mount)


def _of_file_system(text: str, has_run: bool | None, what_to_do: str, mount: str) -> Wait:
    """No answer all through the interval is a wait that may be for ever; an answer in between is work."""
    if has_run is None:
        return Wait("unknown", f"{text}; whether it was answered since the look before is not known", UNSURE)
    if has_run:
        return Wait("disk_io", f"{text}; it was answered since the look before", INFERRED)
    return Wait(
        "filesystem_wait", f"{text}; not answered between the looks", hint=first(what_to_do, mount=quoted(mount))
    )


def is_served(process: Process, thread: Thread) -> bool:
    """The thread is in a file system that another process or host serves, and not in a FIFO that lies there."""
    channel = thread.wait_channel or ""
    found = _descriptor(process, thread)
    return channel.startswith(_SERVED_CHANNELS) or (found is not None and found.is_remote and "pipe" not in channel)


def file_call(scene: Scene, process: Process, thread: Thread, name: str, path: str) -> Wait:
    """Interruptible, in a call on a file: so wait those of file systems served by others."""
    found = _descriptor(process, thread)
    what = f"in {name} {path or (found.target if found is not None else '')}".rstrip()
    if is_served(process, thread):
        return wait_on_file_system(scene, process, thread, what)
    channel = f", kernel function {thread.wait_channel}" if thread.wait_channel else ""
    return Wait("unknown", f"{what}{channel}", UNSURE)


def wait_for_lock(scene: Scene, process: Process, path: str) -> Wait | None:
    """The lock this process waits for according to /proc/locks; None: none."""
    for lock in scene.after.locks:
        if lock.pid == process.pid and lock.holder is not None:
            holders = _holders(lock)
            on = tuple(pid for pid in holders if pid in scene.alive and pid != process.pid)
            who = _who_holds(scene, lock)
            text = f"{lock.kind} lock on {path}, held by {who}"
            if lock.kind != _POSIX and lock.holders is None and not lock.holder_program:
                return Wait("unknown", text, UNSURE)
            is_guess = any(pid not in scene.alive for pid in holders) or (lock.kind != _POSIX and not lock.holders)
            hint = _look_at_holder(lock, who, holders[0], path) if holders else ""
            return Wait("lock_wait", text, on=on, is_guess=is_guess, hint=hint)
    return None


def _look_at_holder(lock: Lock, who: str, pid: int, path: str) -> str:
    name = "lock_wait, whose taker has ended" if _has_unknown_heirs(lock) else "lock_wait, with a holder"
    return first(name, peer=who, peer_pid=pid, file=quoted(path) if path.startswith("/") else "")


def _has_unknown_heirs(lock: Lock) -> bool:
    """It is held by what inherited the file, and that is not among those that were looked at."""
    return lock.kind != _POSIX and lock.holder_has_ended and not lock.holders


def _holders(lock: Lock) -> tuple[int, ...]:
    """Who has it now. A lock of flock(2), or of F_OFD_SETLK, belongs to an open file: whoever has that open holds it,
    and the process that took it may have ended, as `flock 9` in a shell does; fcntl(2)'s own stays with its process."""
    if lock.holders:
        return lock.holders
    return (lock.holder,) if lock.holder is not None and lock.holder > 0 else ()


def _who_holds(scene: Scene, lock: Lock) -> str:
    if lock.holders:
        return " or ".join(f"{lock.programs.get(pid, '')}[{pid}]" for pid in lock.holders[:3])
    if lock.holder is None or lock.holder <= 0:
        return "somebody's open file description (F_OFD_SETLK)"
    if _has_unknown_heirs(lock):
        return f"whoever has the file open since process {lock.holder} took it, which has ended"
    return f"{lock.holder_program or '?'}[{lock.holder}]"


def polled_lock(scene: Scene, pid: int) -> Wait | None:
    """A short sleeper that keeps waking, with a file open on which another process held a write lock all the time.

    So waits SQLite's busy handler (sqlite3_busy_timeout): it tries, sleeps up to 100 ms, and tries again.
    """
    before, after = scene.before.files.get(pid, {}), scene.after.files.get(pid, {})
    for lock in scene.after.locks:
        path = after.get(lock.file)
        if path is None or lock.file not in before or lock.holder is not None or not lock.is_write:
            continue
        if not any(old.file == lock.file and old.pid == lock.pid for old in scene.before.locks):
            continue
        if lock.pid in scene.alive:
            continue  # of the same command, which goes on: that is polling, and nobody's business
        who = f"{lock.holder_program or '?'}[{lock.pid}]"
        text = f"tries again and again, likely for the lock on {path} that {who} holds"
        hint = _look_at_holder(lock, who, lock.pid, path) if lock.pid > 0 else ""
        return Wait("lock_wait", text, INFERRED, hint=hint)
    return None


def _descriptor(process: Process, thread: Thread) -> Descriptor | None:
    number = thread.call.descriptor if thread.call is not None else None
    return (process.descriptors or {}).get(number) if number is not None else None


def _place(path: str, found: Descriptor | None) -> str:
    shown = path or (found.target if found is not None else "")
    file_system = f" on {found.file_system}" if found is not None and found.file_system else ""
    return (f" {shown}" if shown else "") + file_system
