"""The file of the history: SQLite in WAL mode, private, bounded by a number of commands. Whoever opens it may be one of
several; a file that is broken is put aside and begun anew, and one that was taken away is too, since nothing depends on
what it says."""

import json
import os
import sqlite3
import time
from collections.abc import Iterable, Mapping
from contextlib import closing
from typing import Any, Final
from urllib.parse import quote

from sidecar.core.errors import SpoolUnavailable
from sidecar.telemetry import spool_place

Record = dict[str, Any]

HISTORY_NAME: Final = "history.db"
_BUSY_S: Final = 2.0
_AGAIN_S: Final = 0.01
_VERSION: Final = 1
_CANNOT_SHARE: Final = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY)
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS commands (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT UNIQUE NOT NULL,
    ended_unix_ms INTEGER NOT NULL,
    record TEXT NOT NULL
) STRICT;
"""


class HistoryUnavailable(SpoolUnavailable):
    """The file cannot be used: its folder is not ours, it is broken, or there is none. One line."""


def default_path(environ: Mapping[str, str]) -> str | None:
    """history.db beside the spool; None without a home."""
    spool = spool_place.default_path(environ)
    return None if spool is None else os.path.join(os.path.dirname(spool), HISTORY_NAME)


class History:
    """Opened at once. Raises HistoryUnavailable; every method may raise it too.

    `max_commands`: of more, those that ended first go. `read_only`: for who only looks; the file must be there, and
    nothing is written, so that it may be on a read-only disk. `missing` then says what of it could not be read, if so.
    """

    def __init__(self, path: str, max_commands: int, *, read_only: bool = False) -> None:
        self._path = path
        self._max_commands = max_commands
        self.missing: str | None = None
        self._connection = self._read() if read_only else self._open()
        self._identity = spool_place.identity(path)

    def add(self, ended: Iterable[tuple[int, Record]]) -> None:
        """Keep commands that have ended: when (Unix ms) and the record. What is there already stays as it was."""
        rows = [
            (record["commandId"], ended_unix_ms, json.dumps(record, separators=(",", ":")))
            for ended_unix_ms, record in ended
        ]
        if spool_place.identity(self._path) != self._identity:  # somebody has taken it away, or put it aside
            self._reopen()
        try:
            try:
                self._insert(rows)
            except sqlite3.DatabaseError as error:
                if not _is_broken(error):
                    raise
                self._connection.close()
                self._put_aside()
                self._reopen()
                self._insert(rows)
        except sqlite3.Error as error:
            raise HistoryUnavailable(f"cannot write {self._path}: {error}") from None

    def latest(self, limit: int) -> list[Record]:
        """The last `limit` commands to have ended, the latest first, each with `endUnixMs`."""
        return self._select("ORDER BY number DESC LIMIT ?", (limit,))

    def begins_with(self, prefix: str, limit: int) -> list[Record]:
        """Those whose id begins so, the latest first. Upper case is as lower case."""
        begins_so = "WHERE substr(id, 1, ?) = ? COLLATE NOCASE ORDER BY number DESC LIMIT ?"
        return self._select(begins_so, (len(prefix), prefix, limit))

    def of_trace(self, trace_id: str) -> list[Record]:
        """Those of a trace, the latest first. `trace_id`: 32 hex digits in lower case."""
        # Not json_extract, which an old SQLite may lack; and a program may be named like a line of a record.
        found = self._select("WHERE instr(record, ?) ORDER BY number DESC", (f'"traceId":"{trace_id}"',))
        return [record for record in found if record.get("traceId") == trace_id]

    def ids(self, since: str) -> list[str]:
        """All ids that are `since` in order, or behind."""
        try:
            with closing(self._connection.execute("SELECT id FROM commands WHERE id >= ?", (since,))) as rows:
                return [command_id for (command_id,) in rows]
        except sqlite3.Error as error:
            raise self._unreadable(error) from None

    def close(self) -> None:
        self._connection.close()

    def _select(self, rest: str, values: tuple[Any, ...]) -> list[Record]:
        try:
            query = f"SELECT ended_unix_ms, record FROM commands {rest}"  # noqa: S608 - `rest` is one of ours, above
            with closing(self._connection.execute(query, values)) as rows:
                return [{**json.loads(text), "endUnixMs": ended_unix_ms} for ended_unix_ms, text in rows]
        except (sqlite3.Error, ValueError) as error:
            raise self._unreadable(error) from None

    def _unreadable(self, error: Exception) -> HistoryUnavailable:
        then = "; the daemon puts it aside when the next command ends" if _is_broken(error) else ""
        if self.missing is not None:
            then = f"; {self.missing}"
        return HistoryUnavailable(f"cannot read {self._path}: {error}{then}")

    def _insert(self, rows: list[tuple[str, int, str]]) -> None:
        with self._connection:
            self._connection.executemany(
                "INSERT INTO commands (id, ended_unix_ms, record) VALUES (?, ?, ?) ON CONFLICT (id) DO NOTHING",
                rows,
            )
            self._connection.execute(
                "DELETE FROM commands WHERE number <= (SELECT max(number) FROM commands) - ?", (self._max_commands,)
            )

    def _read(self) -> sqlite3.Connection:
        if not os.path.exists(self._path):
            raise HistoryUnavailable(f"there is no history yet: {self._path} does not exist")
        self._private(create=False)
        try:
            return _connected_to_read(self._path)
        except sqlite3.Error as error:
            if _code(error) not in _CANNOT_SHARE:
                raise self._unreadable(error) from None
        # The -wal and -shm of a file that others may write to cannot be had here. Then nobody writes.
        wal = f"{self._path}-wal"
        if _size_bytes(wal):
            self.missing = (
                f"what ended last is missing: {wal} cannot be read where nothing may be written; "
                "name a copy of both files by SIDECAR_HISTORY"
            )
        try:
            return _connected_to_read(f"file:{quote(os.fsencode(self._path))}?immutable=1")
        except sqlite3.Error as error:
            raise self._unreadable(error) from None

    def _reopen(self) -> None:
        self._connection.close()
        self._connection = self._open()
        self._identity = spool_place.identity(self._path)

    def _open(self) -> sqlite3.Connection:
        self._private(create=True)
        try:
            return self._prepared_in_turn()
        except sqlite3.OperationalError as error:  # locked, full, read-only: not the file's fault
            raise HistoryUnavailable(f"cannot open {self._path}: {error}") from None
        except sqlite3.DatabaseError:
            self._put_aside()
            self._private(create=True)
        try:
            return self._prepared()
        except sqlite3.Error as error:
            raise HistoryUnavailable(f"cannot open {self._path}: {error}") from None

    def _put_aside(self) -> None:
        try:
            os.replace(self._path, f"{self._path}.broken")
            for suffix in ("-wal", "-shm"):
                if os.path.exists(self._path + suffix):
                    os.unlink(self._path + suffix)
        except OSError as error:
            raise HistoryUnavailable(f"{self._path} is broken; delete it ({error.strerror})") from None

    def _prepared_in_turn(self) -> sqlite3.Connection:
        """Whoever makes the file, or switches it to WAL, has it alone, and SQLite does not wait for that."""
        deadline_s = time.monotonic() + _BUSY_S
        while True:
            try:
                return self._prepared()
            except sqlite3.OperationalError as error:
                if _code(error) != sqlite3.SQLITE_BUSY or time.monotonic() >= deadline_s:
                    raise
                time.sleep(_AGAIN_S)

    def _prepared(self) -> sqlite3.Connection:
        connection = _connect(self._path)
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            # A power failure may cost the last seconds; they are worth less than a wait for the disk at each command.
            connection.execute("PRAGMA synchronous = NORMAL")
            if connection.execute("PRAGMA user_version").fetchone()[0] not in (0, _VERSION):
                raise sqlite3.DatabaseError("of another version")
            connection.executescript(f"{_SCHEMA} PRAGMA user_version = {_VERSION};")
            connection.execute("SELECT max(number) FROM commands").fetchone()
        except BaseException:
            connection.close()
            raise
        return connection

    def _private(self, *, create: bool) -> None:
        try:
            if create:
                spool_place.private_folder(os.path.dirname(self._path))
            os.close(spool_place.private_file(self._path, create=create, writable=create))
        except SpoolUnavailable as error:
            raise HistoryUnavailable(str(error).replace("the spool follows", "the history follows")) from None


def _is_broken(error: Exception) -> bool:
    return _code(error) in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def _code(error: Exception) -> int:
    # An error of Python's own has none.
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def _connect(path: str) -> sqlite3.Connection:
    return sqlite3.connect(path, timeout=_BUSY_S, check_same_thread=False, uri=path.startswith("file:"))


def _connected_to_read(path: str) -> sqlite3.Connection:
    """Only the first look at a table shows whether there can be one."""
    connection = _connect(path)
    try:
        connection.execute("PRAGMA query_only = ON")
        connection.execute("SELECT max(number) FROM commands").fetchone()
    except BaseException:
        connection.close()
        raise
    return connection


def _size_bytes(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0
