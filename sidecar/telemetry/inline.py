"""Telemetry in the supervisor's own process, for `sidecar run --inline` and where no daemon can be had.

All of it, the import of OpenTelemetry (half a second) included, happens on a thread of its own. The supervisor
only puts frames on a queue, which never blocks and never grows beyond its bound. Where the end comes before the import
is done (a busy machine, a short command), the frames are left beside the spool as they are.
"""

from __future__ import annotations

import gc
import os
import threading
import time
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

from sidecar.core import frame as wire
from sidecar.core.errors import FrameError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sidecar.telemetry.pipeline import Telemetry
    from sidecar.telemetry.settings import TelemetrySettings

    Frame = Mapping[str, Any] | bytes

_MAX_QUEUED = 1024
_RESERVED = 16
"""Places that only the frames a span cannot do without may take."""
_TO_LEAVE_S = 0.2
"""Of the time for the end, what is kept for leaving the frames where there is nobody yet to take them."""
_LEFTOVERS_AT_ONCE = 16


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
        self._guard = threading.Lock()
        self._taking = False
        self._given_up = False
        self._is_safe = False
        self._spool_path: str | None = None
        self._configured = False
        self._thread = threading.Thread(target=self._run, name="sidecar-inline", daemon=True)
        self._thread.start()

    def put(self, frame: Frame) -> None:
        """Hand over one frame: a dict, or a line as the supervisor encodes it. Never blocks, never raises."""
        limit = _MAX_QUEUED if _is_essential(frame) else _MAX_QUEUED - _RESERVED
        if self._queue.qsize() >= limit or self._deadline_s is not None or self._dead:
            self.dropped += 1
            return
        self._queue.put((frame, time.monotonic_ns()))

    def close(self, budget_s: float = 1.0) -> bool:
        """Send what is queued, or leave it for later; returns within `budget_s`, whatever the exporters do.

        False: not all of it is known to be sent, or on disk.
        """
        if self._deadline_s is None:
            self._deadline_s = time.monotonic() + budget_s
            self._queue.put(None)
            self._thread.join(max(0.0, budget_s - _TO_LEAVE_S))
            if self._thread.is_alive() and self._give_up():
                return self._leave()
        self._thread.join(max(0.0, self._deadline_s - time.monotonic()))
        return self._is_safe

    def _run(self) -> None:
        try:
            from sidecar.telemetry.targets import sdk_disabled

            settings = self._make_settings()
            self._spool_path = None if sdk_disabled(settings.environ) else settings.spool.path
            self._configured = True
            from sidecar.telemetry.feed import Feed
            from sidecar.telemetry.pipeline import Telemetry

            telemetry = Telemetry(settings)
            feed = Feed(telemetry)
            telemetry.observe(lambda: list(feed.commands.values()))
            _collect_garbage()
        except Exception as error:  # noqa: BLE001 - telemetry may fail in every way; the command never pays for it
            self.failure = repr(error)
            self._dead = True
            self._discard()
            return
        with self._guard:
            if self._given_up:
                return
            self._taking = True
        while (item := self._queue.get()) is not None:
            raw, now_ns = item
            try:
                feed.take(_encoded(raw), now_ns)
            except Exception as error:  # noqa: BLE001 - as above; one bad frame is not the end
                self.failure = repr(error)
        self._take_leftovers(telemetry)
        deadline_s = self._deadline_s or 0.0
        is_safe = telemetry.shutdown(max(0.0, deadline_s - time.monotonic()))
        self._is_safe = is_safe and self.failure is None and not self.dropped

    def _take_leftovers(self, telemetry: Telemetry) -> None:
        """What others had to leave: some of it, where there is time, so that it is not left where no daemon runs."""
        if self._spool_path is None or (self._deadline_s or 0.0) - time.monotonic() < 2 * _TO_LEAVE_S:
            return
        telemetry.take_leftovers(self._spool_path, _LEFTOVERS_AT_ONCE)

    def _give_up(self) -> bool:
        """Whether nobody takes the frames, and from now on nobody will."""
        with self._guard:
            self._given_up = not self._taking
            return self._given_up

    def _leave(self) -> bool:
        lines = []
        try:
            while (item := self._queue.get_nowait()) is not None:
                lines.append(_encoded(item[0]))
        except (Empty, FrameError):
            pass
        path = self._spool_path
        if not self._configured and self._make_settings is _configured:
            path = _likely_spool()
        if path is None or not lines:
            return False
        from sidecar.telemetry.leftovers import leave

        left = leave(path, lines)
        if not left:
            self.dropped += len(lines)
        return left

    def _discard(self) -> None:
        try:
            while self._queue.get_nowait() is not None:
                self.dropped += 1
        except Empty:
            pass


def _encoded(frame: Frame) -> bytes:
    # A dict is encoded too: that is what drops absent keys, and lets one parser judge both.
    return frame if isinstance(frame, bytes) else wire.encode(frame)


def _likely_spool() -> str | None:
    """Where the spool is by the variables alone, until the configuration is read."""
    from sidecar.telemetry.spool_place import default_path
    from sidecar.telemetry.targets import sdk_disabled

    if sdk_disabled(os.environ) or os.environ.get("SIDECAR_SPOOL_MAX_BYTES") == "0":
        return None
    return os.environ.get("SIDECAR_SPOOL") or default_path(os.environ)


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
