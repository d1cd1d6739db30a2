"""Reading and replacing a user's own files: in one step, with mode and extended attributes kept, through links.

A dotfile may be a link into somebody's repository of dotfiles: the file behind it is replaced, and the link stays. What
is not a regular file, belongs to somebody else, has a second name (a hard link would be cut) or may not be written to
is refused.
"""

import os
import shutil
import stat
import tempfile
from dataclasses import dataclass

from sidecar.core.errors import UsageError
from sidecar.core.values import printable

MAX_BYTES = 4 << 20


@dataclass(frozen=True)
class Found:
    """A file as it is: its real path (links followed), its bytes (None = there is none), its mode."""

    path: str
    real: str
    data: bytes | None
    mode: int | None

    def text(self) -> str:
        """Raises UsageError for what is not UTF-8."""
        try:
            return (self.data or b"").decode()
        except UnicodeDecodeError as error:
            line = (self.data or b"").count(b"\n", 0, error.start) + 1
            raise UsageError(f"{printable(self.path)}: not UTF-8 (at line {line}); nothing was changed") from None


def look(path: str, within: str | None = None) -> Found:
    """The file at `path`. `within`: a folder that no link in it may lead out of. Raises UsageError."""
    real = os.path.realpath(path)
    if within is not None and _is_below(path, within) and not _is_below(real, os.path.realpath(within)):
        raise UsageError(f"{printable(path)}: a link leads out of the project, to {printable(real)}: not followed")
    try:
        descriptor = os.open(real, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW)
    except FileNotFoundError:
        if os.path.islink(path):
            raise UsageError(f"{printable(path)}: a link to {printable(real)}, which is not there") from None
        return Found(path, real, None, None)
    except OSError as error:
        raise UsageError(f"{printable(path)}: cannot be read: {error.strerror}") from None
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        raise UsageError(f"{printable(path)}: not a regular file")
    with open(descriptor, "rb") as file:
        if status.st_uid != os.getuid():
            raise UsageError(f"{printable(path)}: belongs to uid {status.st_uid}, not to you")
        if status.st_nlink > 1:
            raise UsageError(f"{printable(path)}: has {status.st_nlink} names (hard links), which a change would part")
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise UsageError(f"{printable(path)}: larger than {MAX_BYTES} bytes")
    return Found(path, real, data, stat.S_IMODE(status.st_mode))


def _is_below(path: str, folder: str) -> bool:
    return os.path.commonpath([path, folder]) == folder


def replace(found: Found, data: bytes, mode: int) -> None:
    """Put `data` in the place of what was `found`, at once; refused if that has changed since. Raises UsageError."""
    folder = os.path.dirname(found.real)
    scratch = None
    try:
        descriptor, scratch = tempfile.mkstemp(prefix=".sidecar-", dir=folder)
        with open(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            if found.data is not None:
                shutil.copystat(found.real, scratch)
                os.utime(scratch)
            os.chmod(scratch, found.mode if found.mode is not None else mode)
            os.fsync(descriptor)
        _still(found)
        os.rename(scratch, found.real)
        scratch = None
    except OSError as error:
        raise UsageError(f"{printable(found.path)}: cannot be written: {error.strerror}") from None
    finally:
        if scratch is not None:
            os.unlink(scratch)


def check_writable(path: str) -> None:
    """May the name at `path` be replaced, or its folders be made? Asked before anything is done. Raises UsageError."""
    folder = os.path.dirname(path)
    while not os.path.lexists(folder):
        folder = os.path.dirname(folder)
    if not os.path.isdir(folder):
        raise UsageError(f"{printable(path)}: {printable(folder)} is no folder; nothing was changed")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise UsageError(f"{printable(path)}: {printable(folder)} cannot be written to; nothing was changed")


def remove(found: Found) -> None:
    """Remove what was `found`; refused if that has changed since. Raises UsageError."""
    _still(found)
    try:
        os.unlink(found.real)
    except OSError as error:
        raise UsageError(f"{printable(found.path)}: cannot be removed: {error.strerror}") from None


def _still(found: Found) -> None:
    try:
        with open(found.real, "rb") as file:
            now: bytes | None = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        now = None
    if now != found.data:
        raise UsageError(f"{printable(found.path)}: somebody else has just changed it; nothing was done, try again")


def make_folders(path: str) -> list[str]:
    """Make the folders that `path` needs, 0700. Returns those that were made, outermost first. Raises UsageError."""
    missing = []
    folder = os.path.dirname(path)
    while not os.path.lexists(folder):
        missing.append(folder)
        folder = os.path.dirname(folder)
    made = []
    for each in reversed(missing):
        try:
            os.mkdir(each, 0o700)
        except FileExistsError:
            continue
        except OSError as error:
            raise UsageError(f"{printable(each)}: cannot be made: {error.strerror}") from None
        made.append(each)
    return made


def remove_folders(folders: list[str]) -> None:
    """Remove those of the folders that are empty, innermost first."""
    for folder in reversed(folders):
        try:
            os.rmdir(folder)
        except FileNotFoundError:
            continue
        except OSError:
            return
