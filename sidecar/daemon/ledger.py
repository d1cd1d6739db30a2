"""The ledger, read: what supervisors have written of their commands, for whoever can tell of it after them.

See sidecar/supervisor/ledger.py for what is in it, and when. One daemon at a time takes up what is there: it holds a
lock for that, and one that is about to end has first put into the spool what it was told.
"""

import fcntl
import os
import stat
from collections.abc import Callable, Iterable
from typing import Any, Final

from sidecar import places
from sidecar.core import frame as wire
from sidecar.core.errors import DaemonUnavailable, FrameError

Frame = dict[str, Any]

_LOCK_NAME: Final = "lock"
_MAX_BYTES: Final = 4 * wire.MAX_FRAME_BYTES
_PATIENCE_NS: Final = 1_000_000_000
"""So long after its supervisor a command's frames may still come out of a socket."""
_TAKEN_AT_ONCE: Final = 256


class Ledger:
    """The entries of the commands whose daemon is at `socket_path`. Raises nothing; belongs to one thread."""

    def __init__(self, socket_path: str) -> None:
        self.folder = places.ledger_folder(socket_path)
        self._lock: int | None = None
        self._left_since_ns: dict[str, int] = {}

    def orphans(self, is_known: Callable[[str], bool], now_ns: int) -> list[tuple[str, list[Frame]]]:
        """(command id, its frames) of the entries whose supervisor is gone, and whose frames have not come.

        A few at a time; none while another daemon may still tell of them. `is_known` says of a command id whether
        its frames have come. What is no entry of ours is removed.
        """
        if not self._holds_lock():
            return []
        found: list[tuple[str, list[Frame]]] = []
        left: dict[str, int] = {}
        for name in self._names():
            if is_known(name):
                continue
            frames = self._of_the_dead(name)
            if frames is None:
                continue
            left[name] = self._left_since_ns.get(name, now_ns)
            if now_ns - left[name] < _PATIENCE_NS:
                continue
            if not frames:
                self.remove([name])  # killed before the first line was whole, or of another version
            elif len(found) < _TAKEN_AT_ONCE:
                found.append((name, frames))
        self._left_since_ns = left
        return found

    def frames(self, command_id: str) -> list[Frame]:
        """What the entry of a command says: its start, and its end if that was written. Empty where there is none."""
        try:
            descriptor = os.open(self._path(command_id), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        except (OSError, ValueError):
            return []
        try:
            return _frames(os.read(descriptor, _MAX_BYTES), command_id)
        except OSError:
            return []
        finally:
            os.close(descriptor)

    def remove(self, command_ids: Iterable[str]) -> None:
        for command_id in command_ids:
            try:
                os.unlink(self._path(command_id))
            except (OSError, ValueError):
                continue

    def close(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _path(self, command_id: str) -> str:
        if "/" in command_id or command_id in ("", ".", "..", _LOCK_NAME):
            raise ValueError("no command id")
        return f"{self.folder}/{command_id}"

    def _names(self) -> list[str]:
        try:
            return sorted(name for name in os.listdir(self.folder) if name != _LOCK_NAME)  # by time: they are UUIDv7
        except OSError:
            return []

    def _of_the_dead(self, name: str) -> list[Frame] | None:
        """The frames of an entry that nobody holds; None for one that is held, gone, or no entry.

        Empty also where a supervisor has made the file this instant, and is about to lock it and to write.
        """
        path = self._path(name)
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        except FileNotFoundError:
            return None
        except OSError:
            self.remove([name])  # a link, a folder (which stays), another's: in a folder that is ours alone
            return None
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                self.remove([name])
                return None
            os.lockf(descriptor, os.F_TEST, 0)
            return _frames(os.read(descriptor, _MAX_BYTES), name)
        except OSError:
            return None  # its supervisor lives
        finally:
            os.close(descriptor)

    def _holds_lock(self) -> bool:
        if self._lock is not None:
            return True
        descriptor = None
        try:
            places.private_folder(f"{self.folder}/{_LOCK_NAME}", create=False)
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            descriptor = os.open(f"{self.folder}/{_LOCK_NAME}", flags, 0o600)
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (OSError, DaemonUnavailable):
            if descriptor is not None:
                os.close(descriptor)
            return False
        self._lock = descriptor
        return True


def _frames(content: bytes, command_id: str) -> list[Frame]:
    """The last start and the last end in it: what was written later knows more."""
    last: dict[str, Frame] = {}
    for line in content.splitlines(keepends=True):
        try:
            frame = wire.parse(line)
        except FrameError:
            continue  # torn by a kill, or by a full disk
        if frame is not None and frame["commandId"] == command_id:
            last[str(frame["type"])] = frame
    start, end = last.get(wire.STARTED), last.get(wire.SETTLED)
    if start is not None and start["pid"] == 0:
        del start["pid"]  # written before the spawn
    return [frame for frame in (start, end) if frame is not None]
