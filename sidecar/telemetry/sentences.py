"""The body of a log event: one sentence for somebody who reads the log. Programs read the attributes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sidecar.telemetry.conventions import attributes as a
from sidecar.telemetry.conventions import signals as s

if TYPE_CHECKING:
    from sidecar.core.command import Command
    from sidecar.telemetry.describe import Attributes


def sentence(event_name: str, command: Command, attributes: Attributes) -> str:
    """What happened to the command, with `attributes` the event's own."""
    program = command.identity["program"]
    if event_name == s.STARTED:
        return f"{program} started"
    elapsed = _seconds(attributes[a.ELAPSED_MS])
    if event_name == s.LOST:
        return f"{program} was lost after {elapsed}: its supervisor is gone"
    if event_name == s.SETTLED:
        failure = attributes.get(a.ERROR_TYPE)
        if failure == attributes[a.SETTLE_REASON]:
            failure = attributes.get(a.STOP_EVIDENCE)
        why = "" if failure is None else f" ({failure})"
        return f"{program} ended after {elapsed}: {attributes[a.SETTLE_REASON]}{why}"
    if event_name == s.VERDICT_EVENT:
        limit = attributes.get(a.VERDICT_LIMIT)
        if limit is not None:
            held = _seconds(attributes.get(a.VERDICT_SINCE_MS, 0))
            return f"{program} has been {command.verdict} for {held} after {elapsed} ({limit})"
        return f"{program} is now {command.verdict} after {elapsed}"
    age = attributes.get(a.LAST_OUTPUT_AGE_MS)
    silence = "no output yet" if age is None else f"last output {_seconds(age)} ago"
    verdict = "" if command.standing_verdict is None else f", {command.standing_verdict}"
    return f"{program} still runs after {elapsed}, {silence}{verdict}"


def _seconds(milliseconds: object) -> str:
    return f"{float(str(milliseconds)) / 1000:.1f} s"
