"""Leaving the caller behind: what makes a process a daemon.

`spawn` starts one from a live caller: double fork, own session, then exec with a reduced environment. The
exec is what lets go of the caller's secrets: a fork alone would keep its environment and memory.

`settle_in` is the daemon's own part, for every way in which it may have been started.
"""

import fcntl
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from typing import Final

LISTENER_FD: Final = 3
_CHILD_FAILED: Final = 125


def spawn(arguments: Sequence[str], environ: Mapping[str, str], listener_fd: int) -> None:
    """Run `sidecar ARGUMENTS`, detached; the listener becomes its descriptor 3.

    Returns when the go-between has ended; the daemon is then no descendant of ours. Raises OSError.
    """
    # The modules are found as they were found here - installed, editable, or from a zip - but without `site`
    # and without the user's own folders or variables (-I), so that no one can slip code in.
    paths = [os.path.abspath(entry) for entry in sys.path if entry]
    code = f"import sys; sys.path[:] = {paths!r}; from sidecar.launch import main; sys.exit(main())"
    argv = [sys.executable, "-IS", "-c", code, *arguments]
    child = os.fork()
    if child:
        _, status = os.waitpid(child, 0)
        if os.waitstatus_to_exitcode(status):
            raise OSError("the daemon could not be started")
        return
    try:
        os.setsid()
        if os.fork():
            os._exit(0)
        null = os.open(os.devnull, os.O_RDWR)
        # The listener first goes out of the way of 0-3, which are overwritten next.
        keep = fcntl.fcntl(listener_fd, fcntl.F_DUPFD, LISTENER_FD + 1)
        for descriptor in (0, 1, 2):
            os.dup2(null, descriptor)
        os.dup2(keep, LISTENER_FD)
        os.closerange(LISTENER_FD + 1, _descriptor_limit())
        os.chdir("/")
        os.umask(0o077)
        _default_signals()
        os.execve(sys.executable, argv, dict(environ))
    finally:
        os._exit(_CHILD_FAILED)


def settle_in(keep_fd: int | None) -> None:
    """Hold nothing of whoever started us: no folder, no descriptor but 0-2 and `keep_fd`, no loose umask."""
    os.chdir("/")
    os.umask(0o077)
    first = 3
    if keep_fd is not None and keep_fd >= first:
        os.closerange(first, keep_fd)
        first = keep_fd + 1
    os.closerange(first, _descriptor_limit())


def _default_signals() -> None:
    """What the caller ignores or blocks outlives an exec: an ignored SIGTERM would make us unstoppable."""
    for number in signal.valid_signals():
        try:
            signal.signal(number, signal.SIG_DFL)
        except (OSError, ValueError):
            continue  # KILL, STOP, and those the C library keeps for itself
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _descriptor_limit() -> int:
    limit = os.sysconf("SC_OPEN_MAX")
    # Unlimited, or a container's two thousand million: CPython uses close_range(2) where there is one, but
    # elsewhere each number is a system call.
    return limit if 0 < limit <= 1 << 20 else 1 << 20
