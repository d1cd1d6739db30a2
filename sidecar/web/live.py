"""What the page is told, for all who look at it: one feed from the daemon, while there is somebody."""

import json
import queue
import select
import threading
import time
from collections.abc import Callable
from typing import Any, Final

from sidecar.core.advice import advice
from sidecar.core.ended_advice import ended_advice
from sidecar.core.verdict_names import group_of
from sidecar.daemon.feed import Feed
from sidecar.daemon.tree_cpu import TreeCpu

Record = dict[str, Any]

INTERVAL_S: Final = 1.0
_BEHIND_AT_MOST: Final = 32


class Viewer:
    """One who looks. `next` gives messages for the page; None after the last one: too slow, or the server ends."""

    def __init__(self) -> None:
        self._messages: queue.Queue[str | None] = queue.Queue(_BEHIND_AT_MOST)
        self.dropped = False

    def put(self, message: str) -> None:
        try:
            self._messages.put_nowait(message)
        except queue.Full:
            self.dropped = True

    def next(self, timeout_s: float) -> str | None:
        """Raises queue.Empty when none came within the time."""
        return None if self.dropped and self._messages.empty() else self._messages.get(timeout=timeout_s)


class Live:
    """`latest_ended` gives what ended before anybody looked, the latest first. Messages are JSON objects:

    {"type": "commands", "commands": [...]}     all that run, with their silences, `cpuPercent` and `next` (what to
                                                do, in one text or more): each second
    {"type": "ended", "commands": [...]}        some that have ended, the latest first
    {"type": "gone", "why": "..."}              there is no daemon
    {"type": "silent", "why": "..."}            there is one, and it does not answer
    """

    def __init__(self, socket_path: str, latest_ended: Callable[[], list[Record]]) -> None:
        self._socket_path = socket_path
        self._latest_ended = latest_ended
        self._viewers: set[Viewer] = set()
        self._guard = threading.Lock()
        self._last = ""
        self._cpu = TreeCpu()
        self._thread: threading.Thread | None = None
        self.alone_since_s = time.monotonic()
        """Since when nobody looks; of no meaning while somebody does."""

    @property
    def viewers(self) -> int:
        return len(self._viewers)

    def join(self) -> Viewer:
        viewer = Viewer()
        viewer.put(_message("ended", commands=[_with_end(record) for record in self._latest_ended()]))
        with self._guard:
            if self._last:
                viewer.put(self._last)
            self._viewers.add(viewer)
            if self._thread is None:
                self._thread = threading.Thread(target=self._follow, name="web-feed", daemon=True)
                self._thread.start()
        return viewer

    def leave(self, viewer: Viewer) -> None:
        with self._guard:
            self._viewers.discard(viewer)
            self.alone_since_s = time.monotonic()

    def _follow(self) -> None:
        feed = Feed(self._socket_path, INTERVAL_S, silences=True)
        poll = select.poll()
        poll.register(feed.descriptor, select.POLLIN)
        try:
            while self._somebody_looks():
                if poll.poll(INTERVAL_S * 1000):
                    for kind, what in feed.take():
                        self._tell(kind, what)
        finally:
            feed.close()

    def _somebody_looks(self) -> bool:
        with self._guard:
            if not self._viewers:
                self._thread, self._last = None, ""
            return bool(self._viewers)

    def _tell(self, kind: str, what: Any) -> None:
        if kind == "commands":
            message = _message("commands", commands=[_told(record) for record in self._with_cpu(what)])
        elif kind == "settled":
            message = _message("ended", commands=[_with_end({**what, "endUnixMs": time.time_ns() // 1_000_000})])
        else:
            message = _message(kind, why=what)
        with self._guard:
            if kind != "settled":
                self._last = message
            for viewer in self._viewers:
                viewer.put(message)

    def _with_cpu(self, records: list[Record]) -> list[Record]:
        percents = self._cpu.percents((int(record["pid"]) for record in records), time.monotonic())
        return [{**record, "cpuPercent": percents.get(int(record["pid"]))} for record in records]


def with_group(record: Record) -> Record:
    """The group of each verdict in its silences, so that the page needs no table of its own."""
    silences = [
        [start_ms, end_ms, [[at_ms, verdict, group_of(verdict)] for at_ms, verdict in bands]]
        for start_ms, end_ms, bands in record.get("silences", ())
    ]
    return {**record, "silences": silences}


def _told(record: Record) -> Record:
    """A command that runs, with what to do about it in `next`, where there is a verdict of now."""
    grouped = with_group(record)
    return {**grouped, "next": advice(record)} if "verdict" in record and "heartbeatDelayMs" not in record else grouped


def _with_end(record: Record) -> Record:
    """One that has ended, with what to do then, if there is anything."""
    advice_then = ended_advice(record)
    return {**record, "next": advice_then} if advice_then else record


def _message(kind: str, **fields: Any) -> str:
    return json.dumps({"type": kind, **fields}, ensure_ascii=False, separators=(",", ":"))
