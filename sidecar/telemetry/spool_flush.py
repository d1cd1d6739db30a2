"""Send what waits in the spool from a process that has nothing else to do: `sidecar spool flush` without a daemon."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

# Before anything that imports OpenTelemetry, which logs while it is imported.
from sidecar.telemetry.quiet import Problems, collect

# isort: split
from sidecar.telemetry import exporters
from sidecar.telemetry.leftovers import MAX_FILES, files
from sidecar.telemetry.sender import Sender
from sidecar.telemetry.spool import Spool
from sidecar.telemetry.targets import Signal, target_of

if TYPE_CHECKING:
    from sidecar.telemetry.answers import Answer
    from sidecar.telemetry.settings import TelemetrySettings

_TO_SPOOL_S = 5.0
_SIGNALS: tuple[Signal, ...] = ("traces", "logs")


def flush(settings: TelemetrySettings, budget_s: float, *, everything: bool) -> list[str]:
    """Send what nobody who lives is to send, within `budget_s`; returns what stood against it, one line each."""
    if settings.spool.path is not None and files(settings.spool.path):
        _make_requests(settings, settings.spool.path)
    problems = Problems()
    collect(problems)
    spool = Spool(settings.spool, problems.add)
    deadline_s = time.monotonic() + budget_s
    reasons = []
    try:
        for signal in _SIGNALS:
            notes: list[str] = []
            target = target_of(signal, settings, notes)
            if target is None:
                reasons.append(f"{signal}: switched off")
                continue
            sender = Sender(signal, target, exporters.transport(signal, target), spool, problems.add, _unobserved)
            sender.drain(deadline_s, everything=everything)
            if sender.last_problem:
                reasons.append(sender.last_problem)
    finally:
        spool.close()
    return reasons


def _make_requests(settings: TelemetrySettings, path: str) -> None:
    """Of the frames that were left beside the spool, as a daemon would; they are in the spool afterwards, or sent."""
    from sidecar.telemetry.pipeline import Telemetry

    telemetry = Telemetry(settings)
    telemetry.take_leftovers(path, MAX_FILES)
    telemetry.shutdown(_TO_SPOOL_S)


def _unobserved(records: int, answer: Answer, seconds: float) -> None:
    """There are no metrics here."""
