"""Where supervisor, daemon and subscribers meet: the Unix socket, bound and connected to.

Standard library only and light: the supervisor loads this right after the spawn. (`_socket` instead of
`socket`: the latter imports enum and selectors, 6 ms. `posix` instead of `os`: 0.8 ms.)

A path over the kernel's limit (sun_path of
unix(7): 108 bytes with its NUL, 104 on macOS) is reached through /proc/self/fd, or through the folder itself.
"""

import posix
import sys
from _socket import AF_UNIX, SOCK_STREAM, SOL_SOCKET, socket

from sidecar.core.errors import DaemonUnavailable
from sidecar.places import SOCKET_NAME, private_folder, socket_path

__all__ = [
    "LISTEN_BACKLOG",
    "MAX_SUN_PATH_BYTES",
    "SOCKET_NAME",
    "bind_and_listen",
    "connect",
    "lock_folder",
    "new_socket",
    "peer_pid_of",
    "peer_uid_of",
    "private_folder",
    "socket_path",
]

MAX_SUN_PATH_BYTES = 107 if sys.platform == "linux" else 103
LISTEN_BACKLOG = 4096
_SO_PEERCRED = 17


def new_socket(*, nonblocking: bool = True) -> socket:
    sock = socket(AF_UNIX, SOCK_STREAM)
    if nonblocking:
        sock.setblocking(False)
    return sock


def connect(path: str, *, nonblocking: bool = True) -> socket:
    """A connected stream socket, close-on-exec. Raises OSError (ENOENT, ECONNREFUSED, EAGAIN ...), or
    DaemonUnavailable where the listener is not of our own uid."""
    sock = new_socket(nonblocking=nonblocking)
    try:
        raw = path.encode(sys.getfilesystemencoding(), "surrogateescape")
        if len(raw) <= MAX_SUN_PATH_BYTES:
            sock.connect(raw)
        else:
            with _short_name(path) as name:
                sock.connect(name)
        peer_uid = peer_uid_of(sock)
        if peer_uid is not None and peer_uid not in (posix.getuid(), 0):
            raise DaemonUnavailable(f"the daemon on {path} belongs to uid {peer_uid}, not to you")
    except BaseException:
        sock.close()
        raise
    return sock


def bind_and_listen(path: str) -> socket:
    """A listening socket at `path` (0600), close-on-exec. Raises OSError (EADDRINUSE where the file exists).

    Call it with the lock of `lock_folder` held, after any stale file was removed.
    """
    sock = new_socket()
    try:
        # The umask covers the moment between bind and chmod; both processes that bind are single-threaded here.
        before = posix.umask(0o177)
        try:
            with _short_name(path) as name:
                sock.bind(name)
        finally:
            posix.umask(before)
        sock.listen(LISTEN_BACKLOG)
    except BaseException:
        sock.close()
        raise
    return sock


def lock_folder(path: str, *, blocking: bool = False) -> int:
    """Take the lock that whoever binds, or removes, the socket file must hold. Returns its descriptor (close it
    to let go). Raises BlockingIOError when somebody else has it, else OSError."""
    import fcntl

    flags = posix.O_RDWR | posix.O_CREAT | posix.O_CLOEXEC | posix.O_NOFOLLOW
    descriptor = posix.open(f"{path.rpartition('/')[0]}/daemon.lock", flags, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if blocking else fcntl.LOCK_NB))
    except BaseException:
        posix.close(descriptor)
        raise
    return descriptor


def peer_uid_of(sock: socket) -> int | None:
    """The uid of the process at the other end (SO_PEERCRED of unix(7)); None where the platform cannot say."""
    if sys.platform != "linux":
        return None
    credentials = sock.getsockopt(SOL_SOCKET, _SO_PEERCRED, 12)
    return int.from_bytes(credentials[4:8], sys.byteorder)


def peer_pid_of(sock: socket) -> int | None:
    """The pid of the process that called listen(2) last, as it is seen from here (0: not at all); None where the
    platform cannot say."""
    if sys.platform != "linux":
        return None
    return int.from_bytes(sock.getsockopt(SOL_SOCKET, _SO_PEERCRED, 12)[:4], sys.byteorder)


class _short_name:  # noqa: N801 - used as a function: `with _short_name(path) as name`
    """A name for `path` that fits into sun_path: itself, or through a descriptor of its folder."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._folder = -1

    def __enter__(self) -> bytes:
        raw = self._path.encode(sys.getfilesystemencoding(), "surrogateescape")
        if len(raw) <= MAX_SUN_PATH_BYTES:
            return raw
        folder, _, name = raw.rpartition(b"/")
        self._folder = posix.open(folder, posix.O_RDONLY | posix.O_DIRECTORY | posix.O_CLOEXEC)
        short = b"/proc/self/fd/%d/%s" % (self._folder, name)
        if len(short) > MAX_SUN_PATH_BYTES or not posix.access(short[: -len(name) - 1], posix.F_OK):
            self.__exit__()
            raise DaemonUnavailable(
                f"the socket path has {len(raw)} bytes, over the kernel's limit of {MAX_SUN_PATH_BYTES}: "
                "set SIDECAR_SOCKET to a shorter one"
            )
        return short

    def __exit__(self, *_: object) -> None:
        if self._folder >= 0:
            posix.close(self._folder)
            self._folder = -1
