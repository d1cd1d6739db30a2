"""Sends one signal's requests from the spool, oldest first, on a thread of its own.

A request is removed from the spool when the Collector has taken it, or has said that it never will. Everything else
is tried again, ever more rarely, with all that comes after it waiting behind.
"""

from __future__ import annotations

import os
import threading
import time
from typing import TYPE_CHECKING, Protocol

from sidecar.telemetry.answers import Answer, Outcome
from sidecar.telemetry.backoff import Backoff

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sidecar.telemetry.spool import Spool
    from sidecar.telemetry.spool_file import Request
    from sidecar.telemetry.targets import Signal, Target

_MAX_REQUEST_BYTES = 512 * 1024
_ADOPT_EVERY_S = 10.0
_GATHER_S = 0.4
"""How long requests are gathered in the spool, to be sent as one; a heartbeat should be seen while it is news."""


class Transport(Protocol):
    def send(self, body: bytes, timeout_s: float) -> Answer:
        """One try; never raises."""


class Sender:
    """`observe` is told of each try: records, the answer, and how many seconds it took.

    What others have left in the spool is looked for first after `adopt_after_s`: a process that only lives for one
    short command should not hold its end up with the backlog of a night.
    """

    def __init__(
        self,
        signal: Signal,
        target: Target,
        transport: Transport,
        spool: Spool,
        tell: Callable[[str], None],
        observe: Callable[[int, Answer, float], None],
        *,
        adopt_after_s: float = 0.0,
        backoff: Backoff | None = None,
    ) -> None:
        self.signal = signal
        self._target = target
        self._transport = transport
        self._spool = spool
        self._tell = tell
        self._observe = observe
        self._backoff = backoff or Backoff()
        self._retry_at_s = 0.0
        self._due_at_s = 0.0
        self._adopt_at_s = time.monotonic() + adopt_after_s
        self._asked_to_wait = False
        self._most_bytes = _MAX_REQUEST_BYTES
        self._from_anywhere = False
        self._wake = threading.Condition()
        self._news = False
        self._deadline_s: float | None = None
        self._complete = False
        self._thread = threading.Thread(target=self._run, name=f"sidecar-send-{signal}", daemon=True)
        self._pid = os.getpid()
        self.last_problem = ""
        """What became of the last try, in words; empty where all is well."""

    def start(self) -> None:
        self._thread.start()

    def add(self, body: bytes, records: int) -> None:
        """Keep a request and send it soon. Nothing in a forked child: it has the parent's spool, and no thread."""
        if os.getpid() != self._pid:
            return
        self._spool.add(self.signal, self._target.shown, body, records)
        with self._wake:
            if not self._news:
                self._news = True
                self._due_at_s = time.monotonic() + _GATHER_S
            self._wake.notify()

    def send_now(self, *, everything: bool = False) -> None:
        """Do not wait for the end of the back-off, nor for the next look at what others have left.

        `everything`: what is left for another Collector goes to ours.
        """
        with self._wake:
            self._retry_at_s = self._adopt_at_s = self._due_at_s = 0.0
            self._from_anywhere = self._from_anywhere or everything
            self.last_problem = ""
            self._news = True
            self._wake.notify()

    def begin_end(self, deadline_s: float) -> None:
        """From now on one try for what is there, and none beyond `deadline_s` (monotonic)."""
        with self._wake:
            self._deadline_s = deadline_s
            if not self._asked_to_wait:
                self._retry_at_s = 0.0
            self._news = True
            self._wake.notify()

    def end(self) -> bool:
        """Nothing more will be added: wait for the end, at most until the deadline. Whether the thread has ended."""
        with self._wake:
            self._complete = True
            self._wake.notify()
        deadline_s = self._deadline_s or time.monotonic()
        self._thread.join(max(0.0, deadline_s - time.monotonic()))
        return not self._thread.is_alive()

    def drain(self, deadline_s: float, *, everything: bool = False) -> None:
        """Send what there is on the caller's thread, instead of `start`."""
        self._deadline_s = deadline_s
        self._complete = True
        self._from_anywhere = everything
        self._run()

    def _run(self) -> None:
        going = True
        while going:
            try:
                going = self._turn()
            except Exception as error:  # noqa: BLE001 - a fault of ours must neither end the thread nor reach stderr
                self._tell(f"{self.signal}: {error!r}"[:500])
                self._retry_at_s = time.monotonic() + self._backoff.failed()
                going = self._deadline_s is None

    def _turn(self) -> bool:
        """One step: send, or wait. False when there is no more to be done."""
        now_s = time.monotonic()
        ending = self._deadline_s is not None
        if self._deadline_s is not None and now_s >= self._deadline_s:
            return False
        if now_s >= self._adopt_at_s:
            self._adopt_at_s = now_s + _ADOPT_EVERY_S
            from_anywhere, self._from_anywhere = self._from_anywhere, False
            self._spool.adopt(self.signal, self._target.shown, from_anywhere=from_anywhere)
        ready_s = max(self._retry_at_s, 0.0 if ending else self._due_at_s)
        if now_s >= ready_s:
            with self._wake:
                self._news = False
            requests = self._spool.oldest(self.signal, self._target.shown, self._most_bytes)
            if requests:
                return self._deliver(requests) or not ending
            if ending and self._complete:
                return False
            self._wait(self._adopt_at_s - now_s)
            return True
        if ending:
            return False
        self._wait(min(ready_s, self._adopt_at_s) - now_s, for_news=False)
        return True

    def _wait(self, seconds: float, *, for_news: bool = True) -> None:
        with self._wake:
            if for_news and (self._news or (self._complete and self._deadline_s is not None)):
                return
            if self._deadline_s is not None:
                seconds = min(seconds, self._deadline_s - time.monotonic())
            if seconds > 0:
                self._wake.wait(seconds)

    def _deliver(self, requests: Sequence[Request]) -> bool:
        """Send these as one message. Whether to go on; else there is a back-off now."""
        answer = self._try(requests)
        if answer.outcome is Outcome.NEVER and len(requests) > 1:
            # One of them spoils the others: each by itself.
            return all(self._deliver([request]) for request in requests)
        if answer.outcome is Outcome.LATER:
            self._asked_to_wait = answer.retry_after_s is not None
            # It may be the size: a proxy that cuts what is too large for it says no more than that.
            self._most_bytes = max(1, sum(len(request.body) for request in requests) // 2)
            wait_s = self._backoff.failed(answer.retry_after_s)
            self._retry_at_s = time.monotonic() + wait_s
            self.last_problem = f"{self.signal}: {self._target.shown}: {answer.reason}"
            self._tell(f"{self.last_problem}; next try in {wait_s:.0f} s, kept until then")
            return False
        self._backoff.succeeded()
        self._most_bytes = min(_MAX_REQUEST_BYTES, 2 * self._most_bytes)
        self._asked_to_wait = False
        self.last_problem = ""
        if answer.outcome is Outcome.NEVER:
            self._spool.reject(self.signal, requests)
            records = sum(request.records for request in requests)
            self.last_problem = f"{self.signal}: {self._target.shown} refuses: {answer.reason}; {records} dropped"
        else:
            self._spool.remove(requests)
            if answer.refused_records:
                self._spool.count_dropped(self.signal, answer.refused_records)
            if answer.reason:
                self.last_problem = f"{self.signal}: {self._target.shown}: {answer.reason}"
        if self.last_problem:
            self._tell(self.last_problem)
        return True

    def _try(self, requests: Sequence[Request]) -> Answer:
        timeout_s = self._target.timeout_s
        if self._deadline_s is not None:
            timeout_s = min(timeout_s, self._deadline_s - time.monotonic())
        started_s = time.perf_counter()
        # A message of protobuf behind another of its kind is one message with the lists of both.
        answer = self._transport.send(b"".join(request.body for request in requests), timeout_s)
        self._observe(sum(request.records for request in requests), answer, time.perf_counter() - started_s)
        return answer
