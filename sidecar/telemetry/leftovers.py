"""Frames of commands whose telemetry could not even be loaded in time: left beside the spool, for the next process.

An inline command has a budget for its end, and on a busy machine OpenTelemetry is not imported by then. To write a
small file takes a tenth of a millisecond and no import. Whoever exports next (a daemon, another inline command,
`sidecar spool flush`) makes the spans of it.

One file a command, lines as they are on the wire. Light: no sqlite3, no OpenTelemetry.
"""

from __future__ import annotations

import fcntl
import os
import stat
import time
from typing import TYPE_CHECKING

from sidecar.core.errors import SpoolUnavailable
from sidecar.telemetry.spool_place import private_file, private_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

MAX_FILES = 1000
MAX_FILE_BYTES = 1 << 20
_SUFFIX = ".frames-"
_HALF = ".new"
_STALE_S = 600.0
"""A file that its writer is not done with by then never will be whole."""


def leave(spool_path: str, lines: Iterable[bytes]) -> bool:
    """Leave the frames of one command, each a line with its end. False where that cannot be done; never raises."""
    content = b"".join(lines)[:MAX_FILE_BYTES]
    final = f"{spool_path}{_SUFFIX}{os.urandom(8).hex()}"
    try:
        private_folder(os.path.dirname(spool_path))
        if len(files(spool_path)) >= MAX_FILES:
            return False
        # Under another name until it is whole.
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(f"{final}{_HALF}", flags, 0o600)
        try:
            os.write(descriptor, content)
        finally:
            os.close(descriptor)
        os.rename(f"{final}{_HALF}", final)
    except (OSError, SpoolUnavailable):
        return False
    return True


def files(spool_path: str) -> list[str]:
    """The paths of what was left, in no order."""
    folder, _, name = spool_path.rpartition("/")
    try:
        entries = os.listdir(folder)
    except OSError:
        return []
    return [f"{folder}/{entry}" for entry in entries if entry.startswith(name + _SUFFIX) and "." not in entry[-16:]]


class Taken:
    """What was fed to somebody, and is still there, held by a lock: `remove` it once it is safe where it went.

    `len` is the number of commands. Where the process is killed before, the next one takes them.
    """

    def __init__(self) -> None:
        self._held: list[tuple[str, int]] = []

    def __len__(self) -> int:
        return len(self._held)

    def add(self, path: str, descriptor: int) -> None:
        self._held.append((path, descriptor))

    def remove(self) -> None:
        for path, _ in self._held:
            _unlink(path)
        self.let_go()

    def let_go(self) -> None:
        """Leave them to the next one."""
        held, self._held = self._held, []
        for _, descriptor in held:
            os.close(descriptor)


def take(spool_path: str, feed: Callable[[list[bytes]], None], at_most: int) -> Taken:
    """Give the frames of up to `at_most` commands to `feed`. Each goes to one process at a time, at least once.

    What is there under such a name and is no file of frames (a link, say) is removed, and what was never finished.
    """
    _remove_unfinished(spool_path)
    taken = Taken()
    for path in files(spool_path):
        if len(taken) >= at_most:
            break
        try:
            descriptor = private_file(path, create=False)
        except SpoolUnavailable:
            _remove_useless(path)  # or another process was faster
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            content = os.read(descriptor, MAX_FILE_BYTES)
            # Somebody else may have done with it between our open and our lock.
            if os.fstat(descriptor).st_nlink:
                feed(content.splitlines(keepends=True))
                taken.add(path, descriptor)
                continue
        except OSError:
            pass
        os.close(descriptor)
    return taken


def clear(spool_path: str) -> int:
    """Remove what was left; returns of how many commands."""
    taken = take(spool_path, lambda lines: None, MAX_FILES)
    count = len(taken)
    taken.remove()
    return count


def _remove_unfinished(spool_path: str) -> None:
    folder, _, name = spool_path.rpartition("/")
    try:
        entries = os.listdir(folder)
    except OSError:
        return
    for entry in entries:
        if entry.startswith(name + _SUFFIX) and entry.endswith(_HALF):
            try:
                age_s = time.time() - os.lstat(f"{folder}/{entry}").st_mtime
            except OSError:
                continue
            if not 0 <= age_s < _STALE_S:
                _unlink(f"{folder}/{entry}")


def _remove_useless(path: str) -> None:
    """Which we could not open: it would be looked at for ever, before those that can be."""
    try:
        status = os.lstat(path)
        if stat.S_ISREG(status.st_mode) and status.st_nlink == 1 and status.st_uid == os.getuid():
            if not status.st_mode & stat.S_IRUSR:
                os.chmod(path, 0o600)  # in a folder of ours alone, so it is no link by now; the next look opens it
            return
    except OSError:
        return
    _unlink(path)


def _unlink(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass  # gone, or a folder
