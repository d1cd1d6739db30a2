"""Start the daemon on demand, without waiting for it.

The supervisor itself makes the listening socket and hands it to the daemon it starts, which needs half a
second to load. Until then the kernel's backlog holds our connection and all that we wrote into it: a command
that ends at once leaves its frames there and is gone. (docs/decisions has the why.)

Who may bind is settled by the lock beside the socket. The daemon is no descendant of ours: it has a session
of its own, a double fork behind it, nothing open but the socket, and an environment of few names.
"""

import os
import sys

from sidecar import detach, rendezvous
from sidecar.core.daemon_environment import daemon_environment
from sidecar.core.errors import DaemonUnavailable
from sidecar.supervisor import libc

_RETRY_AFTER_S = 2.0
_START = "import sys; sys.path.insert(0, {root!r}); from sidecar.launch import main; sys.exit(main())"


def ensure_listening(path: str, environ: dict[str, str], extra_names: tuple[str, ...], wall_s: float) -> None:
    """Make sure that somebody listens, or soon will, at `path`. Never waits for the daemon to be ready.

    Raises DaemonUnavailable where that cannot be had (with the reason), BlockingIOError while somebody else
    is just doing it: try to connect again shortly.
    """
    rendezvous.private_folder(path)
    lock = rendezvous.lock_folder(path)
    try:
        if _answers(path):
            return
        started_s = os.fstat(lock).st_mtime
        if os.fstat(lock).st_size and 0 <= wall_s - started_s < _RETRY_AFTER_S:
            raise DaemonUnavailable("the daemon was started a moment ago and is gone again: see `sidecar daemon run`")
        try:
            os.unlink(path)
        except FileNotFoundError:
            pass
        listener = rendezvous.bind_and_listen(path)
        try:
            _start(listener.fileno(), path, daemon_environment(environ, extra_names))
        finally:
            listener.close()
        os.pwrite(lock, b"%d\n" % os.getpid(), 0)
    except OSError as error:
        raise DaemonUnavailable(f"cannot start the daemon at {path}: {error.strerror}") from None
    finally:
        os.close(lock)


def _answers(path: str) -> bool:
    try:
        rendezvous.connect(path).close()
    except (FileNotFoundError, ConnectionRefusedError):
        return False
    except BlockingIOError:
        return True  # its backlog is full, but it lives
    return True


def _start(listener: int, path: str, environ: dict[str, str]) -> None:
    """Start the daemon, detached. Raises OSError where that fails."""
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    argv = [sys.executable, "-I", "-c", _START.format(root=root), "daemon", "run"]
    # An orphan of a subreaper's descendant becomes the subreaper's child: for the moment of the double fork
    # we are none, so that the daemon goes to init and not to us.
    was_subreaper = libc.set_subreaper(False)
    try:
        detach.spawn([*argv, "--socket-fd", str(detach.LISTENER_FD), "--socket", path], environ, listener)
    finally:
        if was_subreaper:
            libc.set_subreaper(True)
