"""Subscribers: who gets which record, in which format, and what becomes of one that does not keep up.

A subscriber is never waited for. What it has not read yet waits in its own transport's buffer, up to a bound;
one that goes over it gets a last {"type": "lagged"} and is dropped.

Formats are looked up in a table of encoder factories, which sidecar.gateways fills. A factory gets the
subscribe object (mcp needs its progressToken from there). One that returns the same encoder for everybody, as
`ndjson` does, has each record encoded once, however many subscribers there are.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Protocol

from sidecar.core import frame as wire
from sidecar.core.command import Command
from sidecar.core.errors import FrameError
from sidecar.gateways.formats import FORMATS

log = logging.getLogger(__name__)

MAX_BUFFERED_BYTES: Final = 1 << 20
DEFAULT_FORMAT: Final = "ndjson"

Record = dict[str, Any]
# What a record can do without, most dispensable first, where it does not fit into a line otherwise.
_DISPENSABLE: Final = ("silences", "evidence", "unseen", "commandLine", "traceState", "tracestate", "parentSpanId")


class Encoder(Protocol):
    """One format. `snapshot` and `record` give objects, each of which `line` makes a line; none = nothing to say."""

    def snapshot(self, commands: list[tuple[Command, Record]]) -> Iterable[Record]:
        """The running commands at the time of subscribing, each with its counts (`counts_of`)."""

    def record(self, command: Command, frame: Record) -> Iterable[Record]:
        """A command_started, shell_progress, verdict or command_settled frame of `command`."""

    def line(self, record: Record) -> bytes:
        """One line, newline included. Raises FrameError where it would be too long."""


EncoderFactory = Callable[[Mapping[str, Any]], Encoder]


class NdjsonEncoder:
    """The native format: heartbeats as ACP's tool_call_update body, the rest as the producer's own keys."""

    def snapshot(self, commands: list[tuple[Command, Record]]) -> Iterable[Record]:
        yield {"type": "snapshot", "commands": len(commands)}
        for command, counts in commands:
            yield {**_own_keys(command, command.identity), "snapshot": True, **counts}

    def record(self, command: Command, frame: Record) -> Iterable[Record]:
        if frame["type"] == wire.PROGRESS:
            return (wire.native(command.identity, frame),)
        return (_own_keys(command, frame),)

    def line(self, record: Record) -> bytes:
        return wire.encode(record)


_NDJSON: Final = NdjsonEncoder()
ENCODERS: Final[dict[str, EncoderFactory]] = {"ndjson": lambda _: _NDJSON, **FORMATS}


_LATE_MS: Final = 5000
"""A heartbeat that is later than on any machine that is merely busy: its supervisor is stopped, or stuck."""


def counts_of(command: Command, now_ns: int) -> Record:
    """What is known of a running command now: times in ms; absent = not known, or no output yet."""
    counts: Record = {
        "elapsedMs": command.elapsed_ms(now_ns),
        "hasOutput": command.has_output,
        "silent": command.silent,
        "totalBytes": command.total_bytes,
        "totalLines": command.total_lines,
        "heartbeatCount": command.heartbeat_count,
    }
    if command.has_output:
        counts["lastOutputAgeMs"] = command.output_age_ms(now_ns)
    if command.repeats:
        counts["repeats"] = True
    if (delay_ms := command.heartbeat_delay_ms(now_ns)) >= _LATE_MS:
        counts["heartbeatDelayMs"] = delay_ms
    if command.verdict_stands:
        counts |= {**command.finding, "group": command.verdict_group, "sinceMs": command.verdict_held_ms(now_ns)}
    return counts


class Line(Protocol):
    """The part of asyncio.WriteTransport that a subscriber needs."""

    def write(self, data: bytes) -> None: ...

    def get_write_buffer_size(self) -> int: ...


class Subscriber:
    """One subscriber. `drop` ends its connection after what is buffered was sent, within a bounded time."""

    def __init__(
        self, subscribe: Mapping[str, Any], encoder: Encoder, line: Line, drop: Callable[[], None]
    ) -> None:
        self.encoder = encoder
        self.line = line
        self.drop = drop
        self.allowed_bytes = MAX_BUFFERED_BYTES
        self._tool_call_id = subscribe.get("toolCallId")
        self._session_id = subscribe.get("sessionId")

    def wants(self, command: Command) -> bool:
        identity = command.identity
        return (self._tool_call_id is None or identity.get("toolCallId") == self._tool_call_id) and (
            self._session_id is None or identity.get("sessionId") == self._session_id
        )


class FanOut:
    """All subscribers. `lagged` counts those that were dropped for being slow."""

    def __init__(
        self, encoders: Mapping[str, EncoderFactory] = ENCODERS, max_buffered_bytes: int = MAX_BUFFERED_BYTES
    ) -> None:
        self.subscribers: set[Subscriber] = set()
        self.lagged = 0
        self._encoders = encoders
        self._max_buffered_bytes = max_buffered_bytes

    def add(
        self,
        subscribe: Mapping[str, Any],
        line: Line,
        drop: Callable[[], None],
        commands: Iterable[Command],
        now_ns: int,
    ) -> Subscriber:
        """A new subscriber, which gets its snapshot at once. Raises FrameError for a bad `subscribe`."""
        for key in ("format", "toolCallId", "sessionId"):
            if not isinstance(subscribe.get(key), str | None):
                raise FrameError(f"{key} must be a string")
        name = subscribe.get("format") or DEFAULT_FORMAT
        factory = self._encoders.get(name)
        if factory is None:
            raise FrameError(f"no format {name!r:.40}; use one of {', '.join(sorted(self._encoders))}")
        subscriber = Subscriber(subscribe, factory(subscribe), line, drop)
        seen = [(command, counts_of(command, now_ns)) for command in commands if subscriber.wants(command)]
        line.write(_lines(subscriber.encoder.snapshot(seen), subscriber.encoder.line))
        # A large snapshot that is still on its way must not make its reader a slow one.
        subscriber.allowed_bytes = self._max_buffered_bytes + line.get_write_buffer_size()
        self.subscribers.add(subscriber)
        return subscriber

    def remove(self, subscriber: Subscriber) -> None:
        self.subscribers.discard(subscriber)

    def publish(self, command: Command, frame: Record) -> None:
        """Give `frame` (of any type but output_activity) to every subscriber that wants it."""
        encoded: dict[int, bytes] = {}
        for subscriber in tuple(self.subscribers):
            if not subscriber.wants(command):
                continue
            data = encoded.get(id(subscriber.encoder))
            if data is None:
                data = self._encode(subscriber.encoder, command, frame)
                encoded[id(subscriber.encoder)] = data
            if subscriber.line.get_write_buffer_size() + len(data) > subscriber.allowed_bytes:
                self._drop(subscriber)
            elif data:
                subscriber.line.write(data)

    def _drop(self, subscriber: Subscriber) -> None:
        self.lagged += 1
        self.subscribers.discard(subscriber)
        subscriber.line.write(wire.encode({"type": "lagged"}))
        subscriber.drop()

    @staticmethod
    def _encode(encoder: Encoder, command: Command, frame: Record) -> bytes:
        try:
            return _lines(encoder.record(command, frame), encoder.line)
        except Exception:
            log.exception("the encoder %s failed on a %s", type(encoder).__name__, frame["type"])
            return b""


def _own_keys(command: Command, frame: Record) -> Record:
    record = {key: value for key, value in frame.items() if key != "replay"}
    for key in ("toolCallId", "sessionId"):
        if key in command.identity:
            record[key] = command.identity[key]
    return record


def _lines(records: Iterable[Record], encode: Callable[[Record], bytes]) -> bytes:
    return b"".join(encode_record(record, encode) for record in records)


def encode_record(record: Record, encode: Callable[[Record], bytes] = wire.encode) -> bytes:
    """One line of at most 8 KiB: a record that does not fit loses what it can do without, or is left out.

    (A frame that just fitted may not once identity keys were added, or its UTF-8 became escapes.)
    """
    try:
        return encode(record)
    except FrameError:
        pass
    try:
        return encode(_without_dispensable(record))
    except FrameError as error:
        log.warning("a %s record is left out: %s", record.get("type", "native"), error)
        return b""


def _without_dispensable(record: Record) -> Record:
    return {
        key: _without_dispensable(value) if isinstance(value, dict) else value
        for key, value in record.items()
        if key not in _DISPENSABLE
    }
