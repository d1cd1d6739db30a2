"""Leaving the caller behind: what makes a process a daemon.

`spawn` starts one from a live caller: double fork, own session, then exec with a reduced environment. The
exec is what lets go of the caller's secrets: a fork alone would keep its environment and memory.

`settle_in` is the daemon's own part, for every way in which it may have been started.

Light (`posix` and `_signal`, not `os` and `signal`): a supervisor loads this while its command runs.
"""

import _signal
import posix

TYPE_CHECKING = False  # typing.TYPE_CHECKING, without the 7 ms of importing typing
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

LISTENER_FD = 3
_CHILD_FAILED = 125


def spawn(argv: "Sequence[str]", environ: "Mapping[str, str]", listener_fd: int) -> None:
    """Run `argv` (its first word is a path), detached; the listener becomes its descriptor 3.

    Returns when the go-between has ended; the daemon is then no descendant of ours, save where we are a subreaper.
    Raises OSError.
    """
    child = posix.fork()
    if child:
        _, status = posix.waitpid(child, 0)
        if status:
            raise OSError(0, "the go-between failed")
        return
    try:
        posix.setsid()
        if posix.fork():
            posix._exit(0)
        import fcntl

        null = posix.open("/dev/null", posix.O_RDWR)
        # The listener first goes out of the way of 0-3, which are overwritten next.
        keep = fcntl.fcntl(listener_fd, fcntl.F_DUPFD, LISTENER_FD + 1)
        for descriptor in (0, 1, 2):
            posix.dup2(null, descriptor)
        posix.dup2(keep, LISTENER_FD)
        close_all_but((0, 1, 2, LISTENER_FD))
        posix.chdir("/")
        posix.umask(0o077)
        _default_signals()
        posix.execve(argv[0], list(argv), dict(environ))
    finally:
        posix._exit(_CHILD_FAILED)


def settle_in(keep_fd: int | None) -> None:
    """Hold nothing of whoever started us: no folder, no descriptor but 0-2 and `keep_fd`, no loose umask."""
    posix.chdir("/")
    posix.umask(0o077)
    close_all_but((0, 1, 2) if keep_fd is None else (0, 1, 2, keep_fd))


def close_all_but(kept: "Sequence[int]") -> None:
    """Close every descriptor that is not among `kept`."""
    lowest = 0
    for descriptor in sorted(kept):
        if descriptor > lowest:  # not an empty range: closerange(0, 0) is close_range(0, -1), which is everything
            posix.closerange(lowest, descriptor)
        lowest = max(lowest, descriptor + 1)
    posix.closerange(lowest, _descriptor_limit())


def _default_signals() -> None:
    """What the caller ignores or blocks outlives an exec: an ignored SIGTERM would make us unstoppable."""
    for number in _signal.valid_signals():
        try:
            _signal.signal(number, _signal.SIG_DFL)
        except (OSError, ValueError):
            continue  # KILL, STOP, and those the C library keeps for itself
    _signal.pthread_sigmask(_signal.SIG_SETMASK, ())


def _descriptor_limit() -> int:
    limit = posix.sysconf("SC_OPEN_MAX")
    # Unlimited (-1), or a container's two thousand million: CPython uses close_range(2) where there is one, but
    # elsewhere each number is a system call.
    return limit if 0 < limit <= 1 << 20 else 1 << 20
