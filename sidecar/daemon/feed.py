"""What the daemon tells, for a view of it: on a thread of its own, since a daemon that hangs must not hold it up."""

import os
import threading
import time
from collections import deque
from typing import Any, Final

from sidecar.core.errors import DaemonUnavailable, NoDaemon
from sidecar.daemon import client

Record = dict[str, Any]
News = tuple[str, Any]
"""("commands", list of command records), ("settled", a record), ("gone", why: there is no daemon), or ("silent", why:
there is one, and nothing can be learnt from it)."""

_ANSWER_S: Final = 3.0
_SETTLED_KEPT: Final = 1000
_OF_THE_START: Final = ("program", "pid", "traceId")


class Feed:
    """`descriptor` is readable when `take` has something. Asks each `interval_s`; ends come at once, and say of which
    program they are. `silences`: as core.silences has them, in each command's record.

    What nobody takes does not pile up: of the commands only the latest list is kept, and of the ends a number.
    """

    def __init__(self, path: str, interval_s: float, *, silences: bool = False) -> None:
        self._silences = silences
        self._path = path
        self._interval_s = interval_s
        self._guard = threading.Lock()
        self._settled: deque[News] = deque(maxlen=_SETTLED_KEPT)
        self._state: News | None = None
        self._started: dict[str, Record] = {}
        self.descriptor, self._wake = os.pipe()
        os.set_blocking(self.descriptor, False)
        os.set_blocking(self._wake, False)
        self._closing = threading.Event()
        self._subscription: client.Subscription | None = None
        threading.Thread(target=self._follow, name="feed", daemon=True).start()

    def take(self) -> list[News]:
        """All that has come: the ends first, since the list of commands is without them."""
        try:
            while os.read(self.descriptor, 4096):
                pass
        except BlockingIOError:
            pass
        with self._guard:
            found = [*self._settled, *([] if self._state is None else [self._state])]
            self._settled.clear()
            self._state = None
        return found

    def close(self) -> None:
        """At once: an answer that is still waited for is nobody's."""
        self._closing.set()
        if self._subscription is not None:
            self._subscription.close()
        os.close(self.descriptor)

    def _follow(self) -> None:
        try:
            while not self._closing.is_set():
                try:
                    with client.subscribe(self._path, timeout_s=_ANSWER_S) as subscription:
                        self._subscription = subscription
                        self._started.clear()
                        has_ended = self._serve(subscription)
                except DaemonUnavailable as error:
                    # Which daemon that is, whoever looks knows; the reason shall have room.
                    kind = "gone" if isinstance(error, NoDaemon) else "silent"
                    self._tell((kind, str(error).replace(f" on {self._path}", "")))
                else:
                    if not has_ended:
                        continue
                    self._tell(("gone", "the daemon has ended; the next command starts another"))
                self._closing.wait(self._interval_s)
        finally:
            os.close(self._wake)

    def _serve(self, subscription: client.Subscription) -> bool:
        """The records are waited for, and the list is asked for in between. True: the daemon has ended; False: it has
        dropped us, who were too slow (suspended, say), and is well."""
        next_s = 0.0
        while not subscription.ended and not self._closing.is_set():
            if time.monotonic() >= next_s:
                answers = client.request(self._path, "list", timeout_s=_ANSWER_S, silences=self._silences)
                self._tell(("commands", [answer for answer in answers if answer.get("type") == "command"]))
                next_s = time.monotonic() + self._interval_s
            record = subscription.next_within(max(0.0, next_s - time.monotonic()))
            kind = None if record is None else record.get("type")
            if kind == "lagged":
                return False
            if record is not None and kind in ("command_started", "command_settled"):
                self._happened(record)
        return not self._closing.is_set()

    def _happened(self, record: Record) -> None:
        """Who ends between two lists was in none of them: its start has told what it is."""
        command_id = str(record.get("commandId"))
        if record["type"] == "command_started":
            self._started[command_id] = {key: record[key] for key in _OF_THE_START if key in record}
        else:
            self._tell(("settled", {**self._started.pop(command_id, {}), **record}))

    def _tell(self, news: News) -> None:
        with self._guard:
            if news[0] == "settled":
                self._settled.append(news)
                if self._state is not None and self._state[0] == "commands":
                    ended = news[1].get("commandId")
                    self._state = ("commands", [one for one in self._state[1] if one.get("commandId") != ended])
            else:
                self._state = news
        try:
            os.write(self._wake, b".")
        except OSError:
            pass  # full: it is readable anyhow; or closed: nobody listens
