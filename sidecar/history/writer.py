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


_SAVE_WAITS_S: Final = 5.0
"""So long a save waits for the disk that the history is on; the telemetry has been saved before."""

_Ended = tuple[int, Record]
_Item = _Ended | threading.Event | None
"""When a command ended (Unix ms) and what is kept of it; a save, to be told when all before it is written; the end."""


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
        self._ended: queue.Queue[_Item] = queue.Queue(_QUEUED_AT_MOST)
        self._history: History | None = None
        self._retry_s = 0.0
        self._try_again_s = _TRY_AGAIN_S
        self._problem: str | None = None
        self._unsaved = False
        """Something has ended since the last save."""
        self.dropped = 0
        self._thread = threading.Thread(target=self._write, name="history", daemon=True)
        self._thread.start()

    def command_settled(self, command: Command) -> None:
        self._inner.command_settled(command)
        if command.settled is None or command.settled.get("replay"):
            return
        try:
            self._ended.put_nowait((self._ended_unix_ms(command), record_of(command)))
            self._unsaved = True  # after: a save that is under way has not waited for it
        except queue.Full:
            self.dropped += 1

    def _ended_unix_ms(self, command: Command) -> int:
        """By our own clock, which knows of a host that slept meanwhile; of one that had ended before we were there, by
        what its supervisor wrote down."""
        began_unix_ms = command.identity.get("startUnixMs")
        if command.told_late and began_unix_ms is not None and command.settled is not None:
            return int(began_unix_ms) + int(command.settled["elapsedMs"])
        return self._clock_unix_ms()

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
        """The telemetry's and the history's: what is in neither yet stays in the ledger, for the next daemon.

        A history that cannot be written holds up nothing for longer than it takes to find out.
        """
        saved = self._inner.save()
        if not self._unsaved:
            return saved
        self._unsaved = False
        written = threading.Event()
        try:
            self._ended.put_nowait(written)
            written.wait(_SAVE_WAITS_S)
        except queue.Full:
            pass
        return saved

    def shutdown(self, budget_s: float) -> bool:
        """Both within the budget: the history is written while the telemetry is flushed."""
        deadline_s = time.monotonic() + budget_s
        try:
            self._ended.put(None, timeout=budget_s / 4)
        except queue.Full:
            log.warning("the history could not be written in time")
        is_safe = self._inner.shutdown(budget_s)
        self._thread.join(max(0.0, deadline_s - time.monotonic()))
        return is_safe

    def status(self) -> dict[str, Any]:
        status = dict(self._inner.status())
        if self._problem is not None or self.dropped:
            status["history"] = {"problem": self._problem, "dropped": self.dropped}
        return status

    def _write(self) -> None:
        is_last = False
        while not is_last:
            batch, saves, is_last = self._gathered()
            if batch and not self._kept(batch):
                self.dropped += len(batch)
                self._close()
            for save in saves:
                save.set()
        self._close()

    def _gathered(self) -> tuple[list[_Ended], list[threading.Event], bool]:
        """What has ended until now, the saves that wait for it, and whether that was the last."""
        batch: list[_Ended] = []
        saves: list[threading.Event] = []
        until_s: float | None = None
        while len(batch) < _QUEUED_AT_MOST:
            try:
                item = self._ended.get(timeout=None if until_s is None else max(0.0, until_s - time.monotonic()))
            except queue.Empty:
                break
            if item is None:
                return batch, saves, True
            if isinstance(item, threading.Event):
                saves.append(item)
                break
            batch.append(item)
            until_s = until_s or time.monotonic() + _GATHER_S
        return batch, saves, False

    def _kept(self, batch: list[_Ended]) -> bool:
        try:
            if self._history is None:
                if time.monotonic() < self._retry_s:
                    return False
                self._retry_s = time.monotonic() + self._try_again_s
                self._history = self._open()
            self._history.add(batch)
        except HistoryUnavailable as error:
            self._say(str(error))
            return False
        except Exception as error:
            # A fault of ours must not end the thread, and with it the history.
            log.exception("commands that have ended could not be kept")
            self._problem = f"internal error: {error}"
            return False
        self._problem = None
        return True

    def _close(self) -> None:
        if self._history is not None:
            self._history.close()
            self._history = None

    def _say(self, problem: str) -> None:
        if problem != self._problem:
            log.warning("no history: %s", problem)
        self._problem = problem
