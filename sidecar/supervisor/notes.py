"""The sidecar's own notes: what it could not do, for a human, in the file that SIDECAR_LOG names; else nowhere.

Never the command's streams, whatever goes wrong.
"""

import posix
import time


class Notes:
    def __init__(self, path: str | None) -> None:
        self._path = path

    def write(self, text: str) -> None:
        """One line, with the UTC time and our pid. A file that cannot be written is nobody's problem."""
        if not self._path:
            return
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        line = f"{stamp} supervisor[{posix.getpid()}]: {text}\n".encode("utf-8", "surrogateescape")
        try:
            flags = posix.O_WRONLY | posix.O_APPEND | posix.O_CREAT | posix.O_CLOEXEC | posix.O_NONBLOCK
            descriptor = posix.open(self._path, flags, 0o600)
        except (OSError, ValueError):
            return
        try:
            posix.write(descriptor, line)
        except OSError:
            pass
        finally:
            posix.close(descriptor)
