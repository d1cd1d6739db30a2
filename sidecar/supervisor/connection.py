"""A connection to the daemon by libc alone: `_socket` takes 0.25 ms to load, a fortieth of a short command.

Only in a folder that is ours alone: what listens there is ours, and nobody has to be asked who it is. Elsewhere, and
for whatever goes wrong, `sidecar.rendezvous` has the long way, and the reasons.
"""

import posix
import sys

from sidecar.core.errors import DaemonUnavailable
from sidecar.places import private_folder
from sidecar.supervisor import libc

_MAX_SUN_PATH_BYTES = 107
_AF_UNIX = 1


class Connection:
    """A connected stream socket, non-blocking and close-on-exec: as much of socket.socket as a link uses."""

    __slots__ = ("_descriptor",)

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def fileno(self) -> int:
        return self._descriptor

    def send(self, data: "bytes | bytearray") -> int:
        """Bytes taken. Raises OSError, also BrokenPipeError: Python ignores SIGPIPE."""
        return posix.write(self._descriptor, data)

    def recv(self, size_bytes: int) -> bytes:
        return posix.read(self._descriptor, size_bytes)

    def close(self) -> None:
        if self._descriptor >= 0:
            posix.close(self._descriptor)
            self._descriptor = -1


def connect(path: str) -> Connection | None:
    """Connect to the daemon at `path`; None where that needs the long way, or fails there too."""
    raw = path.encode(sys.getfilesystemencoding(), "surrogateescape")
    if len(raw) > _MAX_SUN_PATH_BYTES or b"\0" in raw:
        return None
    try:
        private_folder(path, create=False)
    except DaemonUnavailable:
        return None
    descriptor = libc.unix_socket()
    if descriptor < 0:
        return None
    if not libc.connect(descriptor, _AF_UNIX.to_bytes(2, sys.byteorder) + raw + b"\0"):
        posix.close(descriptor)
        return None
    return Connection(descriptor)
