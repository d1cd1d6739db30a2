"""The daemon's part: a sink around the telemetry's, which keeps what has ended. A thread of its own writes, so that a
slow disk holds up neither the daemon's loop nor the telemetry."""

import logging
import queue
import threading
import time
from collections.abc import Callable
from typing import Any, Final

from sidecar.core.command import Command
from sidecar.daemon.sink import Provider, TelemetrySink
from sidecar.history.record import Record, record_of
from sidecar.history.store import History, HistoryUnavailable

log = logging.getLogger(__name__)

_QUEUED_AT_MOST: Final = 10_000
_GATHER_S: Final = 0.2
"""Commands that end within so long of each other are written at once."""
_TRY_AGAIN_S: Final = 60.0


class RecordingSink:
    """Satisfies TelemetrySink: everything goes on to `inner`. `dropped` counts commands that could not be kept."""

    def __init__(
        self,
        inner: TelemetrySink,
        open_history: Callable[[], History],
        clock_unix_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._inner = inner
        self._open = open_history
        self._clock_unix_ms = clock_unix_ms
        self._ended: queue.Queue[tuple[int, Record] | None] = queue.Queue(_QUEUED_AT_MOST)
        self._problem: str | None = None
        self.dropped = 0
        self._thread = threading.Thread(target=self._write, name="history", daemon=True)
        self._thread.start()

    def command_settled(self, command: Command) -> None:
        self._inner.command_settled(command)
        if command.settled is None or command.settled.get("replay"):
            return
        try:
            self._ended.put_nowait((self._clock_unix_ms(), record_of(command)))
        except queue.Full:
            self.dropped += 1

    def command_started(self, command: Command) -> None:
        self._inner.command_started(command)

    def heartbeat(self, command: Command, frame: dict[str, Any]) -> None:
        self._inner.heartbeat(command, frame)

    def verdict_changed(self, command: Command, frame: dict[str, Any]) -> None:
        self._inner.verdict_changed(command, frame)

    def observe(self, provider: Provider) -> None:
        self._inner.observe(provider)

    def loop_alive(self) -> None:
        self._inner.loop_alive()

    def send_now(self, *, everything: bool) -> None:
        self._inner.send_now(everything=everything)

    def save(self) -> bool:
        """The telemetry's alone: what a daemon that is killed had not written of the history yet is not in it."""
        return self._inner.save()

    def shutdown(self, budget_s: float) -> None:
        """Both within the budget: the history is written while the telemetry is flushed."""
        deadline_s = time.monotonic() + budget_s
        try:
            self._ended.put(None, timeout=budget_s / 4)
        except queue.Full:
            log.warning("the history could not be written in time")
        self._inner.shutdown(budget_s)
        self._thread.join(max(0.0, deadline_s - time.monotonic()))

    def status(self) -> dict[str, Any]:
        status = dict(self._inner.status())
        if self._problem is not None or self.dropped:
            status["history"] = {"problem": self._problem, "dropped": self.dropped}
        return status

    def _write(self) -> None:
        history: History | None = None
        retry_s = 0.0
        while (first := self._ended.get()) is not None:
            batch, is_last = self._gathered(first)
            if history is None and time.monotonic() >= retry_s:
                history = self._opened()
                retry_s = time.monotonic() + _TRY_AGAIN_S
            if history is not None and not self._added(history, batch):
                history.close()
                history = None
            elif history is None:
                self.dropped += len(batch)
            if is_last:
                break
        if history is not None:
            history.close()

    def _gathered(self, first: tuple[int, Record]) -> tuple[list[tuple[int, Record]], bool]:
        """What has ended until now, and whether that was the last."""
        batch = [first]
        until_s = time.monotonic() + _GATHER_S
        while (left_s := until_s - time.monotonic()) > 0 and len(batch) < _QUEUED_AT_MOST:
            try:
                item = self._ended.get(timeout=left_s)
            except queue.Empty:
                break
            if item is None:
                return batch, True
            batch.append(item)
        return batch, False

    def _opened(self) -> History | None:
        try:
            history = self._open()
        except HistoryUnavailable as error:
            self._say(str(error))
            return None
        self._problem = None
        return history

    def _added(self, history: History, batch: list[tuple[int, Record]]) -> bool:
        try:
            history.add([record for _, record in batch], batch[-1][0])
        except HistoryUnavailable as error:
            self._say(str(error))
            self.dropped += len(batch)
            return False
        return True

    def _say(self, problem: str) -> None:
        if problem != self._problem:
            log.warning("no history: %s", problem)
        self._problem = problem
