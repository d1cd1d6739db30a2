"""A command's place in its trace: span contexts made from the ids that the supervisor chose."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from opentelemetry.trace import SpanContext, TraceFlags, TraceState

if TYPE_CHECKING:
    from sidecar.core.command import Command

_NS_PER_MS = 1_000_000
_MAX_UNIX_NS = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Identity:
    """`span` is S, the command's own span; `parent` is what the supervisor was called under, if anything."""

    span: SpanContext
    parent: SpanContext | None
    start_unix_ns: int

    @property
    def sampled(self) -> bool:
        return bool(self.span.trace_flags & TraceFlags.SAMPLED)

    def at_ns(self, elapsed_ms: int) -> int:
        """The unix time `elapsed_ms` after the command's start; ages are monotonic, only the start is wall time.

        Whatever a producer claims, it fits into OTLP: one time that does not would cost the whole batch.
        """
        return min(self.start_unix_ns + elapsed_ms * _NS_PER_MS, _MAX_UNIX_NS)


def identity_of(command: Command) -> Identity:
    """The identity of a command. Raises ValueError for ids that are no ids."""
    frame = command.identity
    flags = TraceFlags(int(frame["traceFlags"], 16))
    header = frame.get("traceState")
    state = TraceState.from_header([header]) if header else None
    trace_id = int(frame["traceId"], 16)

    def context(span_id: str, *, remote: bool) -> SpanContext:
        made = SpanContext(trace_id, int(span_id, 16), remote, flags, state)
        if not made.is_valid:
            raise ValueError(f"trace id {frame['traceId']!r:.40} or span id {span_id!r:.40} is not valid")
        return made

    parent = frame.get("parentSpanId")
    return Identity(
        context(frame["spanId"], remote=False),
        context(parent, remote=True) if parent else None,
        min(frame["startUnixMs"] * _NS_PER_MS, _MAX_UNIX_NS),
    )
