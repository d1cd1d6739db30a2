"""What is to be sent and has not been taken yet: on disk, and in memory where the disk will not have it.

A request is added before it is first sent and removed when it was taken, so that a process may be killed at any
point: what `add` returned from arrives at least once. Nothing here raises or waits for longer than a moment: a disk
that is full, a file that somebody has locked or damaged, a folder that is not ours are problems to be told, and the
requests are kept in memory meanwhile, within bounds.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sidecar.core.errors import SpoolUnavailable
from sidecar.telemetry.spool_clock import now as system_now
from sidecar.telemetry.spool_file import Request, SpoolFile, Total, is_damaged, is_full, move_aside
from sidecar.telemetry.spool_place import identity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from sidecar.telemetry.spool_clock import Moment

MAX_MEMORY_BYTES = 8 << 20
_RETRY_FILE_S = 2.0
_EXPIRE_EVERY_S = 60.0


@dataclass(frozen=True, slots=True)
class SpoolLimits:
    """Where the spool is (None: in memory only) and how much of what age it may hold."""

    path: str | None = None
    max_bytes: int = 64 << 20
    max_age_ns: int = 7 * 86_400_000_000_000


class Spool:
    """All methods may be called from any thread. `tell` gets each problem, once as long as it lasts."""

    def __init__(
        self,
        limits: SpoolLimits,
        tell: Callable[[str], None],
        *,
        now: Callable[[], Moment] = system_now,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._limits = limits
        self._tell = tell
        self._now = now
        self._monotonic_s = monotonic_s
        self._guard = threading.RLock()
        self._memory: deque[tuple[str, str, Request]] = deque()
        self._memory_bytes = 0
        self._last_memory_id = 0
        # Taken by the Collector, but the disk would not hear of it: not to be sent again.
        self._gone: set[int] = set()
        self._dropped: dict[str, int] = {}
        self._file: SpoolFile | None = None
        self._said = ""
        # A full disk can be read all the same.
        self._full = False
        self._retry_at_s = 0.0
        self._expire_at_s = 0.0
        self._closed = False
        self._pid = os.getpid()

    def add(self, signal: str, destination: str, body: bytes, records: int) -> None:
        """Keep one request until it is removed, at the price of the oldest where there is no room."""
        with self._guard:
            if self._closed:
                self._count_dropped(signal, records)
                return
            if len(body) <= self._limits.max_bytes and self._try_disk(
                lambda file: self._count(
                    file.add(signal, destination, body, records, self._now(), self._limits.max_bytes)
                )
            ):
                return
            self._last_memory_id += 1
            # Ids of the database are positive.
            self._memory.append((signal, destination, Request(-self._last_memory_id, records, body)))
            self._memory_bytes += len(body)
            while self._memory_bytes > MAX_MEMORY_BYTES:
                lost, _, request = self._memory.popleft()
                self._memory_bytes -= len(request.body)
                self._count_dropped(lost, request.records)

    def oldest(self, signal: str, destination: str, max_bytes: int, max_requests: int = 64) -> list[Request]:
        """The oldest requests, at least one if there is any, together no more than `max_bytes`."""
        with self._guard:
            found: list[Request] = []
            self._try_disk(
                lambda file: found.extend(self._on_disk(file, signal, destination, max_requests)), reading=True
            )
            if not found:
                found = [request for s, d, request in self._memory if (s, d) == (signal, destination)]
        total = 0
        chosen: list[Request] = []
        for request in found:
            total += len(request.body)
            if chosen and total > max_bytes:
                break
            chosen.append(request)
        return chosen

    def remove(self, requests: Iterable[Request]) -> None:
        """These were taken, or never will be."""
        ids = {request.id for request in requests}
        with self._guard:
            for entry in [entry for entry in self._memory if entry[2].id in ids]:
                self._memory.remove(entry)
                self._memory_bytes -= len(entry[2].body)
            self._gone |= {number for number in ids if number > 0}
            self._forget()

    def reject(self, signal: str, requests: Iterable[Request]) -> None:
        """These will never be taken: removed, and counted as dropped."""
        refused = list(requests)
        self.remove(refused)
        self.count_dropped(signal, sum(request.records for request in refused))

    def adopt(self, signal: str, destination: str, *, from_anywhere: bool = False) -> None:
        """Take over what processes that are gone have left; let go of what is too old, and of unused disk."""
        with self._guard:
            self._forget()
            self._save_memory()
            self._try_disk(lambda file: self._tend(file, signal, destination, from_anywhere=from_anywhere))

    def count_dropped(self, signal: str, records: int) -> None:
        with self._guard:
            self._count_dropped(signal, records)

    def totals(self) -> list[Total]:
        """What waits, by signal and destination; on disk whoever is to send it. Nothing in a forked child."""
        if os.getpid() != self._pid:
            # SQLite's connections must not be used there, and the lock may be held by a thread that is not.
            return []
        with self._guard:
            found: list[Total] = []
            self._try_disk(lambda file: found.extend(file.totals()), reading=True)
            for signal, destination, request in self._memory:
                found.append(Total(signal, destination, 1, request.records, len(request.body)))
            return found

    def dropped(self) -> dict[str, int]:
        """Records that this process has dropped so far, by signal. Never waits."""
        return dict(self._dropped)

    @property
    def path(self) -> str | None:
        return self._limits.path

    @property
    def problem(self) -> str:
        """Why the disk is not used just now; empty while it is. Never waits: an event loop asks."""
        return self._said

    @property
    def is_safe(self) -> bool:
        """Nothing is in memory that is meant for the disk. Never waits."""
        return self._limits.path is None or not self._memory

    def save(self) -> None:
        """Put on disk what still is in memory, as far as that can be done."""
        with self._guard:
            self._retry_at_s = 0.0
            self._forget()
            self._save_memory()

    def close(self) -> bool:
        """`save`, and let go of the file. False where something is lost by that: the disk would not have it."""
        with self._guard:
            if self._closed:
                return True
            self.save()
            self._closed = True
            is_safe = self.is_safe
            for signal, _, request in self._memory:
                self._count_dropped(signal, request.records)
            self._memory.clear()
            self._let_go()
            return is_safe

    def _on_disk(self, file: SpoolFile, signal: str, destination: str, max_requests: int) -> list[Request]:
        # More by as many as are not to be sent again.
        found = file.oldest(signal, destination, max_requests + len(self._gone))
        return [request for request in found if request.id not in self._gone]

    def _tend(self, file: SpoolFile, signal: str, destination: str, *, from_anywhere: bool) -> None:
        file.adopt(signal, destination, from_anywhere=from_anywhere)
        if self._monotonic_s() >= self._expire_at_s:
            self._expire_at_s = self._monotonic_s() + _EXPIRE_EVERY_S
            self._count(file.expire(self._now(), self._limits.max_age_ns))
            file.shrink()

    def _forget(self) -> None:
        gone = tuple(self._gone)
        if gone and self._try_disk(lambda file: file.remove(gone)):
            self._gone.clear()

    def _save_memory(self) -> None:
        while self._memory:
            signal, destination, request = self._memory[0]

            def add(
                file: SpoolFile, signal: str = signal, destination: str = destination, request: Request = request
            ) -> None:
                now, most = self._now(), self._limits.max_bytes
                self._count(file.add(signal, destination, request.body, request.records, now, most))

            if not self._try_disk(add):
                return
            self._memory.popleft()
            self._memory_bytes -= len(request.body)

    def _try_disk(self, work: Callable[[SpoolFile], object], *, reading: bool = False) -> bool:
        """Whether `work` was done. What stands against it is told, and tried again after a while."""
        path = self._limits.path
        if path is None or self._closed:
            return False
        if self._monotonic_s() < self._retry_at_s and not (reading and self._full):
            return False
        for attempt in range(2):
            try:
                work(self._opened(path))
            except sqlite3.Error as error:
                if is_damaged(error) and self._renew(path, error):
                    continue
                self._full = is_full(error)
                if self._full and attempt == 0 and self._made_room():
                    continue
                self._pause(_reason(path, error))
            except SpoolUnavailable as error:
                self._pause(f"the spool is not used: {error}")
            except OSError as error:
                self._pause(f"the spool {path} is not used: {error.strerror}")
            else:
                if not reading:
                    self._said, self._full = "", False
                return True
            return False
        return False

    def _made_room(self) -> bool:
        try:
            if self._file is not None:
                self._file.checkpoint()
        except sqlite3.Error:
            return False
        return True

    def _opened(self, path: str) -> SpoolFile:
        if self._file is not None and not self._file.is_current():
            self._let_go()
        if self._file is None:
            self._file = SpoolFile(path)
            self._gone.clear()
        return self._file

    def _renew(self, path: str, error: sqlite3.Error) -> bool:
        """Whether a new file can be begun, now that the present one is damaged."""
        damaged = identity(path) if self._file is None else self._file.identity
        self._let_go()
        try:
            aside = move_aside(path, damaged)
        except SpoolUnavailable:
            return False
        if aside is not None:
            self._tell(f"the spool was damaged ({error}): it is {aside} now, and a new one was begun")
        return True

    def _pause(self, reason: str) -> None:
        self._retry_at_s = self._monotonic_s() + _RETRY_FILE_S
        if reason != self._said:
            self._said = reason
            self._tell(reason)

    def _let_go(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            try:
                file.close()
            except (sqlite3.Error, OSError):
                pass  # it is of no more use either way

    def _count(self, dropped: Iterable[Total]) -> None:
        for total in dropped:
            self._count_dropped(total.signal, total.records)

    def _count_dropped(self, signal: str, records: int) -> None:
        self._dropped[signal] = self._dropped.get(signal, 0) + records


def _reason(path: str, error: sqlite3.Error) -> str:
    return f"the spool {path} cannot be used just now ({error}): requests are kept in memory"
