"""Telemetry in the supervisor's own process, for `sidecar run --inline` and where no daemon can be had.

All of it, the import of OpenTelemetry (half a second) included, happens on a thread of its own. The supervisor
only puts frames on a queue, which never blocks and never grows beyond its bound.
"""

from __future__ import annotations

import gc
import threading
import time
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

from sidecar.core import frame as wire

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sidecar.core.command import Command
    from sidecar.telemetry.pipeline import Telemetry
    from sidecar.telemetry.settings import TelemetrySettings

    Frame = Mapping[str, Any] | bytes

_MAX_QUEUED = 1024
_RESERVED = 16
"""Places that only the frames a span cannot do without may take."""


class InlineSink:
    """Takes the frames of this process's commands. `dropped` counts those the full queue could not take.

    `make_settings` runs on the sink's thread; by default it reads the configuration.
    """

    def __init__(self, make_settings: Callable[[], TelemetrySettings] | None = None) -> None:
        self.dropped = 0
        self.failure: str | None = None
        """Why there is no telemetry; None while there is."""
        self._make_settings = make_settings or _configured
        # None ends the thread.
        self._queue: SimpleQueue[tuple[Frame, int] | None] = SimpleQueue()
        self._deadline_s: float | None = None
        self._dead = False
        self._commands: dict[str, Command] = {}
        self._thread = threading.Thread(target=self._run, name="sidecar-inline", daemon=True)
        self._thread.start()

    def put(self, frame: Frame) -> None:
        """Hand over one frame: a dict, or a line as the supervisor encodes it. Never blocks, never raises."""
        limit = _MAX_QUEUED if _is_essential(frame) else _MAX_QUEUED - _RESERVED
        if self._queue.qsize() >= limit or self._deadline_s is not None or self._dead:
            self.dropped += 1
            return
        self._queue.put((frame, time.monotonic_ns()))

    def close(self, budget_s: float = 1.0) -> None:
        """Send what is queued; returns within `budget_s`, whatever the exporters do."""
        if self._deadline_s is None:
            self._deadline_s = time.monotonic() + budget_s
            self._queue.put(None)
        self._thread.join(max(0.0, self._deadline_s - time.monotonic()))

    def _run(self) -> None:
        try:
            from sidecar.telemetry.pipeline import Telemetry

            telemetry = Telemetry(self._make_settings())
            telemetry.observe(lambda: list(self._commands.values()))
            _collect_garbage()
        except Exception as error:  # noqa: BLE001 - telemetry may fail in every way; the command never pays for it
            self.failure = repr(error)
            self._dead = True
            self._discard()
            return
        while (item := self._queue.get()) is not None:
            try:
                self._take(telemetry, *item)
            except Exception as error:  # noqa: BLE001 - as above; one bad frame is not the end
                self.failure = repr(error)
        deadline_s = self._deadline_s or 0.0
        telemetry.shutdown(max(0.0, deadline_s - time.monotonic()))

    def _take(self, telemetry: Telemetry, raw: Frame, now_ns: int) -> None:
        # Encoded first where it is a dict: that is what drops absent keys, and lets one parser judge both.
        frame = wire.parse(raw if isinstance(raw, bytes) else wire.encode(raw))
        if frame is None:
            return
        command = self._commands.get(str(frame["commandId"]))
        if command is None:
            from sidecar.core.command import Command

            command = Command(frame, now_ns)
            if command.settled is None:
                self._commands[command.id] = command
                telemetry.command_started(command)
            else:
                telemetry.command_settled(command)
            return
        verdicts_before = command.verdict_count
        if not command.apply(frame, now_ns):
            return
        if frame["type"] == wire.PROGRESS:
            telemetry.heartbeat(command, frame)
        elif frame["type"] == wire.VERDICT and command.verdict_count != verdicts_before:
            telemetry.verdict_changed(command, frame)
        elif frame["type"] == wire.SETTLED:
            del self._commands[command.id]
            telemetry.command_settled(command)

    def _discard(self) -> None:
        try:
            while self._queue.get_nowait() is not None:
                self.dropped += 1
        except Empty:
            pass


def _collect_garbage() -> None:
    # The supervisor runs without the collector, since it makes no cycles. An exporter does, for as long as the
    # command runs. What exists by now is exempt, which makes each collection short.
    if not gc.isenabled():
        gc.freeze()
        gc.enable()


def _is_essential(frame: Frame) -> bool:
    if isinstance(frame, bytes):
        return b'"command_started"' in frame or b'"command_settled"' in frame
    return frame.get("type") in (wire.STARTED, wire.SETTLED)


def _configured() -> TelemetrySettings:
    from sidecar.config import inspect_settings
    from sidecar.telemetry.configured import telemetry_settings

    return telemetry_settings(inspect_settings(), "inline")
