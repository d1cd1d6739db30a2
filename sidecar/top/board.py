"""What `sidecar top` shows. Pure: records of the daemon in, rows out; the caller gives the time (monotonic seconds)."""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from sidecar.cli.tables import MIN_ID_CHARS, unique_prefixes
from sidecar.core.text_filter import fits, group_now

Record = Mapping[str, Any]

RATES_KEPT: Final = 60
ENDED_KEPT: Final = 50
JUST_S: Final = 600.0
SORTS: Final = ("trouble", "silence", "age", "cpu", "bytes", "program")
_TROUBLE: Final = ("may_be_hung", "needs_someone", "unknown", "waiting", "working")


@dataclass(slots=True)
class Row:
    """One running command. `rates` are bytes a second of output, one for each update, the latest last. `short_id` is as
    much of its id as no other command has."""

    record: Record
    short_id: str = ""
    cpu_percent: float | None = None
    rates: deque[float] = field(default_factory=lambda: deque(maxlen=RATES_KEPT))

    @property
    def id(self) -> str:
        return str(self.record["commandId"])

    @property
    def silent_ms(self) -> int:
        """Since the last output, or since the start where there was none."""
        return int(self.record.get("lastOutputAgeMs", self.record.get("elapsedMs", 0)))

    @property
    def group(self) -> str | None:
        """Of its verdict; None where there is none now."""
        return group_now(self.record)


@dataclass(frozen=True, slots=True)
class Ended:
    """A command that was seen to end. `record` is its command_settled record, with the program's name."""

    record: Record
    at_s: float


class Board:
    """`sort` is one of SORTS, `filter` a text that a row must have, `selected` the id of a command or None."""

    def __init__(self) -> None:
        self.sort = SORTS[0]
        self.filter = ""
        self.selected: str | None = None
        self.ended: deque[Ended] = deque(maxlen=ENDED_KEPT)
        self.problem: str | None = None
        """Why nothing is heard of the daemon; None while something is."""
        self.is_daemon_there = False
        """Of such a problem: there is one, and it does not answer."""
        self.heard_s: float | None = None
        """When the daemon was heard last."""
        self._rows: dict[str, Row] = {}
        self._ended_ids: set[str] = set()
        """Of what has ended, those that may begin as one that runs."""

    def update(self, records: Iterable[Record], now_s: float) -> None:
        """All commands that run now."""
        since_s = None if self.heard_s is None else now_s - self.heard_s
        before, self._rows = self._rows, {}
        for record in records:
            row = before.get(str(record["commandId"]), Row(record))
            if row.record is not record and since_s:
                grown = int(record.get("totalBytes", 0)) - int(row.record.get("totalBytes", 0))
                row.rates.append(max(0, grown) / since_s)
            row.record = record
            self._rows[row.id] = row
        self._shorten()
        self.problem, self.heard_s = None, now_s

    def settle(self, record: Record, now_s: float) -> None:
        """A command_settled record has come."""
        row = self._rows.pop(str(record["commandId"]), None)
        known = {} if row is None else {"program": row.record.get("program")}
        self.ended.appendleft(Ended({**known, **record}, now_s))
        self._ended_ids.add(str(record["commandId"]))

    def know_ended(self, ids: Iterable[str]) -> None:
        """The ids of what ended before anybody looked."""
        self._ended_ids.update(ids)

    def remember(self, records: Iterable[Record], now_s: float, now_unix_ms: int) -> None:
        """What ended before anybody looked, from the history, the latest first; only what is of now."""
        for record in records:
            ago_s = max(0.0, (now_unix_ms - int(record["endUnixMs"])) / 1000)
            if ago_s <= JUST_S and len(self.ended) < ENDED_KEPT:
                self.ended.append(Ended(record, now_s - ago_s))

    def lose(self, problem: str, *, is_there: bool = False) -> None:
        """The daemon is gone or, where it `is_there`, silent: what was known stays, and is said to be old."""
        self.problem, self.is_daemon_there = problem, is_there

    @property
    def running(self) -> int:
        return len(self._rows)

    def count(self, group: str) -> int:
        """How many have a verdict of this group."""
        return sum(row.group == group for row in self._rows.values())

    def rows(self) -> list[Row]:
        """Those that fit the filter, in order."""
        found = [row for row in self._rows.values() if not self.filter or fits(row.record, self.filter)]
        return sorted(found, key=lambda row: _order(self.sort, row))

    def row(self) -> Row | None:
        """The selected one; the first where none is, or where it does not run any more."""
        rows = self.rows()
        return next((row for row in rows if row.id == self.selected), rows[0] if rows else None)

    def move(self, by: int) -> None:
        """Select the row so many further down."""
        rows = self.rows()
        if not rows:
            return
        current = self.row()
        place = rows.index(current) if current is not None else 0
        self.selected = rows[min(max(place + by, 0), len(rows) - 1)].id

    def next_sort(self) -> None:
        self.sort = SORTS[(SORTS.index(self.sort) + 1) % len(SORTS)]

    def _shorten(self) -> None:
        begin = {command_id[:MIN_ID_CHARS] for command_id in self._rows}
        self._ended_ids = {command_id for command_id in self._ended_ids if command_id[:MIN_ID_CHARS] in begin}
        short_ids = unique_prefixes(list(self._rows), self._ended_ids)
        for row, short_id in zip(self._rows.values(), short_ids, strict=True):
            row.short_id = short_id


def _order(sort: str, row: Row) -> tuple[Any, ...]:
    if sort == "silence":
        return (-row.silent_ms,)
    if sort == "age":
        return (-int(row.record.get("elapsedMs", 0)),)
    if sort == "cpu":
        return (-(row.cpu_percent or 0.0), -row.silent_ms)
    if sort == "bytes":
        return (-int(row.record.get("totalBytes", 0)),)
    if sort == "program":
        return (str(row.record.get("program", "")), row.id)
    place = len(_TROUBLE) if row.group is None else _TROUBLE.index(row.group) if row.group in _TROUBLE else 2
    return (place, -row.silent_ms)
