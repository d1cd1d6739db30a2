"""The system call a thread sits in, and what its arguments say it waits for. proc(5), /proc/PID/task/TID/syscall.

Memory of the process is read for a few words only: the set of a poll or select, a timespec, a futex's owner, the
path of an open. Cost: 2 microseconds a thread, about 5 more where memory is read. Privilege: ptrace access
(ptrace(2), "Ptrace access mode checking": with Yama 1 a descendant of ours); nothing is attached or stopped.
Cannot see: None; then `wait_channel` may tell the kernel function instead.
"""

import struct
from collections.abc import Callable

from collectors import syscalls
from collectors.kernel import Kernel
from sidecar.core.evidence import PAGE_FAULT, READ, RUNNING, WRITE, Call, Futex

PATH_BYTES = 256
_POLL_AT_MOST = 256
_TIMER_ABSTIME = 1
_POLLIN, _POLLOUT = 0x1, 0x4
_INFINITE_MS = 0x8000_0000
_MOST_SECONDS = 1 << 33
_FUTEX_WAIT, _FUTEX_LOCK_PI, _FUTEX_WAIT_BITSET, _FUTEX_WAIT_REQUEUE_PI, _FUTEX_LOCK_PI2 = 0, 6, 9, 11, 13
_FUTEX_PRIVATE, _FUTEX_REALTIME = 128, 256
_FUTEX_TID_MASK = 0x3FFF_FFFF
_GLIBC_OWNER_OFFSET = 8  # pthread_mutex_t: __lock (the futex), __count, __owner
_GLIBC_CONTENDED = 2  # what the word of a mutex holds, and is waited on, while somebody waits
_WIDE = "time64"
_LOCK_COMMANDS = (7, 38, 14)  # F_SETLKW, F_OFD_SETLKW, F_SETLKW64 (i386)
_WAIT_FOR_PID, _WAIT_FOR_PIDFD = 1, 3  # waitid(2): P_PID, P_PIDFD


class _Arguments:
    """The raw arguments of one call, and the process whose memory they point into."""

    __slots__ = ("compat", "kernel", "pid", "tid", "values")

    def __init__(self, kernel: Kernel, pid: int, tid: int, values: list[int], compat: bool) -> None:
        self.kernel = kernel
        self.pid = pid
        self.tid = tid
        self.values = values
        self.compat = compat

    def __getitem__(self, index: int) -> int:
        return self.values[index]

    def signed(self, index: int) -> int:
        """A C int: the upper half of the register is not part of it."""
        value = self.values[index] & 0xFFFF_FFFF
        return value - (1 << 32) if value & 0x8000_0000 else value

    def memory(self, address: int, size: int) -> bytes | None:
        data = self.kernel.memory(self.pid, address, size) if address else None
        return data if data is not None and len(data) == size else None

    def seconds(self, address: int, *, narrow: bool = False, per_second: int = 1_000_000_000) -> float | None:
        """A timespec (or timeval, with 1,000,000 a second). None: not readable, or not one: a stale register."""
        form = "=ii" if narrow else "=qq"
        data = self.memory(address, struct.calcsize(form))
        if data is None:
            return None
        whole, part = struct.unpack(form, data)
        if not (0 <= whole < _MOST_SECONDS and 0 <= part < per_second):
            return None
        return float(whole + part / per_second)

    def word(self, address: int) -> int | None:
        data = self.memory(address, 4)
        return None if data is None else int(struct.unpack("=i", data)[0])


def read_call(kernel: Kernel, pid: int, tid: int) -> Call | None:
    """The call of one thread; None: may not be read, or the thread is gone."""
    data = kernel.read(f"{pid}/task/{tid}/syscall")
    if not data:
        return None
    fields = data.split()
    try:
        if fields[0] == b"running":
            return Call(RUNNING)
        number = int(fields[0])
        if number == -1:
            return Call(PAGE_FAULT)
        values = [int(field, 16) for field in fields[1:7]]
        compat = syscalls.is_compat(int(fields[7], 16), int(fields[8], 16))
    except (ValueError, IndexError):
        return None
    if len(values) < 6:
        return None
    name = syscalls.name_of(number, kernel.machine, compat)
    arguments = _Arguments(kernel, pid, tid, values, compat)
    return decode(name, arguments)


def decode(name: str, arguments: _Arguments) -> Call:
    if name in syscalls.READS or name in syscalls.WRITES or name in _BY_DESCRIPTOR:
        return Call(name, descriptor=arguments.signed(0))
    decoder = _path if name in _PATH_FIRST or name in _PATH_SECOND else _DECODERS.get(name)
    return Call(name) if decoder is None else decoder(name, arguments)


def _nanosleep(name: str, arguments: _Arguments) -> Call:
    narrow = arguments.compat
    return Call(name, is_timed=True, asked_s=arguments.seconds(arguments[0], narrow=narrow))


def _clock_nanosleep(name: str, arguments: _Arguments) -> Call:
    asked_s = arguments.seconds(arguments[2], narrow=arguments.compat and not name.endswith(_WIDE))
    name = "clock_nanosleep"
    if asked_s is not None and arguments[1] & _TIMER_ABSTIME:
        now_s = arguments.kernel.clock_s(arguments.signed(0))
        return Call(name, is_timed=True, left_s=None if now_s is None else max(0.0, asked_s - now_s))
    return Call(name, is_timed=True, asked_s=asked_s)


def _wait(name: str, arguments: _Arguments) -> Call:
    if name == "waitid":
        if arguments[0] == _WAIT_FOR_PIDFD:
            return Call(name, descriptor=arguments.signed(1))
        return Call(name, child=arguments.signed(1) if arguments[0] == _WAIT_FOR_PID else None)
    pid = arguments.signed(0)
    return Call("wait4", child=pid if pid > 0 else None)


def _sigtimedwait(name: str, arguments: _Arguments) -> Call:
    address = arguments[2]
    asked_s = arguments.seconds(address, narrow=arguments.compat and not name.endswith(_WIDE))
    return Call("rt_sigtimedwait", is_timed=bool(address), asked_s=asked_s)


def _fcntl(name: str, arguments: _Arguments) -> Call:
    return Call(name, descriptor=arguments.signed(0), wants_lock=arguments[1] in _LOCK_COMMANDS)


def _flock(name: str, arguments: _Arguments) -> Call:
    return Call(name, descriptor=arguments.signed(0), wants_lock=True)


def _epoll(name: str, arguments: _Arguments) -> Call:
    """What it watches is in the epoll descriptor's fdinfo."""
    if name == "epoll_pwait2":
        address = arguments[3]
        asked_s = arguments.seconds(address)
        return Call("epoll", descriptor=arguments.signed(0), is_timed=bool(address), asked_s=asked_s)
    ms = arguments[3] & 0xFFFF_FFFF
    is_timed = not ms & _INFINITE_MS
    return Call("epoll", descriptor=arguments.signed(0), is_timed=is_timed, asked_s=ms / 1000 if is_timed else None)


def _poll(name: str, arguments: _Arguments) -> Call:
    asked_s = None
    if name == "poll":
        ms = arguments[2] & 0xFFFF_FFFF
        is_timed = not ms & _INFINITE_MS
        asked_s = ms / 1000 if is_timed else None
    else:
        is_timed = bool(arguments[2])
        asked_s = arguments.seconds(arguments[2], narrow=arguments.compat and not name.endswith(_WIDE))
    return Call("poll", polled=_polled(arguments), is_timed=is_timed, asked_s=asked_s)


def _polled(arguments: _Arguments) -> tuple[tuple[int, str], ...] | None:
    count = arguments[1] & 0xFFFF_FFFF
    if count == 0:
        return ()
    data = arguments.memory(arguments[0], 8 * min(count, _POLL_AT_MOST))
    if data is None:
        return None
    polled = []
    for descriptor, events, _ in struct.iter_unpack("=ihh", data):
        if descriptor >= 0:
            polled.append((descriptor, WRITE if events & _POLLOUT and not events & _POLLIN else READ))
    return tuple(polled)


def _select(name: str, arguments: _Arguments) -> Call:
    """The sets are as they were asked for: the kernel writes its answer over them only as it returns."""
    address = arguments[4]
    narrow = arguments.compat and not name.endswith(_WIDE)
    per_second = 1_000_000 if name in ("select", "_newselect") else 1_000_000_000
    asked_s = arguments.seconds(address, narrow=narrow, per_second=per_second)
    polled: list[tuple[int, str]] | None = []
    count = min(arguments[0] & 0xFFFF_FFFF, 1024)
    for address_of_set, wanted in ((arguments[1], READ), (arguments[2], WRITE)):
        if not address_of_set or not count:
            continue
        data = arguments.memory(address_of_set, (count + 7) // 8)
        if data is None:
            polled = None
            break
        bits = int.from_bytes(data, "little")
        polled = [*(polled or []), *((number, wanted) for number in range(count) if bits >> number & 1)]
    return Call("select", polled=None if polled is None else tuple(polled), is_timed=bool(address), asked_s=asked_s)


def _futex(name: str, arguments: _Arguments) -> Call:
    """futex(2). glibc: a mutex keeps its owner's thread id 8 bytes after the word; a join waits for the id itself."""
    operation, address, until = arguments[1], arguments[0], arguments[3]
    command = operation & 0x7F
    if command not in (_FUTEX_WAIT, _FUTEX_LOCK_PI, _FUTEX_WAIT_BITSET, _FUTEX_WAIT_REQUEUE_PI, _FUTEX_LOCK_PI2):
        return Call("futex", is_timed=None, futex=None)
    is_private = bool(operation & _FUTEX_PRIVATE)
    futex = Futex(address, is_private)
    value = arguments.signed(2)
    if command in (_FUTEX_LOCK_PI, _FUTEX_LOCK_PI2, _FUTEX_WAIT_REQUEUE_PI):
        word = arguments.word(address)
        futex.owner = None if word is None else word & _FUTEX_TID_MASK
    elif not is_private and value > 1:
        futex.joins = value
    elif is_private and value == _GLIBC_CONTENDED:
        futex.owner = arguments.word(address + _GLIBC_OWNER_OFFSET)
    call = Call("futex", is_timed=bool(until), futex=futex)
    if until and not arguments.compat:
        asked_s = arguments.seconds(until)
        if asked_s is not None and command == _FUTEX_WAIT:
            call.asked_s = asked_s
        elif asked_s is not None:  # every other command takes an absolute time
            now_s = arguments.kernel.clock_s(0 if operation & _FUTEX_REALTIME or command == _FUTEX_LOCK_PI else 1)
            call.left_s = None if now_s is None else max(0.0, asked_s - now_s)
    return call


def _path(name: str, arguments: _Arguments) -> Call:
    """A call on a path: the first argument, or the second after a folder's descriptor."""
    data = arguments.memory(arguments[0 if name in _PATH_FIRST else 1], PATH_BYTES)
    plain = "open" if name in ("openat", "openat2") else name
    return Call(plain, path=None if data is None else data.split(b"\0", 1)[0].decode("utf-8", "replace"))


def _restart(name: str, arguments: _Arguments) -> Call:
    """A wait that was stopped and continued. The registers are those of the first call, if not used since."""
    clock, flags, address = arguments[0], arguments[1], arguments[2]
    page = 4096
    if clock < 16 and flags in (0, _TIMER_ABSTIME) and address > page:
        return Call("clock_nanosleep", is_timed=True, asked_s=arguments.seconds(address), was_resumed=True)
    if clock > page and (flags & 0x7F) in (_FUTEX_WAIT, _FUTEX_WAIT_BITSET) and arguments[3] > page:
        return Call("futex", is_timed=True, futex=Futex(clock, bool(flags & _FUTEX_PRIVATE)), was_resumed=True)
    if clock > page and flags > page:
        return Call("nanosleep", is_timed=True, was_resumed=True)
    if clock > page and 0 < flags < 1024:
        call = _poll("poll", arguments)
        call.was_resumed = True
        return call
    return Call(name, was_resumed=True)


_BY_DESCRIPTOR = frozenset(
    {
        "connect",
        "accept",
        "accept4",
        "ioctl",
        "sendfile",
        "fsync",
        "fdatasync",
        "ftruncate",
        "fallocate",
        "getdents64",
        "fstat",
        "syncfs",
        "copy_file_range",
    }
)
_PATH_FIRST = frozenset(
    {"open", "stat", "lstat", "access", "truncate", "rename", "unlink", "mkdir", "rmdir", "readlink", "chdir", "execve"}
)
_PATH_SECOND = frozenset(
    {"openat", "openat2", "newfstatat", "statx", "faccessat", "faccessat2", "unlinkat", "mkdirat", "renameat"}
    | {"renameat2", "readlinkat", "execveat"}
)
_DECODERS: dict[str, Callable[[str, _Arguments], Call]] = {
    "nanosleep": _nanosleep,
    "clock_nanosleep": _clock_nanosleep,
    "clock_nanosleep_time64": _clock_nanosleep,
    "wait4": _wait,
    "waitpid": _wait,
    "waitid": _wait,
    "rt_sigtimedwait": _sigtimedwait,
    "rt_sigtimedwait_time64": _sigtimedwait,
    "fcntl": _fcntl,
    "flock": _flock,
    "epoll_wait": _epoll,
    "epoll_pwait": _epoll,
    "epoll_pwait2": _epoll,
    "poll": _poll,
    "ppoll": _poll,
    "ppoll_time64": _poll,
    "select": _select,
    "_newselect": _select,
    "pselect6": _select,
    "pselect6_time64": _select,
    "futex": _futex,
    "futex_time64": _futex,
    "restart_syscall": _restart,
}
