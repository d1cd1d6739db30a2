"""A daemon that listens and does not answer: stopped (SIGSTOP, a frozen cgroup), or its loop does not turn.

Who holds the socket is asked of the kernel: SO_PEERCRED of unix(7) names the process that called listen(2) last, which
a daemon that inherits its socket does once more for that reason. What systemd listens for is systemd's, and a pid of
another daemon's folder or container is nobody's here: only a process of ours whose command line is a daemon's counts.
"""

import os
import signal
import time
from typing import TYPE_CHECKING, Final

from sidecar import rendezvous
from sidecar.core.errors import DaemonUnavailable, SidecarError
from sidecar.daemon import identity

if TYPE_CHECKING:
    from _socket import socket

_VERB: Final = b"\0daemon\0run\0"
_STEP_S: Final = 0.02


def daemon_of(path: str) -> int | None:
    """The pid of the daemon that listens on `path`; None where nobody does, or where it cannot be told."""
    try:
        sock = rendezvous.connect(path)
    except (OSError, DaemonUnavailable):
        return None
    pid = daemon_behind(sock)
    sock.close()
    return pid


def daemon_behind(sock: "socket") -> int | None:
    """The same, of a socket that is connected to it."""
    pid = rendezvous.peer_pid_of(sock)
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return pid if _VERB in file.read() else None
    except OSError:
        return None


def end(pid: int, orderly_s: float, killed_s: float) -> None:
    """SIGTERM to daemon `pid`, and SIGCONT, without which a stopped one would not see it; SIGKILL after `orderly_s`.
    What it knew is beside its socket, for the next one. Raises SidecarError where it is there after `killed_s`."""
    ticks = identity.started_ticks(pid)
    for number, patience_s in ((signal.SIGTERM, orderly_s), (signal.SIGKILL, killed_s)):
        try:
            os.kill(pid, number)
            os.kill(pid, signal.SIGCONT)
        except ProcessLookupError:
            return
        deadline_s = time.monotonic() + patience_s
        while time.monotonic() < deadline_s:
            if not identity.is_alive(pid, ticks):
                return
            time.sleep(_STEP_S)
    raise SidecarError(f"daemon {pid} was killed, and is still there: `sidecar why {pid}`")
