"""The command runs and we cannot be loaded: an upgrade has removed the rest of us, or there is no memory for it.

What is here is loaded before the spawn and needs next to nothing: a process for each stream that copies it, the signals
passed on, the command's end handed on. No heartbeat, no deadline, no daemon: it is as good as bare.
"""

import _signal
import posix
import time

from sidecar.supervisor import libc
from sidecar.supervisor.signals import HANDLED, SIGCHLD

TYPE_CHECKING = False  # typing.TYPE_CHECKING, without the 7 ms of importing typing
if TYPE_CHECKING:
    from collections.abc import Iterable

_CHUNK_BYTES = 4096
_LAST_S = 0.1
"""How long a background process that holds a stream is waited for, once the command has ended."""


def carry_on(pid: int, streams: "Iterable[tuple[int, int]]") -> None:
    """See command `pid` to its end and end like it. `streams`: (our end, the agent's descriptor). Does not return."""
    status = None
    copiers = set()
    for source, target in streams:
        copier = posix.fork()
        if copier == 0:
            _copy(source, target)
        copiers.add(copier)
        posix.close(source)
    while status is None:
        number = _signal.sigwait(HANDLED)
        if number != SIGCHLD:
            posix.kill(pid, number)
        status = _reap(pid, copiers)
    until_s = time.monotonic() + _LAST_S
    while copiers and time.monotonic() < until_s:
        _signal.sigtimedwait((SIGCHLD,), 0.01)
        _reap(pid, copiers)
    if posix.WIFSIGNALED(status):
        die_of(posix.WTERMSIG(status))
    posix._exit(posix.WEXITSTATUS(status))


def die_of(number: int) -> None:
    """End this process by signal `number`, as the command has ended, and without a core dump: that is the command's."""
    libc.forbid_core_dump()
    try:
        _signal.signal(number, _signal.SIG_DFL)
    except (OSError, ValueError):
        pass  # KILL and STOP have no disposition
    _signal.pthread_sigmask(_signal.SIG_UNBLOCK, (number,))
    posix.kill(posix.getpid(), number)
    posix._exit(128 + number)


def _reap(pid: int, copiers: set[int]) -> int | None:
    """The command's status, if it has ended; who is no copier any more is taken out of `copiers`."""
    status = None
    try:
        while True:
            ended, how = posix.waitpid(-1, posix.WNOHANG)
            if ended == 0:
                break
            copiers.discard(ended)
            if ended == pid:
                status = how
    except ChildProcessError:
        pass
    return status


def _copy(source: int, target: int) -> None:
    """One of the copiers. Does not return."""
    try:
        posix.set_blocking(source, True)
        while chunk := posix.read(source, _CHUNK_BYTES):
            while chunk:
                try:
                    chunk = chunk[posix.write(target, chunk) :]
                except BlockingIOError:
                    time.sleep(0.001)  # the agent's own does not block
    finally:
        posix._exit(0)
