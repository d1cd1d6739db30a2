"""Spans as they are built: ids, times, names, attributes, events, status."""

from typing import Any

import pytest
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanKind, StatusCode, format_span_id, format_trace_id

from sidecar.telemetry.conventions.signals import HEARTBEAT, SPAN_EVENTS, SPANS, VERDICT_EVENT
from sidecar.telemetry.identity import identity_of
from sidecar.telemetry.spans import SpanBuilder
from sidecar.testing import FakeClock
from sidecar.testing.scripted import ScriptedCommand

BUILDER = SpanBuilder(Resource({}))


def _command_span(script: ScriptedCommand, builder: SpanBuilder = BUILDER) -> ReadableSpan:
    return builder.command(script.command, identity_of(script.command))


def _attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def test_command_span_is_the_one_the_command_got_as_traceparent() -> None:
    clock = FakeClock()
    script = ScriptedCommand(
        clock,
        "pytest",
        parentSpanId="ab" * 8,
        traceState="vendor=x",
        toolName="Bash",
        toolCallId="call_1",
        sessionId="s-42",
        timeoutMs=120_000,
    )
    script.start()
    clock.advance(3)
    script.write(840, 12)
    clock.advance(10)
    script.beat("network_wait")
    clock.advance(2)
    script.settle(maxRssBytes=1 << 20, cpuUserMs=5, cpuSystemMs=6, descendantsLeft=1)
    span = _command_span(script)
    assert span.context is not None
    assert span.parent is not None
    assert format_trace_id(span.context.trace_id) == script.trace_id
    assert format_span_id(span.context.span_id) == script.span_id
    assert format_span_id(span.parent.span_id) == "ab" * 8
    assert span.parent.is_remote
    assert span.context.trace_state.get("vendor") == "x"
    assert (span.name, span.kind, span.status.status_code) == ("pytest", SpanKind.CLIENT, StatusCode.UNSET)
    start_ns = script.identity["startUnixMs"] * 1_000_000
    assert (span.start_time, span.end_time) == (start_ns, start_ns + 15_000_000_000)
    assert _attributes(span) == {
        "sidecar.span.role": "command",
        "sidecar.command.id": script.id,
        "process.executable.name": "pytest",
        "process.pid": 4711,
        "process.exit.code": 0,
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "Bash",
        "gen_ai.tool.call.id": "call_1",
        "gen_ai.conversation.id": "s-42",
        "session.id": "s-42",
        "shell.heartbeat_count": 1,
        "shell.last_output_age_ms": 12_000,
        "sidecar.io": "pipe",
        "sidecar.timeout_ms": 120_000,
        "sidecar.heartbeat.interval_ms": 10_000,
        "sidecar.heartbeat.events_dropped": 0,
        "sidecar.silence.longest_ms": 12_000,
        "sidecar.output.bytes": 840,
        "sidecar.output.lines": 12,
        "sidecar.settle.reason": "exited",
        "sidecar.verdict": "network_wait",
        "sidecar.verdict.group": "waiting",
        "sidecar.descendants_left": 1,
        "sidecar.memory.max_rss_bytes": 1 << 20,
        "sidecar.cpu.user_ms": 5,
        "sidecar.cpu.system_ms": 6,
    }


@pytest.mark.parametrize(
    ("reason", "fields", "error"),
    [
        ("exited", {"exitCode": 0}, None),
        ("exited", {"exitCode": 2}, "2"),
        ("signaled", {"signal": "SIGKILL"}, "signal:SIGKILL"),
        ("timeout", {"signal": "SIGTERM"}, "timeout"),
        ("silence_timeout", {"exitCode": 0}, "silence_timeout"),
        ("cancelled", {"signal": "SIGTERM"}, "cancelled"),
    ],
)
def test_error_type_and_status_come_together(reason: str, fields: dict[str, Any], error: str | None) -> None:
    script = ScriptedCommand(FakeClock())
    script.start()
    script.settle(reason, **fields)
    span = _command_span(script)
    assert _attributes(span).get("error.type") == error
    assert span.status.status_code is (StatusCode.UNSET if error is None else StatusCode.ERROR)
    assert _attributes(span).get("process.exit.code") == fields.get("exitCode")


def test_spawn_failed() -> None:
    script = ScriptedCommand(FakeClock(), "no-such-program")
    script.fail_to_spawn("ENOENT")
    attributes = _attributes(_command_span(script))
    assert attributes["error.type"] == "ENOENT"
    assert attributes["sidecar.settle.reason"] == "spawn_failed"
    assert "process.pid" not in attributes
    assert "shell.last_output_age_ms" not in attributes


def test_lost() -> None:
    clock = FakeClock()
    script = ScriptedCommand(clock)
    script.start()
    clock.advance(25)
    script.lose()
    span = _command_span(script)
    assert _attributes(span)["error.type"] == "lost"
    assert (span.end_time or 0) - (span.start_time or 0) == 25_000_000_000


def test_eight_hours_of_beats_stay_within_the_event_limit() -> None:
    clock = FakeClock()
    script = ScriptedCommand(clock)
    script.start()
    for beat in range(2880):
        clock.advance(10)
        script.beat("sleeping" if beat % 300 else "computing")
    script.settle()
    span = _command_span(script)
    assert len(span.events) <= 128
    attributes = _attributes(span)
    assert attributes["shell.heartbeat_count"] == 2880
    assert attributes["sidecar.heartbeat.events_dropped"] == 2880 - len(span.events)
    times = [event.timestamp for event in span.events]
    assert times == sorted(times)
    assert times[0] == (span.start_time or 0) + 10_000_000_000
    assert times[-1] == span.end_time
    verdicts = [(event.attributes or {}).get("sidecar.verdict") for event in span.events]
    assert verdicts.count("computing") >= 9


def test_what_an_earlier_daemon_kept_to_itself_counts_as_left_out() -> None:
    script = ScriptedCommand(FakeClock())
    command = script.start()
    script.beat()
    command.heartbeat_count = 100  # as the frame says after a replay of a selection
    script.settle(heartbeatCount=100)
    span = _command_span(script)
    assert len(span.events) == 1
    assert _attributes(span)["sidecar.heartbeat.events_dropped"] == 99


def test_heartbeat_span_covers_the_silence() -> None:
    clock = FakeClock()
    script = ScriptedCommand(clock)
    script.start()
    clock.advance(5)
    script.write()
    clock.advance(10)
    script.beat()
    identity = identity_of(script.command)
    span = BUILDER.heartbeat(script.command, identity, 2, 15_000, 10_000, HEARTBEAT)
    assert span.context is not None
    assert span.context.span_id != identity.span.span_id
    assert span.parent == identity.span
    assert span.start_time == identity.at_ns(5_000)
    assert span.end_time == identity.at_ns(15_000)
    assert [event.name for event in span.events] == [HEARTBEAT]
    without_output = BUILDER.heartbeat(script.command, identity, 2, 15_000, None, VERDICT_EVENT)
    assert without_output.start_time == identity.start_unix_ns


def test_started_span_has_no_length_and_its_own_id() -> None:
    script = ScriptedCommand(FakeClock())
    identity = identity_of(script.start())
    one, again = (BUILDER.started(script.command, identity) for _ in range(2))
    # Not of no length at all: Jaeger would show a warning at each.
    assert (one.start_time, one.end_time) == (identity.start_unix_ns, identity.start_unix_ns + 1)
    assert one.context is not None
    assert one.context.span_id != identity.span.span_id
    # Told twice, by two daemons, it is one span.
    assert again.context is not None
    assert one.context.span_id == again.context.span_id


@pytest.mark.parametrize(("identity", "expected"), [({}, None), ({"commandLine": "make -j4"}, "make -j4")])
def test_the_command_line_is_what_the_supervisor_gave(identity: dict[str, str], expected: str | None) -> None:
    script = ScriptedCommand(FakeClock(), **identity)
    script.start()
    script.settle()
    assert _attributes(_command_span(script)).get("process.command_line") == expected


@pytest.mark.parametrize("change", [{"traceId": "zz"}, {"spanId": "0" * 16}, {"traceFlags": "?"}])
def test_ids_that_are_none_are_refused(change: dict[str, str]) -> None:
    script = ScriptedCommand(FakeClock())
    command = script.start()
    command.identity |= change  # past the wire, which lets none of them in
    with pytest.raises(ValueError):
        identity_of(command)


@pytest.mark.parametrize("change", [{"startUnixMs": 2**63 - 1}, {"startUnixMs": 2**62 // 10**6}])
def test_a_time_that_otlp_cannot_say_costs_no_other_command_its_spans(change: dict[str, Any]) -> None:
    """The exporter gives up on a whole batch for one span that it cannot encode."""
    script = ScriptedCommand(FakeClock(), **change)
    identity = identity_of(script.start())
    script.settle(elapsedMs=2**63 - 1)
    spans = [
        BUILDER.started(script.command, identity),
        BUILDER.heartbeat(script.command, identity, 1, 2**63 - 1, None, HEARTBEAT),
        BUILDER.command(script.command, identity),
    ]
    assert len(encode_spans(spans).resource_spans[0].scope_spans[0].spans) == 3


def test_only_registered_attributes() -> None:
    clock = FakeClock()
    script = ScriptedCommand(clock, toolCallId="c", sessionId="s", timeoutMs=9, commandLine="x")
    identity = identity_of(script.start())
    script.write()
    clock.advance(10)
    script.beat("computing", ["a fact"])
    script.judge("sleeping")
    builder = SpanBuilder(Resource({}))
    built = {
        "started": builder.started(script.command, identity),
        "heartbeat": builder.heartbeat(script.command, identity, 1, 10_000, 10_000, HEARTBEAT),
    }
    script.settle("signaled", signal="SIGKILL", maxRssBytes=1, cpuUserMs=1, cpuSystemMs=1)
    built["command"] = builder.command(script.command, identity)
    for role, span in built.items():
        assert set(_attributes(span)) <= set(SPANS[role].attributes)
        for event in span.events:
            assert set(event.attributes or {}) <= set(SPAN_EVENTS[event.name].attributes)
