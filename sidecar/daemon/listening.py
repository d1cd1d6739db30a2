"""The listening socket: bound by ourselves, or inherited; and how its file goes away again.

Whoever binds or removes the socket file holds the folder's lock while it does, and only then. So of any
number of daemons that start at once, one binds, and the others find it alive.
"""

import os
import socket
import stat
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from sidecar import rendezvous
from sidecar.core.errors import DaemonUnavailable, SidecarError, UsageError

_LOCK_STEP_S: Final = 0.01
_LOCK_PATIENCE_S: Final = 5.0
_SYSTEMD_FIRST_FD: Final = 3


class AlreadyRunning(SidecarError):  # noqa: N818 - says what is, as StopIteration does
    """Another daemon serves this socket."""


@dataclass(frozen=True, slots=True)
class Listener:
    """`file` is (device, inode) of the socket's file, None where it was gone already. `is_ours` False: the
    socket is systemd's, which keeps it and its file when we end."""

    sock: socket.socket
    path: str
    file: tuple[int, int] | None
    is_ours: bool = True

    def is_reachable(self) -> bool:
        """Whether the file still leads here: folders for temporary files are cleaned by others."""
        return not self.is_ours or (self.file is not None and _file_of(self.path) == self.file)

    def came_up(self, patience_s: float) -> None:
        """We serve. What a supervisor noted beside the socket holds back the next start, for a daemon that never
        comes up: if we are killed, the next one shall be started at once, or short commands would go unrecorded."""
        if not self.is_ours:
            return
        try:
            lock = _lock(self.path, patience_s)
        except (OSError, DaemonUnavailable):
            return
        try:
            if self.is_reachable():
                os.ftruncate(lock, 0)
        except OSError:
            pass
        finally:
            os.close(lock)

    def remove_file(self, patience_s: float) -> bool:
        """Remove the socket's file if it is still our own. False: it stays, for the next daemon to remove."""
        if not self.is_ours:
            return True
        try:
            lock = _lock(self.path, patience_s)
        except (OSError, DaemonUnavailable):
            return False
        try:
            if self.is_reachable():
                os.unlink(self.path)
                # What a supervisor noted there holds back the next start, for a daemon that keeps dying. We do not.
                os.ftruncate(lock, 0)
            return True
        except OSError:
            return False
        finally:
            os.close(lock)


def bind(path: str) -> Listener:
    """Bind the socket at `path` and listen, with a folder that is private and no live daemon there.

    Raises AlreadyRunning, DaemonUnavailable (the folder is refused, or the path is not a socket's).
    """
    rendezvous.private_folder(path)
    try:
        lock = _lock(path, _LOCK_PATIENCE_S)
    except OSError as error:
        raise DaemonUnavailable(f"cannot lock the socket folder of {path}: {error.strerror}") from None
    try:
        _remove_stale(path)
        raw = rendezvous.bind_and_listen(path)
        sock = socket.socket(fileno=raw.detach())
        return Listener(sock, path, _file_of(path))
    except OSError as error:
        raise DaemonUnavailable(f"cannot listen on {path}: {error.strerror}") from None
    finally:
        os.close(lock)


def inherited(descriptor: int, path: str) -> Listener:
    """The listening socket that a supervisor bound at `path`, and left to us. Raises UsageError."""
    sock = _adopt(descriptor)
    # Once more: the kernel tells who connects who listens, and so far that was the supervisor (sidecar.daemon.stuck).
    sock.listen(rendezvous.LISTEN_BACKLOG)
    return Listener(sock, path, _file_of(path))


def from_systemd(environ: Mapping[str, str], path: str) -> Listener | None:
    """The socket of sd_listen_fds(3), or None. Its file belongs to systemd. Raises UsageError."""
    if environ.get("LISTEN_PID") != str(os.getpid()) or environ.get("LISTEN_FDS", "0") == "0":
        return None
    if environ["LISTEN_FDS"] != "1":
        raise UsageError(f"systemd passed {environ['LISTEN_FDS']} sockets; the daemon takes one")
    return Listener(_adopt(_SYSTEMD_FIRST_FD), path, None, is_ours=False)


def _adopt(descriptor: int) -> socket.socket:
    try:
        os.set_inheritable(descriptor, False)
        sock = socket.socket(fileno=descriptor)
    except OSError as error:
        raise UsageError(f"descriptor {descriptor} is no socket: {error.strerror}") from None
    listening = sock.family == socket.AF_UNIX and sock.type == socket.SOCK_STREAM
    if not listening or not sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
        sock.detach()
        raise UsageError(f"descriptor {descriptor} is not a listening Unix stream socket")
    return sock


def _remove_stale(path: str) -> None:
    """With the lock held. A socket that refuses connections has no listener, and will have none again."""
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        # connect(2) refuses here as well, but this file is not ours to remove.
        raise DaemonUnavailable(f"{path} exists and is not a socket: remove it, or set SIDECAR_SOCKET")
    try:
        rendezvous.connect(path).close()
    except BlockingIOError:
        pass  # its backlog is full: alive, and busy
    except ConnectionRefusedError:
        os.unlink(path)
        return
    raise AlreadyRunning(f"a daemon is already running on {path}")


def _lock(path: str, patience_s: float) -> int:
    deadline = time.monotonic() + patience_s
    while True:
        try:
            return rendezvous.lock_folder(path)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise DaemonUnavailable(f"somebody holds the lock beside {path}") from None
            time.sleep(_LOCK_STEP_S)


def _file_of(path: str) -> tuple[int, int] | None:
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino
