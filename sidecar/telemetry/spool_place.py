"""Where the spool is, and whether that place may be trusted: a private folder, a private file, no links.

What waits in the spool names programs, sessions and traces, so it is nobody else's to read; and a link in its
place would have us write somewhere else.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING

from sidecar.core.errors import SpoolUnavailable

if TYPE_CHECKING:
    from collections.abc import Mapping

SPOOL_NAME = "spool.db"
LOCK_SUFFIX = ".lock"


def default_path(environ: Mapping[str, str]) -> str | None:
    """$XDG_STATE_HOME/sidecar/spool.db or ~/.local/state/sidecar/spool.db; None without a home.

    A relative path is ignored, as the XDG base directory specification says.
    """
    state = environ.get("XDG_STATE_HOME", "")
    if not state.startswith("/"):
        home = environ.get("HOME", "")
        if not home.startswith("/"):
            return None
        state = f"{home.rstrip('/')}/.local/state"
    return f"{state.rstrip('/')}/sidecar/{SPOOL_NAME}"


def private_folder(folder: str) -> None:
    """Make sure that `folder` is a folder of ours, 0700, and no link. Raises SpoolUnavailable."""
    try:
        os.makedirs(folder, 0o700, exist_ok=True)
        status = os.lstat(folder)
    except OSError as error:
        raise SpoolUnavailable(f"cannot make the folder {folder}: {error.strerror}") from None
    if not stat.S_ISDIR(status.st_mode):
        raise SpoolUnavailable(f"{folder} is a link or no folder; the spool follows no links")
    if status.st_uid != os.getuid():
        raise SpoolUnavailable(f"{folder} belongs to uid {status.st_uid}, not to you")
    if status.st_mode & 0o077:
        raise SpoolUnavailable(f"{folder} is open to others; chmod 700 it")


def private_file(path: str, *, create: bool, writable: bool = True) -> int:
    """A descriptor of the regular file at `path`, which is ours, 0600 and has no second name; close it.

    Raises SpoolUnavailable, also where it does not exist and `create` is False. For who only reads (not `writable`) a
    mode that cannot be changed, on a read-only disk, is as it is.
    """
    flags = (os.O_RDWR if writable else os.O_RDONLY) | (os.O_CREAT if create else 0)
    try:
        descriptor = os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
    except FileNotFoundError:
        raise SpoolUnavailable(f"{path} does not exist") from None
    except OSError as error:
        why = "it is a link, and the spool follows no links" if error.errno == errno.ELOOP else error.strerror
        raise SpoolUnavailable(f"cannot open {path}: {why}") from None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
            raise SpoolUnavailable(f"{path} is no plain file; the spool follows no links")
        if status.st_uid != os.getuid():
            raise SpoolUnavailable(f"{path} belongs to uid {status.st_uid}, not to you")
        if status.st_mode & 0o077:
            _close_to_others(descriptor, path, writable=writable)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _close_to_others(descriptor: int, path: str, *, writable: bool) -> None:
    try:
        os.fchmod(descriptor, 0o600)
    except OSError as error:
        if writable:
            raise SpoolUnavailable(f"{path} is open to others; chmod 600 it ({error.strerror})") from None


def identity(path: str) -> tuple[int, int] | None:
    """(device, inode) of what is at `path` now; None where there is nothing."""
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino
