"""W3C trace context in and out: TRACEPARENT and TRACESTATE of the environment.

Source: https://www.w3.org/TR/trace-context/ and, for the variables,
https://opentelemetry.io/docs/specs/otel/context/env-carriers/.
"""

_HEX = frozenset("0123456789abcdef")
_TRACESTATE_MAX_CHARS = 512
_TRACESTATE_MAX_MEMBERS = 32
_KEY_START = frozenset("abcdefghijklmnopqrstuvwxyz0123456789")
_KEY = _KEY_START | frozenset("_-*/@")
SAMPLED = 0x01
RANDOM_TRACE_ID = 0x02
"""Of level 2: the trace id's last seven bytes are random, which samplers further down rely on."""


class TraceContext:
    """Where the command's span stands: its own ids, its parent's span id (None in a new trace), flags.

    `trace_id` is 32 and `span_id` 16 lower-case hex digits; `flags` is of SAMPLED and RANDOM_TRACE_ID.
    """

    __slots__ = ("flags", "parent_span_id", "span_id", "trace_id", "trace_state")

    def __init__(
        self, trace_id: str, span_id: str, parent_span_id: str | None, flags: int, trace_state: str | None
    ) -> None:
        self.trace_id = trace_id
        self.span_id = span_id
        self.parent_span_id = parent_span_id
        self.flags = flags
        self.trace_state = trace_state

    @property
    def traceparent(self) -> str:
        """The header that makes this span the parent: what the command gets as TRACEPARENT."""
        return format_traceparent(self.trace_id, self.span_id, self.flags)


def format_traceparent(trace_id: str, span_id: str, flags: int) -> str:
    """Version 00 of the header."""
    return f"00-{trace_id}-{span_id}-{flags:02x}"


def parse_traceparent(value: str) -> tuple[str, str, int] | None:
    """(trace id, span id, flags) of a well-formed traceparent, else None.

    A higher version is read as version 00 if what follows is separated by a dash, as section 3.2.2 asks;
    `ff` and all-zero ids are invalid.
    """
    value = value.strip()
    if len(value) < 55 or (len(value) > 55 and (value[:2] == "00" or value[55] != "-")):
        return None
    version, trace_id, span_id, flags = value[:2], value[3:35], value[36:52], value[53:55]
    if value[2] != "-" or value[35] != "-" or value[52] != "-" or version == "ff":
        return None
    if not _HEX.issuperset(version + trace_id + span_id + flags):
        return None
    if trace_id == "0" * 32 or span_id == "0" * 16:
        return None
    return trace_id, span_id, int(flags, 16)


def is_tracestate(value: str) -> bool:
    """Whether it is a list of key=value as section 3.3 has it (keys as level 2 does), with at least one member."""
    if len(value) > _TRACESTATE_MAX_CHARS:
        return False
    keys = []
    for item in value.split(","):
        member = item.strip(" \t")
        if not member:
            continue  # an empty member is allowed
        key, equals, text = member.partition("=")
        if not equals or not 0 < len(key) <= 256 or key[0] not in _KEY_START or not _KEY.issuperset(key):
            return False
        if not 0 < len(text) <= 256 or "=" in text or any(not " " <= letter <= "~" for letter in text):
            return False
        keys.append(key)
    return 0 < len(keys) == len(set(keys)) <= _TRACESTATE_MAX_MEMBERS


def begin_span(traceparent: str | None, tracestate: str | None, random_bytes: bytes) -> TraceContext:
    """The context of a new span, child of `traceparent` where that is well formed, else of nothing.

    `random_bytes` is 24 bytes of entropy, injected so that this stays pure. A malformed parent starts a new
    trace, and its tracestate is dropped with it; so is one that is malformed itself. A new trace is sampled, and
    says that its id is random, as a root span of the OpenTelemetry SDK does. A parent's flags are passed on, save
    those that have no meaning yet.
    """
    span_id = _nonzero(random_bytes[16:24]).hex()
    parent = parse_traceparent(traceparent) if traceparent else None
    if parent is None:
        return TraceContext(_nonzero(random_bytes[:16]).hex(), span_id, None, SAMPLED | RANDOM_TRACE_ID, None)
    trace_id, parent_span_id, flags = parent
    if tracestate is not None and not is_tracestate(tracestate):
        tracestate = None
    return TraceContext(trace_id, span_id, parent_span_id, flags & (SAMPLED | RANDOM_TRACE_ID), tracestate)


def _nonzero(raw: bytes) -> bytes:
    return raw if any(raw) else raw[:-1] + b"\x01"
