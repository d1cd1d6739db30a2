"""What the daemon tells, for a view of it: on a thread of its own, since a daemon that hangs must not hold it up."""

import os
import queue
import threading
import time
from typing import Any, Final

from sidecar.core.errors import DaemonUnavailable
from sidecar.daemon import client

Record = dict[str, Any]
News = tuple[str, Any]
"""("commands", list of command records), ("settled", a record), or ("gone", why the daemon does not answer)."""

_ANSWER_S: Final = 3.0


class Feed:
    """`descriptor` is readable when `take` has something. Asks each `interval_s`; ends come at once. `silences`: as
    core.silences has them, in each command's record."""

    def __init__(self, path: str, interval_s: float, *, silences: bool = False) -> None:
        self._silences = silences
        self._path = path
        self._interval_s = interval_s
        self._news: queue.SimpleQueue[News] = queue.SimpleQueue()
        self.descriptor, self._wake = os.pipe()
        os.set_blocking(self.descriptor, False)
        os.set_blocking(self._wake, False)
        self._closing = threading.Event()
        self._subscription: client.Subscription | None = None
        self._thread = threading.Thread(target=self._follow, name="feed", daemon=True)
        self._thread.start()

    def take(self) -> list[News]:
        """All that has come."""
        try:
            while os.read(self.descriptor, 4096):
                pass
        except BlockingIOError:
            pass
        found = []
        while not self._news.empty():
            found.append(self._news.get())
        return found

    def close(self) -> None:
        self._closing.set()
        if self._subscription is not None:
            self._subscription.close()
        self._thread.join(_ANSWER_S + 1)
        if not self._thread.is_alive():
            os.close(self._wake)
            os.close(self.descriptor)

    def _follow(self) -> None:
        while not self._closing.is_set():
            try:
                with client.subscribe(self._path, timeout_s=_ANSWER_S) as subscription:
                    self._subscription = subscription
                    self._serve(subscription)
            except DaemonUnavailable as error:
                self._tell(("gone", str(error)))
            else:
                if not self._closing.is_set():
                    self._tell(("gone", "the daemon has ended; the next command starts another"))
            self._closing.wait(self._interval_s)

    def _serve(self, subscription: client.Subscription) -> None:
        """Until the daemon ends. The records are waited for, and the list is asked for in between."""
        next_s = 0.0
        while not subscription.ended and not self._closing.is_set():
            if time.monotonic() >= next_s:
                answers = client.request(self._path, "list", timeout_s=_ANSWER_S, silences=self._silences)
                self._tell(("commands", [answer for answer in answers if answer.get("type") == "command"]))
                next_s = time.monotonic() + self._interval_s
            record = subscription.next_within(max(0.0, next_s - time.monotonic()))
            if record is not None and record.get("type") == "command_settled":
                self._tell(("settled", record))

    def _tell(self, news: News) -> None:
        self._news.put(news)
        try:
            os.write(self._wake, b".")
        except OSError:
            pass  # full: it is readable anyhow
