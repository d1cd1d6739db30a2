"""Who sends what: each process that has the spool open is a holder, and each request in it has one.

A holder is a number with a file beside the spool that its process keeps locked (flock(2)). The kernel lets go of
the lock when the process ends, however it ends, and no clock is asked. So exactly one living process sends a request,
and what a dead one has left is adopted by the next that looks.
"""

from __future__ import annotations

import fcntl
import os
import sys
from typing import TYPE_CHECKING

from sidecar.core.errors import SpoolUnavailable
from sidecar.telemetry.spool_place import identity

if TYPE_CHECKING:
    from collections.abc import Iterator

_TRIES = 10


class Holder:
    """This process, as one that sends from the spool at `path`. Raises SpoolUnavailable."""

    def __init__(self, path: str) -> None:
        self._path = path
        for _ in range(_TRIES):
            # SQLite's integers have 63 bits.
            self.number = int.from_bytes(os.urandom(8), sys.byteorder) >> 2
            self._file = _file_of(path, self.number)
            try:
                self._descriptor = os.open(self._file, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
                fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(self._descriptor)
            except OSError as error:
                raise SpoolUnavailable(f"cannot lock {self._file}: {error.strerror}") from None
            else:
                # Somebody who swept may have come between the two calls, and unlinked it.
                if identity(self._file) is not None:
                    return
                os.close(self._descriptor)
        raise SpoolUnavailable(f"cannot lock a file beside {path}")

    def is_alive(self, number: int) -> bool:
        """Whether the process of that holder lives."""
        return number == self.number or not _let_go(_file_of(self._path, number))

    def sweep(self) -> None:
        """Remove what dead holders have left beside the spool."""
        for name in list(_files(self._path)):
            if name != self._file:
                _let_go(name)

    def close(self) -> None:
        """What we still hold is anybody's from now on."""
        try:
            os.unlink(self._file)
        except OSError:
            pass
        os.close(self._descriptor)


def _file_of(path: str, number: int) -> str:
    return f"{path}.holder-{number:016x}"


def _files(path: str) -> Iterator[str]:
    folder, _, name = path.rpartition("/")
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.startswith(f"{name}.holder-"):
                    yield entry.path
    except OSError:
        return


def _let_go(file: str) -> bool:
    """Whether nobody has `file` locked; it is removed then."""
    try:
        descriptor = os.open(file, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.unlink(file)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True
