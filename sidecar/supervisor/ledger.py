"""A command's entry in the ledger: that it is about to run, and how it ended, in a file that outlives everybody.

Frames are in nobody's hands for a moment: a daemon is killed with them unread in its socket, or read and not yet
spooled; a supervisor is killed before it has announced its command. So the frame of the start is written to a file
before the spawn, and those of the start and the end again when they are made. The daemon removes the file once what
it tells is in the spool, and takes the file up itself where the frames never came (sidecar/daemon/ledger.py).

One file a command, named by its id, in the folder beside the socket; lines as they are on the wire. Whoever writes it
holds a lock of fcntl(2) on it, which the kernel lets go of when that process ends, and which no child inherits.

Light: loaded before the spawn. To write an entry is 10 us on a tmpfs, 40 us on a disk.
"""

import posix

from sidecar.core.errors import DaemonUnavailable
from sidecar.places import ledger_folder, private_folder

MAX_ENTRIES = 1000
"""So many may wait where no daemon can be had. What runs is not limited."""


class Entry:
    """The file of one command that is being supervised. Nothing here raises: it is a net, and no promise."""

    __slots__ = ("_descriptor", "_path")

    def __init__(self, descriptor: int, path: str) -> None:
        self._descriptor = descriptor
        self._path = path

    def add(self, line: bytes) -> None:
        try:
            posix.write(self._descriptor, line)
        except OSError:
            pass

    def replace(self, line: bytes) -> None:
        """There is nothing else to tell of this command."""
        try:
            posix.ftruncate(self._descriptor, 0)
            posix.lseek(self._descriptor, 0, 0)
        except OSError:
            return
        self.add(line)

    def remove(self) -> None:
        """Somebody else has it all. Gives the descriptor back too: there may be no other."""
        if self._descriptor < 0:
            return
        try:
            posix.unlink(self._path)
        except OSError:
            pass
        posix.close(self._descriptor)
        self._descriptor = -1

    def remove_if_crowded(self) -> None:
        """Nobody may ever come for it."""
        try:
            if len(posix.listdir(self._path.rpartition("/")[0])) > MAX_ENTRIES:
                self.remove()
        except OSError:
            pass


def enter(socket: str, command_id: str, line: bytes) -> Entry | None:
    """Begin the entry of a command with one line; None where that cannot be (read-only, no descriptor, no lock)."""
    path = f"{ledger_folder(socket)}/{command_id}"
    try:
        _make_sure(path, socket)
        flags = posix.O_WRONLY | posix.O_CREAT | posix.O_EXCL | posix.O_CLOEXEC | posix.O_NOFOLLOW
        descriptor = posix.open(path, flags, 0o600)
    except (OSError, ValueError, DaemonUnavailable):
        return None
    try:
        posix.lockf(descriptor, posix.F_TLOCK, 0)
        posix.fchmod(descriptor, 0o600)  # whatever the umask is
        posix.write(descriptor, line)
    except OSError:
        # Without the lock a daemon would take it for what a dead one has left.
        posix.close(descriptor)
        try:
            posix.unlink(path)
        except OSError:
            pass
        return None
    return Entry(descriptor, path)


def _make_sure(path: str, socket: str) -> None:
    """That the folder is there and ours. Raises DaemonUnavailable."""
    try:
        private_folder(path, create=False)
    except DaemonUnavailable:
        private_folder(socket)
        private_folder(path)
