"""The spool's file: complete OTLP requests in an SQLite database (WAL), oldest first.

Each method is one transaction, so a process may be killed anywhere: what `add` returned from is in the file, and
stays there until `remove`. Errors are sqlite3.Error; `is_damaged` tells those that only a new file helps against.
Not for two threads at once; several processes may have the file open.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import sqlite3
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sidecar.core.errors import SpoolUnavailable
from sidecar.telemetry.spool_clock import Moment
from sidecar.telemetry.spool_holder import Holder
from sidecar.telemetry.spool_place import LOCK_SUFFIX, identity, private_file, private_folder

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_VERSION = 1
_BUSY_S = 0.25
_WAL_PAGES = 256
_WAL_BYTES = 1 << 20
_ASIDE_SUFFIX = ".damaged"

# Totals are kept by triggers: to count the rows would read the whole file.
_SCHEMA = """
CREATE TABLE request (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    signal TEXT NOT NULL,
    destination TEXT NOT NULL,
    holder INTEGER NOT NULL,
    boot TEXT NOT NULL,
    boot_ns INTEGER NOT NULL,
    unix_ns INTEGER NOT NULL,
    records INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    body BLOB NOT NULL
);
CREATE INDEX request_by_holder ON request (holder, signal, destination, id);
CREATE TABLE total (
    signal TEXT NOT NULL,
    destination TEXT NOT NULL,
    requests INTEGER NOT NULL,
    records INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    PRIMARY KEY (signal, destination)
) WITHOUT ROWID;
CREATE TRIGGER added AFTER INSERT ON request BEGIN
    INSERT INTO total VALUES (new.signal, new.destination, 1, new.records, new.bytes)
    ON CONFLICT (signal, destination) DO UPDATE SET
        requests = requests + 1, records = records + new.records, bytes = bytes + new.bytes;
END;
CREATE TRIGGER removed AFTER DELETE ON request BEGIN
    UPDATE total SET requests = requests - 1, records = records - old.records, bytes = bytes - old.bytes
    WHERE signal = old.signal AND destination = old.destination;
    DELETE FROM total WHERE signal = old.signal AND destination = old.destination AND requests = 0;
END;
"""

_CORRUPT_CODES = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR)


@dataclass(frozen=True, slots=True)
class Request:
    """One request of the spool. `body` is the serialized protobuf message, `records` the spans or logs in it."""

    id: int
    records: int
    body: bytes


@dataclass(frozen=True, slots=True)
class Total:
    """What waits of one signal for one destination."""

    signal: str
    destination: str
    requests: int
    records: int
    bytes: int


class SpoolFile:
    """The file at `path`, opened or made. Raises SpoolUnavailable, or sqlite3.Error for what is inside.

    With `create` False a missing file is not made.
    """

    def __init__(self, path: str, *, create: bool = True) -> None:
        self._path = path
        if create:
            private_folder(os.path.dirname(path))
        # SQLite itself would follow a link, and make its files as open as this one is.
        os.close(private_file(path, create=create))
        self.identity = identity(path)
        self._database = sqlite3.connect(path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False)
        try:
            self._prepare()
            self._holder = Holder(path)
        except BaseException:
            self._database.close()
            raise
        self._holder.sweep()

    def is_current(self) -> bool:
        """Whether the file is still the one at its path: it may have been removed or moved aside."""
        return identity(self._path) == self.identity

    def add(self, signal: str, destination: str, body: bytes, records: int, now: Moment, max_bytes: int) -> list[Total]:
        """Add a request at the end. Returns what was dropped from the front for want of room, one line a request."""
        with self._transaction():
            dropped = self._make_room(max_bytes - len(body))
            self._database.execute(
                "INSERT INTO request (signal, destination, holder, boot, boot_ns, unix_ns, records, bytes, body) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    *(signal, destination, self._holder.number, now.boot, now.boot_ns, now.unix_ns),
                    *(records, len(body), body),
                ),
            )
        return dropped

    def oldest(self, signal: str, destination: str, max_requests: int) -> list[Request]:
        """Our oldest requests."""
        rows = self._database.execute(
            "SELECT id, records, body FROM request "
            "WHERE holder = ? AND signal = ? AND destination = ? ORDER BY id LIMIT ?",
            (self._holder.number, signal, destination, max_requests),
        )
        return [Request(*row) for row in rows]

    def remove(self, ids: Iterable[int]) -> None:
        with self._transaction():
            self._database.executemany("DELETE FROM request WHERE id = ?", ((number,) for number in ids))

    def expire(self, now: Moment, max_age_ns: int) -> list[Total]:
        """Drop what is older than `max_age_ns`; returns it, one line a request."""
        expired, unknown = [], []
        with self._transaction():
            # Ids grow with time, so the first that is young enough ends the search. What is from the future (the
            # clock was wrong, in another boot) gets its age from now on, and does not end it.
            rows = self._database.execute(
                "SELECT id, boot, boot_ns, unix_ns, signal, destination, records, bytes FROM request ORDER BY id"
            )
            for number, boot, boot_ns, unix_ns, signal, destination, records, size in rows:
                if boot != now.boot and unix_ns > now.unix_ns:
                    unknown.append((now.boot, now.boot_ns, now.unix_ns, number))
                elif now.age_ns(Moment(boot, boot_ns, unix_ns)) > max_age_ns:
                    expired.append((number, Total(signal, destination, 1, records, size)))
                else:
                    break
            rows.close()
            self._database.executemany("UPDATE request SET boot = ?, boot_ns = ?, unix_ns = ? WHERE id = ?", unknown)
            self._database.executemany("DELETE FROM request WHERE id = ?", ((number,) for number, _ in expired))
        return [total for _, total in expired]

    def adopt(self, signal: str, destination: str, *, from_anywhere: bool = False) -> int:
        """Take over what dead holders have left for us; returns how many requests.

        With `from_anywhere` also what was meant for another destination: it goes to `destination` then.
        """
        adopted = 0
        for number in list(self._other_holders()):
            if self._holder.is_alive(number):
                continue
            with self._transaction():
                adopted += self._adopt_from(number, signal, destination, from_anywhere=from_anywhere)
        return adopted

    def totals(self) -> list[Total]:
        """What waits, by signal and destination, whoever holds it."""
        rows = self._database.execute(
            "SELECT signal, destination, requests, records, bytes FROM total ORDER BY signal, destination"
        )
        return [Total(*row) for row in rows]

    def oldest_age_ns(self, now: Moment) -> int | None:
        """How old the oldest request is; None where there is none."""
        row = self._database.execute("SELECT boot, boot_ns, unix_ns FROM request ORDER BY id LIMIT 1").fetchone()
        return None if row is None else now.age_ns(Moment(*row))

    def clear(self) -> list[Total]:
        """Remove everything; returns what there was."""
        with self._transaction():
            totals = self.totals()
            self._database.execute("DELETE FROM request")
        self.shrink()
        return totals

    def shrink(self) -> None:
        """Give the disk back what the requests took that are gone."""
        (pages,) = self._database.execute("PRAGMA freelist_count").fetchone()
        if pages > _WAL_PAGES:
            self._database.execute("PRAGMA incremental_vacuum").fetchall()
            self.checkpoint()

    def checkpoint(self) -> None:
        """Move what the log (-wal) has into the database, and let go of its disk: it may be several times as large."""
        self._database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def close(self) -> None:
        """What is not removed is adopted by whoever opens the file next."""
        try:
            self._database.close()
        finally:
            self._holder.close()

    def _prepare(self) -> None:
        execute = self._database.execute
        (version,) = execute("PRAGMA user_version").fetchone()
        if version > _VERSION:
            raise SpoolUnavailable(f"{self._path} was written by a newer sidecar; move it away")
        if version == 0:
            # Only heeded in a database that is still empty.
            execute("PRAGMA auto_vacuum = INCREMENTAL")
        execute("PRAGMA journal_mode = WAL").fetchone()
        # A crash of the machine may cost the last moments, never the file; a crash of the process costs nothing.
        execute("PRAGMA synchronous = NORMAL")
        execute(f"PRAGMA wal_autocheckpoint = {_WAL_PAGES}").fetchone()
        execute(f"PRAGMA journal_size_limit = {_WAL_BYTES}").fetchone()
        if version == 0:
            with self._transaction():
                (version,) = execute("PRAGMA user_version").fetchone()
                if version == 0:
                    for statement in _statements():
                        execute(statement)
                    execute(f"PRAGMA user_version = {_VERSION}")

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        self._database.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._database.execute("COMMIT")
        except BaseException:
            if self._database.in_transaction:
                with contextlib.suppress(sqlite3.Error):
                    self._database.execute("ROLLBACK")
            raise

    def _make_room(self, max_bytes: int) -> list[Total]:
        (used,) = self._database.execute("SELECT coalesce(sum(bytes), 0) FROM total").fetchone()
        dropped: list[Total] = []
        if used <= max_bytes:
            return dropped
        rows = self._database.execute("SELECT id, signal, destination, records, bytes FROM request ORDER BY id")
        ids = []
        for number, signal, destination, records, size in rows:
            if used <= max_bytes:
                break
            used -= size
            ids.append((number,))
            dropped.append(Total(signal, destination, 1, records, size))
        rows.close()
        self._database.executemany("DELETE FROM request WHERE id = ?", ids)
        return dropped

    def _other_holders(self) -> Iterator[int]:
        last = -1
        while True:
            row = self._database.execute(
                "SELECT holder FROM request WHERE holder > ? ORDER BY holder LIMIT 1", (last,)
            ).fetchone()
            if row is None:
                return
            last = row[0]
            if last != self._holder.number:
                yield last

    def _adopt_from(self, number: int, signal: str, destination: str, *, from_anywhere: bool) -> int:
        if not from_anywhere:
            return self._database.execute(
                "UPDATE request SET holder = ? WHERE holder = ? AND signal = ? AND destination = ?",
                (self._holder.number, number, signal, destination),
            ).rowcount
        # Not an update of the destination, which the totals know nothing of.
        self._database.execute(
            "CREATE TEMP TABLE IF NOT EXISTS moved AS SELECT * FROM request LIMIT 0",
        )
        self._database.execute("DELETE FROM moved")
        self._database.execute(
            "INSERT INTO moved SELECT * FROM request WHERE holder = ? AND signal = ?", (number, signal)
        )
        self._database.execute("DELETE FROM request WHERE id IN (SELECT id FROM moved)")
        return self._database.execute(
            "INSERT INTO request SELECT id, signal, ?, ?, boot, boot_ns, unix_ns, records, bytes, body FROM moved",
            (destination, self._holder.number),
        ).rowcount


def is_damaged(error: sqlite3.Error) -> bool:
    """Whether the file is no (sound) spool, so that only a new one helps."""
    code = getattr(error, "sqlite_errorcode", None)
    if code is None:
        return False
    return code & 0xFF in _CORRUPT_CODES or code == sqlite3.SQLITE_IOERR_SHORT_READ


def is_full(error: sqlite3.Error) -> bool:
    """Whether there was no room on the disk."""
    return getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL


def move_aside(path: str, damaged: tuple[int, int] | None) -> str | None:
    """Move the file out of the way, if it still is the one that is `damaged`; returns where it is now.

    None where another process has done it already. One such file is kept, the latest. Raises SpoolUnavailable.
    """
    lock = private_file(path + LOCK_SUFFIX, create=True)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if damaged is None or identity(path) != damaged:
            return None
        aside = path + _ASIDE_SUFFIX
        os.rename(path, aside)
        for suffix in ("-wal", "-shm"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path + suffix)
    except OSError as error:
        raise SpoolUnavailable(f"cannot move {path} aside: {error.strerror}") from None
    finally:
        os.close(lock)
    return aside


def _statements() -> Iterator[str]:
    """The schema, statement by statement: sqlite3's executescript would commit our transaction."""
    statement = ""
    for line in _SCHEMA.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
