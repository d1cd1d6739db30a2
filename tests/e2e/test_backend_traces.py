"""Sidecar, Collector, Jaeger and what stands for Loki, all real: what an operator finds there, and when."""

import os
import signal
from pathlib import Path

from backends import Collector, eventually
from installed import Sidecar, new_trace
from jaeger_backend import Jaeger, JaegerSpan
from stack import Stack

from sidecar.testing.otlp import OtlpReceiver

SPAN_METRIC_LABELS = {
    *("__name__", "job", "instance", "collector", "service_name", "host_name", "status_code"),
    *("sidecar_span_role", "sidecar_settle_reason"),
    # Come with include_instrumentation_scope, and cannot be left out.
    *("span_instrumentation_scope_name", "span_instrumentation_scope_version"),
}


def spans_of(jaeger: Jaeger, trace_id: str, role: str) -> list[JaegerSpan]:
    return [span for span in jaeger.trace(trace_id) if span.role == role]


def test_a_silent_command_is_in_jaeger_while_it_runs_and_whole_afterwards(stack: Stack, tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    traceparent, trace_id, parent_id = new_trace()
    options = ["--tool-call-id", "call_1", "--tool-name", "Bash", "--session-id", "s-1"]
    with Sidecar(tmp_path, stack.collector.http) as sidecar:
        running = sidecar.start(
            "sh", "-c", f"echo one; read line < {fifo}; exit 3", options=options, TRACEPARENT=traceparent
        )
        (started,) = eventually("started in Jaeger", lambda: spans_of(stack.jaeger, trace_id, "started"))
        beats = eventually("a heartbeat in Jaeger", lambda: spans_of(stack.jaeger, trace_id, "heartbeat"))
        assert running.poll() is None
        assert spans_of(stack.jaeger, trace_id, "command") == []

        with open(fifo, "w") as writer:
            writer.write("go on\n")
        assert running.wait(10) == 3
        (command,) = eventually("the command in Jaeger", lambda: spans_of(stack.jaeger, trace_id, "command"))

    assert (command.name, command.parent_id) == ("sh", parent_id)
    assert {started.parent_id, *(beat.parent_id for beat in beats)} == {command.span_id}
    expected = {
        "process.executable.name": "sh",
        "process.exit.code": 3,
        "error.type": "3",
        "error": True,
        "span.kind": "client",
        "gen_ai.tool.call.id": "call_1",
        "gen_ai.tool.name": "Bash",
        "session.id": "s-1",
        "sidecar.settle.reason": "exited",
        "sidecar.output.bytes": 4,
        "sidecar.output.lines": 1,
    }
    assert {key: command.tags.get(key) for key in expected} == expected
    # Why it is silent is told as well, if it was silent for long enough.
    events = [event["event"] for event in command.events]
    assert command.tags["shell.heartbeat_count"] == events.count("sidecar.heartbeat") >= 1
    assert set(events) <= {"sidecar.heartbeat", "sidecar.verdict"}
    assert command.process["service.name"] == "sidecar"
    assert command.process["host.name"] == os.uname().nodename
    everything = stack.jaeger.trace(trace_id)
    assert len({span.span_id for span in everything}) == len(everything)
    # The parent was never sent here; Jaeger says so, and of nothing else.
    assert {warning for span in everything for warning in span.warnings} <= {
        f"invalid parent span IDs={parent_id}; skipping clock skew adjustment"
    }


def test_log_events_reach_loki_in_the_trace(stack: Stack, tmp_path: Path) -> None:
    traceparent, trace_id, _ = new_trace()
    with Sidecar(tmp_path, stack.collector.http) as sidecar:
        running = sidecar.start("sleep", "30", TRACEPARENT=traceparent)
        beat = stack.loki.wait_for_log(
            lambda log: (log.trace_id, log.event_name) == (trace_id, "sidecar.heartbeat"), 60
        )
        assert running.poll() is None
        os.kill(running.pid, signal.SIGTERM)
        running.wait(10)
        settled = stack.loki.wait_for_log(
            lambda log: (log.trace_id, log.event_name) == (trace_id, "sidecar.settled"), 60
        )
    assert beat.attributes["process.executable.name"] == "sleep"
    assert beat.attributes["shell.heartbeat_count"] == 1
    assert settled.attributes["sidecar.settle.signal"] == "SIGTERM"
    assert settled.resource["service.name"] == "sidecar"
    assert {path for path, _ in stack.loki.requests} == {"/otlp/v1/logs"}


def test_a_secret_does_not_pass_the_collector(stack: Stack, tmp_path: Path) -> None:
    """An agent that puts a token where the sidecar takes a name; and a command's own span."""
    token = f"ghp_{os.urandom(18).hex()}"
    traceparent, trace_id, _ = new_trace()
    options = ["--session-id", f"s-{token}", "--tool-name", f"https://me:{token[4:]}@example.org/x"]
    with Sidecar(tmp_path, stack.collector.http) as sidecar:
        sidecar.start("true", options=options, TRACEPARENT=traceparent).wait(10)
        (command,) = eventually("the command in Jaeger", lambda: spans_of(stack.jaeger, trace_id, "command"))
        log = stack.loki.wait_for_log(lambda log: (log.trace_id, log.event_name) == (trace_id, "sidecar.settled"), 60)
    assert command.tags["session.id"] == log.attributes["session.id"] == "s-****"
    assert command.tags["gen_ai.tool.name"] == log.attributes["gen_ai.tool.name"] == "https****example.org/x"
    assert command.tags["redaction.masked.count"] == 3  # session.id, gen_ai.conversation.id, gen_ai.tool.name
    assert command.tags["process.executable.name"] == "true"
    everything = [*stack.jaeger.trace(trace_id), *(log for log in stack.loki.logs if log.trace_id == trace_id)]
    assert len(everything) >= 4
    assert token[4:] not in repr(everything)


def test_over_a_unix_socket(installed: str, tmp_path: Path) -> None:
    path = tmp_path / "otlp.sock"
    _, trace_id, _ = new_trace()
    with (
        OtlpReceiver(grpc=True) as backend,
        Collector(
            tmp_path,
            GRPC_TRANSPORT="unix",
            GRPC=str(path),
            TRACES_ENDPOINT=backend.grpc_endpoint.removeprefix("http://"),
            LOGS_ENDPOINT=backend.http_endpoint,
        ),
        Sidecar(tmp_path, f"unix:{path}") as sidecar,
    ):
        sidecar.start("true", TRACEPARENT=f"00-{trace_id}-{'1' * 16}-01").wait(10)
        span = backend.wait_for_span(lambda span: span.attributes.get("sidecar.span.role") == "command", 60)
        assert span.trace_id == trace_id
        backend.wait_for_log(lambda log: log.event_name == "sidecar.settled", 60)


def test_the_collector_of_the_first_look_prints_what_arrives(installed: str, tmp_path: Path) -> None:
    with (
        Collector(tmp_path, "deploy/collector-print.yaml") as collector,
        Sidecar(tmp_path, collector.http) as sidecar,
    ):
        sidecar.start("true").wait(10)
        eventually("a span in the log", lambda: "sidecar.span.role: Str(command)" in collector.log_text())
        eventually("a metric in the log", lambda: "Name: sidecar.output.age" in collector.log_text())


def test_what_has_no_daemon_is_counted_from_its_spans(stack: Stack, tmp_path: Path) -> None:
    """Two commands of `--inline`, two processes with ids of their own: one series that says 2."""
    # No other test here has a limit of silence.
    labels = '{sidecar_span_role="command",sidecar_settle_reason="silence_timeout"}'
    with Sidecar(tmp_path, stack.collector.http) as sidecar:
        for _ in range(2):
            command = sidecar.start("sleep", "60", options=["--inline", "--silence-timeout", "500ms"])
            assert command.wait(15) == 124
    calls = eventually(
        "two calls",
        lambda: [
            (found, count) for found, count in stack.prometheus.ask(f"sidecar_spans_calls_total{labels}") if count >= 2
        ],
    )
    assert [count for _, count in calls] == [2]
    assert {key for found, _ in calls for key in found} == SPAN_METRIC_LABELS
    assert calls[0][0]["host_name"] == os.uname().nodename
    ((_, seconds),) = stack.prometheus.ask(f"sidecar_spans_duration_seconds_sum{labels}")
    assert 1 < seconds < 60
