"""The few calls that the standard library does not wrap, or not lightly: prctl(2), signalfd(2), kcmp(2), socket(2).

`_ctypes.call_function` instead of the `ctypes` package: the latter costs 3 ms at start-up, a third of the
whole. Where it is missing (a Python built without libffi, another platform) each function says so by its
return value, and its caller has another way.
"""

import sys

TYPE_CHECKING = False  # typing.TYPE_CHECKING, without the 7 ms of importing typing
if TYPE_CHECKING:
    from collections.abc import Callable

_LINUX = sys.platform == "linux"
_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_SET_CHILD_SUBREAPER = 36
_SFD_CLOEXEC_NONBLOCK = 0o2004000  # <bits/signalfd.h>; the same on x86-64 and aarch64
_SOCK_STREAM_CLOEXEC_NONBLOCK = 0o2004001  # <bits/socket_type.h>; the same on both, too
_SPLICE_F_NONBLOCK = 2
_KCMP_NUMBER = {"x86_64": 312, "aarch64": 272}

try:
    from _ctypes import call_function as _call
    from _ctypes import dlopen as _dlopen
    from _ctypes import dlsym as _dlsym

    _handle = _dlopen(None, 0)  # type: ignore[arg-type]  # the stub forgets None: the program itself
except (ImportError, OSError):
    _handle = 0


def _libc(name: str, *args: int | bytes) -> int:
    """The C function's int result; -1 also where it cannot be called at all."""
    if not _handle or not _LINUX:
        return -1
    try:
        return int(_call(_dlsym(_handle, name), args))
    except (OSError, TypeError, ValueError):
        return -1


def die_with_parent(signal_number: int) -> bool:
    """Ask the kernel for `signal_number` when the parent thread dies (PR_SET_PDEATHSIG of prctl(2)).

    Call it in the child; it survives exec, save of a set-uid program. False where it cannot be had.
    """
    return _libc("prctl", _PR_SET_PDEATHSIG, signal_number, 0, 0, 0) == 0


def set_subreaper(on: bool) -> bool:
    """Become (or cease to be) the parent of orphaned descendants (PR_SET_CHILD_SUBREAPER of prctl(2))."""
    return _libc("prctl", _PR_SET_CHILD_SUBREAPER, int(on), 0, 0, 0) == 0


def forbid_core_dump() -> bool:
    """This process leaves no core dump, whatever it dies of (PR_SET_DUMPABLE of prctl(2))."""
    return _libc("prctl", _PR_SET_DUMPABLE, 0, 0, 0, 0) == 0


def signalfd(signal_numbers: "set[int]") -> int:
    """A non-blocking, close-on-exec descriptor that reads blocked signals (signalfd(2)); -1 if there is none."""
    mask = 0
    for number in signal_numbers:
        mask |= 1 << (number - 1)
    return _libc("signalfd", -1, mask.to_bytes(128, sys.byteorder), _SFD_CLOEXEC_NONBLOCK)


def unix_socket() -> int:
    """A new stream socket of the Unix family, non-blocking and close-on-exec (socket(2), unix(7)); -1 for any error."""
    return _libc("socket", 1, _SOCK_STREAM_CLOEXEC_NONBLOCK, 0)


def connect(descriptor: int, address: bytes) -> bool:
    """Connect a socket to `address`, a struct sockaddr (connect(2)). False for any error."""
    return _libc("connect", descriptor, address, len(address)) == 0


def tee_function() -> "Callable[[int, int, int], int] | None":
    """tee(2) as (pipe to read, pipe to write, bytes) -> bytes, never waiting; -1 for any error. None without it."""
    if not _handle or not _LINUX:
        return None
    address = _dlsym(_handle, "tee")

    def tee(source: int, target: int, size_bytes: int) -> int:
        return int(_call(address, (source, target, size_bytes, _SPLICE_F_NONBLOCK)))

    return tee


def same_open_file(fd_a: int, fd_b: int) -> bool | None:
    """Whether two of our descriptors share one open file description (kcmp(2)); None where nobody can say."""
    import posix

    number = _KCMP_NUMBER.get(posix.uname().machine)
    if number is None:
        return None
    pid = posix.getpid()
    result = _libc("syscall", number, pid, pid, 0, fd_a, fd_b)
    return None if result < 0 else result == 0
