"""Frames of commands whose telemetry could not even be loaded in time: left beside the spool, for the next process.

An inline command has a budget for its end, and on a busy machine OpenTelemetry is not imported by then. To write a
small file takes a tenth of a millisecond and no import. Whoever exports next (a daemon, another inline command,
`sidecar spool flush`) makes the spans of it.

One file a command, lines as they are on the wire. Light: no sqlite3, no OpenTelemetry.
"""

from __future__ import annotations

import fcntl
import os
from typing import TYPE_CHECKING

from sidecar.core.errors import SpoolUnavailable
from sidecar.telemetry.spool_place import private_file, private_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

MAX_FILES = 1000
MAX_FILE_BYTES = 1 << 20
_SUFFIX = ".frames-"


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
        descriptor = os.open(f"{final}.new", flags, 0o600)
        try:
            os.write(descriptor, content)
        finally:
            os.close(descriptor)
        os.rename(f"{final}.new", final)
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


def take(spool_path: str, feed: Callable[[list[bytes]], None], at_most: int) -> int:
    """Give the frames of up to `at_most` commands to `feed`, and remove them; returns how many there were.

    Each goes to one process, at least once: the file is removed when `feed` has returned.
    """
    taken = 0
    for path in files(spool_path)[:at_most]:
        try:
            descriptor = private_file(path, create=False)
        except SpoolUnavailable:
            continue  # another process was faster, or it is none of ours
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            content = os.read(descriptor, MAX_FILE_BYTES)
            # Somebody else may have done with it between our open and our lock.
            if os.fstat(descriptor).st_nlink:
                feed(content.splitlines(keepends=True))
                os.unlink(path)
                taken += 1
        except OSError:
            continue
        finally:
            os.close(descriptor)
    return taken


def clear(spool_path: str) -> int:
    """Remove what was left; returns of how many commands."""
    return take(spool_path, lambda lines: None, MAX_FILES)
