"""A command's three kinds of span, built ready-made.

A span is exported when it ends, with all its events; so a hung command's heartbeats would arrive after the
hang. Hence short children that are exported while the command runs, and the command's own span once, at the
end. The SDK's tracer would choose span ids itself, and S's was given to the command as TRACEPARENT long
before; so spans are made as `ReadableSpan`s, which is what a tracer hands to its processor too.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode

from sidecar import __version__
from sidecar.telemetry import describe
from sidecar.telemetry.conventions import attributes as a
from sidecar.telemetry.conventions import signals as s

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opentelemetry.sdk.resources import Resource

    from sidecar.core.command import Command
    from sidecar.telemetry.identity import Identity

_NS_PER_MS = 1_000_000


class SpanBuilder:
    """Makes spans of one resource. Nothing is sent from here."""

    def __init__(self, resource: Resource) -> None:
        self._resource = resource
        self._scope = InstrumentationScope("sidecar", __version__)

    def command(self, command: Command, identity: Identity) -> ReadableSpan:
        """S: the whole command, once it has settled."""
        settled = describe.settled_frame(command)
        attributes = {
            a.SPAN_ROLE: s.ROLE_COMMAND,
            **describe.who(command),
            **describe.how(command),
            # After a change of daemons, what the supervisor's own selection left out was never here to be dropped.
            a.EVENTS_DROPPED: max(command.beats.dropped, command.heartbeat_count - _heartbeats(command)),
            **describe.end(command),
        }
        error = attributes.get(a.ERROR_TYPE)
        events = [
            self._event(
                s.HEARTBEAT if beat.is_heartbeat else s.VERDICT_EVENT,
                identity.at_ns(beat.elapsed_ms),
                beat.seq,
                beat.elapsed_ms,
                beat.last_output_age_ms,
                beat.verdict,
            )
            for beat in command.beats.kept
        ]
        return ReadableSpan(
            name=command.identity["program"],
            context=identity.span,
            parent=identity.parent,
            resource=self._resource,
            attributes=attributes,
            events=events,
            kind=SpanKind.CLIENT,
            status=Status(StatusCode.ERROR if error is not None else StatusCode.UNSET),
            start_time=identity.start_unix_ns,
            end_time=_after(identity.start_unix_ns, identity.at_ns(settled["elapsedMs"])),
            instrumentation_scope=self._scope,
        )

    def started(self, command: Command, identity: Identity) -> ReadableSpan:
        """The sign that the command began: a nanosecond, at its start."""
        attributes = {
            a.SPAN_ROLE: s.ROLE_STARTED,
            **describe.who(command),
            **describe.how(command),
        }
        return self._child(s.STARTED, identity, attributes, command.identity["seq"], 0, 0)

    def heartbeat(
        self, command: Command, identity: Identity, seq: int, elapsed_ms: int, age_ms: int | None, name: str
    ) -> ReadableSpan:
        """The silence so far, from the last output (or the start) to now.

        `name` is that of the event it carries: s.HEARTBEAT, or s.VERDICT_EVENT for a change between heartbeats.
        """
        attributes = {
            a.SPAN_ROLE: s.ROLE_HEARTBEAT,
            **describe.who(command),
            a.HEARTBEAT_COUNT: command.heartbeat_count,
            **describe.moment(command, elapsed_ms, age_ms),
        }
        silent_ms = elapsed_ms if age_ms is None else min(age_ms, elapsed_ms)
        verdict = command.standing_verdict
        event = self._event(
            name, identity.at_ns(elapsed_ms), seq, elapsed_ms, age_ms, verdict, command.evidence if verdict else ()
        )
        return self._child(s.HEARTBEAT, identity, attributes, seq, elapsed_ms - silent_ms, elapsed_ms, event)

    def _child(
        self,
        name: str,
        identity: Identity,
        attributes: describe.Attributes,
        seq: int,
        start_ms: int,
        end_ms: int,
        *events: Event,
    ) -> ReadableSpan:
        parent = identity.span
        context = SpanContext(
            parent.trace_id, _child_id(parent.span_id, seq), False, parent.trace_flags, parent.trace_state
        )
        return ReadableSpan(
            name=name,
            context=context,
            parent=parent,
            resource=self._resource,
            attributes=attributes,
            events=events,
            start_time=identity.at_ns(start_ms),
            end_time=_after(identity.at_ns(start_ms), identity.at_ns(end_ms)),
            instrumentation_scope=self._scope,
        )

    @staticmethod
    def _event(
        name: str,
        time_unix_ns: int,
        seq: int,
        elapsed_ms: int,
        age_ms: int | None,
        verdict: str | None,
        evidence: Sequence[str] = (),
    ) -> Event:
        attributes: describe.Attributes = {a.SEQ: seq, a.ELAPSED_MS: elapsed_ms}
        if age_ms is not None:
            attributes[a.LAST_OUTPUT_AGE_MS] = age_ms
        if verdict is not None:
            attributes[a.VERDICT] = verdict
        if evidence:
            attributes[a.EVIDENCE] = list(evidence)
        return Event(name, attributes, time_unix_ns)


def _after(start_ns: int, end_ns: int) -> int:
    # Jaeger takes a span that ends as it starts for one of negative length, mends it, and shows a warning.
    return max(end_ns, start_ns + 1)


def _child_id(parent_id: int, seq: int) -> int:
    """The id of the span that tells of one frame: always the same, so that one who is told twice has it once."""
    digest = blake2b(b"%x %d" % (parent_id, seq), digest_size=8).digest()
    return int.from_bytes(digest, "big") or 1


def _heartbeats(command: Command) -> int:
    return sum(beat.is_heartbeat for beat in command.beats.kept)
