"""What `sidecar setup` did: a record and the backups, in the user's state folder, so that it can be undone.

    $XDG_STATE_HOME/sidecar/setup/<label>/      the label: Places.label
        record.json     {"v": 1, "agent", "scope", "project", "files": [...]}
        0.before ...    the bytes of a file as they were
One lock, `lock`, is held for as long as anything is changed, and goes with the last record.
"""

import fcntl
import hashlib
import json
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from typing import Any

from sidecar.agents import files
from sidecar.agents.places import Places
from sidecar.core.errors import UsageError
from sidecar.core.values import printable

VERSION = 1
_LOCK_WAIT_S = 10.0
_LOCK_POLL_S = 0.05
_FILE = "record.json"


@dataclass
class Entry:
    """One path. `backup`: the file with its bytes of before, None = there was none. `digest`: SHA-256 of what we left.

    `made`: the folders that were made for it, outermost first. `kind`: of the edit, the name of its class.
    """

    path: str
    backup: str | None
    digest: str
    made: list[str] = field(default_factory=list)
    kind: str = ""


@dataclass
class Record:
    folder: str
    agent: str
    scope: str
    project: str | None
    files: list[Entry] = field(default_factory=list)

    def entry(self, path: str) -> Entry | None:
        return next((each for each in self.files if each.path == path), None)

    def before(self, entry: Entry) -> bytes | None:
        """The bytes of before; raises UsageError if the backup is gone."""
        if entry.backup is None:
            return None
        try:
            with open(os.path.join(self.folder, entry.backup), "rb") as file:
                return file.read()
        except OSError as error:
            raise UsageError(f"{printable(entry.path)}: its backup cannot be read: {error.strerror}") from None

    def keep(self, path: str, kind: str, before: bytes | None, after: bytes, made: list[str]) -> None:
        """Write down, before it is done, that `before` becomes `after`. Raises UsageError."""
        old = self.entry(path)
        number = self.files.index(old) if old is not None else len(self.files)
        backup = None if before is None else f"{number}.before"
        entry = Entry(path, backup, digest(after), made or (old.made if old is not None else []), kind)
        if before is not None:
            _write(os.path.join(self.folder, f"{number}.before"), before)
        if old is not None:
            self.files[number] = entry
        else:
            self.files.append(entry)
        self.save()

    def save(self) -> None:
        content = {"v": VERSION, **{name: value for name, value in asdict(self).items() if name != "folder"}}
        _write(os.path.join(self.folder, _FILE), json.dumps(content, indent=2).encode())

    def drop(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def load(places: Places, agent: str, scope: str) -> Record:
    """The record, empty where there is none. Raises UsageError for one that is not understood."""
    folder = os.path.join(places.state, places.label(agent, scope))
    record = Record(folder, agent, scope, None if scope == "user" else places.project)
    path = os.path.join(folder, _FILE)
    try:
        with open(path, "rb") as file:
            content = json.loads(file.read())
        if content["v"] != VERSION:
            raise UsageError(f"{printable(path)}: of version {content['v']}: made by a newer sidecar; use that one")
        record.files = [_entry(each) for each in content["files"]]
    except FileNotFoundError:
        pass
    except OSError as error:
        raise UsageError(f"{printable(path)}: cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise UsageError(f"{printable(path)}: not a record of `sidecar setup`; remove its folder to go on") from None
    return record


def _entry(content: Any) -> Entry:
    entry = Entry(
        content["path"], content["backup"], content["digest"], list(content["made"]), str(content.get("kind", ""))
    )
    if not isinstance(entry.path, str) or not isinstance(entry.digest, str) or "/" in (entry.backup or ""):
        raise ValueError
    return entry


@contextmanager
def locked(state: str) -> Iterator[None]:
    """Hold the lock of all setups of this user. Raises UsageError where it cannot be had in time.

    Where no record is left at the end, the lock goes, with the folders around it that are empty.
    """
    path = os.path.join(state, "lock")
    deadline = time.monotonic() + _LOCK_WAIT_S
    while (descriptor := _lock(path, is_last=time.monotonic() > deadline)) is None:
        if time.monotonic() > deadline:
            raise UsageError("another `sidecar setup` is at work; try again when it is done")
        time.sleep(_LOCK_POLL_S)
    try:
        yield
    finally:
        with suppress(OSError):
            if os.listdir(state) == ["lock"]:
                os.unlink(path)
                # Not further: the folder above is the state folder of XDG, which is not ours.
                files.remove_folders([os.path.dirname(state), state])
        os.close(descriptor)


def _lock(path: str, *, is_last: bool) -> int | None:
    """The lock, as an open descriptor; None while somebody else has it, or has just taken it or its folder away."""
    try:
        files.make_folders(path)
    except UsageError as error:
        if is_last or not isinstance(error.__context__, FileNotFoundError):
            raise
        return None
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UsageError(f"{printable(os.path.dirname(path))}: no backup can be kept there: {error.strerror}") from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(descriptor), os.stat(path)):
            return descriptor
    except (BlockingIOError, FileNotFoundError):
        pass
    os.close(descriptor)
    return None


def _write(path: str, data: bytes) -> None:
    files.make_folders(path)
    files.replace(files.look(path), data, 0o600)
