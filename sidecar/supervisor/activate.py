"""Start the daemon on demand, without waiting for it.

The supervisor itself makes the listening socket and hands it to the daemon it starts, which needs half a
second to load. Until then the kernel's backlog holds our connection and all that we wrote into it: a command
that ends at once leaves its frames there and is gone. (docs/decisions has the why.)

Who may bind is settled by the lock beside the socket. The daemon is no descendant of ours: it has a session
of its own, a double fork behind it, nothing open but the socket, and an environment of few names.
"""

import os
import sys

from sidecar import rendezvous
from sidecar.core.daemon_environment import daemon_environment
from sidecar.core.errors import DaemonUnavailable
from sidecar.supervisor import libc

_RETRY_AFTER_S = 2.0
_LISTEN_FD = 3
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
    """Fork twice and exec the daemon. Raises OSError where the first fork fails."""
    # An orphan of a subreaper's descendant becomes the subreaper's child: for the moment of the double fork
    # we are none, so that the daemon goes to init and not to us.
    was_subreaper = libc.set_subreaper(False)
    try:
        middle = os.fork()
        if middle == 0:
            try:
                os.setsid()
                if os.fork() == 0:
                    _become_daemon(listener, path, environ)
            finally:
                os._exit(0)
        os.waitpid(middle, 0)
    finally:
        if was_subreaper:
            libc.set_subreaper(True)


def _become_daemon(listener: int, path: str, environ: dict[str, str]) -> None:
    import _signal

    os.chdir("/")
    os.umask(0o077)
    # Above every number that is written to below.
    import fcntl

    listener = fcntl.fcntl(listener, fcntl.F_DUPFD, _LISTEN_FD + 1)
    null = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(null, number)
    os.dup2(listener, _LISTEN_FD)
    os.closerange(_LISTEN_FD + 1, min(os.sysconf("SC_OPEN_MAX"), 1 << 20))
    for number in _signal.valid_signals():
        if number not in (_signal.SIGKILL, _signal.SIGSTOP):
            try:
                _signal.signal(number, _signal.SIG_DFL)
            except OSError:
                continue
    _signal.pthread_sigmask(_signal.SIG_SETMASK, [])
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    argv = [sys.executable, "-I", "-c", _START.format(root=root), "daemon", "run"]
    os.execve(sys.executable, [*argv, "--socket-fd", str(_LISTEN_FD), "--socket", path], environ)
