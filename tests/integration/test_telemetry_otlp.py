"""What really arrives over OTLP, by HTTP and by gRPC, while commands run and when they have ended."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any, Literal

import pytest

from sidecar.core.command import Command
from sidecar.core.receipt import Receipt
from sidecar.telemetry.conventions.attributes import ATTRIBUTES, RESOURCE, Attribute
from sidecar.telemetry.conventions.metrics import LABELS, METRICS, SDK_LABELS, SDK_METRICS, Metric
from sidecar.telemetry.conventions.signals import LOG_EVENTS, SPAN_EVENTS, SPANS
from sidecar.telemetry.pipeline import Telemetry
from sidecar.telemetry.resource import machine_id
from sidecar.telemetry.settings import TelemetrySettings
from sidecar.testing import FakeClock
from sidecar.testing.otlp import OtlpReceiver
from sidecar.testing.received import ReceivedMetric, ReceivedSpan
from sidecar.testing.scripted import ScriptedCommand


class Rig:
    """Telemetry on a fake clock, sending to a receiver; plays the daemon's part."""

    def __init__(self, receiver: OtlpReceiver, protocol: Literal["http/protobuf", "grpc"], **settings: Any) -> None:
        self.receiver = receiver
        self.clock = FakeClock()
        self.running: dict[str, Command] = {}
        endpoint = receiver.grpc_endpoint if protocol == "grpc" else receiver.http_endpoint
        made = {
            "otlp_endpoint": endpoint,
            "otlp_protocol": protocol,
            "metric_export_interval_ns": 200_000_000,
            "environ": {},
            **settings,
        }
        self.telemetry = Telemetry(
            TelemetrySettings(**made), monotonic_ns=self.clock.monotonic_ns, unix_ns=self.clock.unix_ns
        )
        self.telemetry.observe(lambda: list(self.running.values()))

    def start(self, program: str = "make", **identity: Any) -> ScriptedCommand:
        script = ScriptedCommand(self.clock, program, **identity)
        self.running[script.id] = script.start()
        self.telemetry.command_started(script.command)
        return script

    def beat(self, script: ScriptedCommand, verdict: str | None = None) -> None:
        frame = script.beat(verdict)
        self.telemetry.heartbeat(script.command, frame)

    def judge(self, script: ScriptedCommand, verdict: str) -> None:
        frame = script.judge(verdict, ["a fact"])
        self.telemetry.verdict_changed(script.command, frame)

    def settle(self, script: ScriptedCommand, reason: str = "exited", **fields: Any) -> None:
        script.settle(reason, **fields)
        self.end(script)

    def lose(self, script: ScriptedCommand) -> None:
        script.lose()
        self.end(script)

    def end(self, script: ScriptedCommand) -> None:
        self.running.pop(script.id, None)
        self.telemetry.command_settled(script.command)

    def wait_for_role(self, role: str) -> ReceivedSpan:
        return self.receiver.wait_for_span(lambda span: span.attributes["sidecar.span.role"] == role)

    def wait_for_value(self, name: str, value: float, **labels: str) -> ReceivedMetric:
        return self.receiver.wait_for_metric(
            lambda metric: metric.name == name and metric.value == value and labels.items() <= metric.attributes.items()
        )

    def wait_for_count(self, name: str, count: int) -> ReceivedMetric:
        return self.receiver.wait_for_metric(
            lambda metric: metric.name == name and metric.histogram is not None and metric.histogram.count == count
        )

    def flush(self) -> None:
        self.telemetry.shutdown(60)


@pytest.fixture(params=["http/protobuf", "grpc"])
def rig(request: pytest.FixtureRequest) -> Iterator[Rig]:
    with OtlpReceiver(grpc=request.param == "grpc") as receiver:
        made = Rig(receiver, request.param)
        yield made
        made.flush()


@pytest.fixture
def http_rig() -> Iterator[Rig]:
    with OtlpReceiver() as receiver:
        made = Rig(receiver, "http/protobuf")
        yield made
        made.flush()


def test_a_silent_command_is_seen_alive_before_it_ends_and_its_own_span_comes_once(rig: Rig) -> None:
    script = rig.start("pytest", parentSpanId="cd" * 8, timeoutMs=120_000, toolCallId="call_1", sessionId="s-42")
    started = rig.wait_for_role("started")
    rig.clock.advance(4)
    script.write(840, 12)
    rig.clock.advance(10)
    rig.beat(script, "network_wait")
    heartbeat = rig.wait_for_role("heartbeat")
    assert not [span for span in rig.receiver.spans if span.attributes["sidecar.span.role"] == "command"]
    for span in (started, heartbeat):
        assert (span.trace_id, span.parent_span_id) == (script.trace_id, script.span_id)
        assert span.name == f"sidecar.{span.attributes['sidecar.span.role']}"
        assert span.attributes["gen_ai.tool.call.id"] == "call_1"
    assert started.start_unix_ns == started.end_unix_ns - 1  # Jaeger warns of none at all
    assert heartbeat.end_unix_ns - heartbeat.start_unix_ns == 10_000_000_000
    assert [event.name for event in heartbeat.events] == ["sidecar.heartbeat"]

    rig.clock.advance(1)
    rig.settle(script, exitCode=2)
    rig.flush()
    (command,) = [span for span in rig.receiver.spans if span.attributes["sidecar.span.role"] == "command"]
    assert (command.trace_id, command.span_id, command.parent_span_id) == (
        script.trace_id,
        script.span_id,
        "cd" * 8,
    )
    assert (command.name, command.kind, command.status) == ("pytest", "CLIENT", "ERROR")
    assert command.attributes["shell.heartbeat_count"] == 1
    assert command.attributes["shell.last_output_age_ms"] == 11_000
    assert command.attributes["process.exit.code"] == 2
    assert command.attributes["error.type"] == "2"
    assert [event.name for event in command.events] == ["sidecar.heartbeat"]
    assert len({span.span_id for span in rig.receiver.spans}) == 3
    assert rig.telemetry.status()["problems"] == []


def test_log_events_tell_it_all_in_the_spans_context(rig: Rig) -> None:
    script = rig.start("pytest")
    rig.clock.advance(10)
    rig.beat(script, "sleeping")
    rig.clock.advance(2)
    rig.judge(script, "network_peer_dead")
    lost = rig.start("make")
    rig.lose(lost)
    rig.settle(script, "timeout", signal="SIGTERM")
    rig.flush()
    ours = [log for log in rig.receiver.logs if log.span_id == script.span_id]
    assert [log.event_name for log in ours] == [
        "sidecar.started",
        "sidecar.verdict",
        "sidecar.heartbeat",
        "sidecar.verdict",
        "sidecar.settled",
    ]
    assert {log.trace_id for log in ours} == {script.trace_id}
    assert [log.severity for log in ours] == ["INFO", "INFO", "INFO", "WARN", "INFO"]
    assert ours[3].attributes["sidecar.verdict.previous"] == "sleeping"
    assert ours[3].attributes["sidecar.evidence"] == ["a fact"]
    assert ours[2].body == "pytest still runs after 10.0 s, no output yet, sleeping"
    assert ours[4].attributes["error.type"] == "timeout"
    theirs = [log for log in rig.receiver.logs if log.span_id == lost.span_id]
    assert [(log.event_name, log.severity) for log in theirs] == [
        ("sidecar.started", "INFO"),
        ("sidecar.lost", "ERROR"),
    ]


def test_metrics_by_name_unit_and_labels(rig: Rig) -> None:
    assert rig.wait_for_value("sidecar.commands.lost", 0, family="make").monotonic
    first = rig.start("make", sessionId="s-1")
    rig.clock.advance(10)
    rig.beat(first, "network_peer_dead")
    suspect = rig.wait_for_value("sidecar.suspect.output.age", 10, family="make", session="s-1")
    assert suspect.attributes["trace_id"] == first.trace_id
    active = rig.wait_for_value("sidecar.commands.active", 1, family="make", state="silent")
    assert (active.kind, active.monotonic, active.unit) == ("sum", False, "{command}")
    rig.wait_for_value("sidecar.output.age", 10)
    rig.lose(first)
    lost = rig.wait_for_value("sidecar.commands.lost", 1, family="make")
    assert (lost.unit, lost.cumulative, lost.monotonic) == ("{command}", True, True)
    rig.wait_for_value("sidecar.verdicts", 1, family="make", verdict="network_peer_dead")
    rig.wait_for_value("sidecar.heartbeats", 1, family="make", verdict="network_peer_dead")
    durations = [rig.wait_for_count("sidecar.command.duration", count) for count in (0, 1)]
    assert [each.attributes for each in durations] == [{"family": "make", "outcome": "lost"}] * 2
    assert [each.histogram.sum for each in durations if each.histogram] == [0, 10]
    rig.wait_for_value("sidecar.commands.active", 0, family="make", state="silent")
    assert any(metric.name.startswith("otel.sdk.processor.span") for metric in rig.receiver.metrics)
    # The suspect is gone with its command: nothing lingers.
    rig.receiver.clear()
    rig.wait_for_value("sidecar.suspect.hidden", 0)
    assert not [metric for metric in rig.receiver.metrics if metric.name == "sidecar.suspect.output.age"]


def test_unsampled_has_no_spans_but_logs_and_metrics(rig: Rig) -> None:
    script = rig.start("make", traceFlags="00", parentSpanId="ab" * 8)
    rig.clock.advance(10)
    rig.beat(script, "sleeping")
    rig.settle(script)
    rig.flush()
    assert rig.receiver.spans == []
    assert [log.event_name for log in rig.receiver.logs][-1] == "sidecar.settled"
    assert rig.wait_for_value("sidecar.heartbeats", 1, verdict="sleeping")


def test_lost_and_spawn_failed(rig: Rig) -> None:
    lost = rig.start("make")
    rig.clock.advance(30)
    rig.lose(lost)
    failed = ScriptedCommand(rig.clock, "no-such-program")
    failed.fail_to_spawn("ENOENT")
    rig.end(failed)
    rig.flush()
    spans = {span.span_id: span for span in rig.receiver.spans}
    assert spans[lost.span_id].attributes["error.type"] == "lost"
    assert spans[lost.span_id].end_unix_ns - spans[lost.span_id].start_unix_ns == 30_000_000_000
    assert spans[failed.span_id].attributes["error.type"] == "ENOENT"
    assert spans[failed.span_id].status == "ERROR"
    assert spans[failed.span_id].name == "no-such-program"
    # A spawn that failed was never started.
    assert len([span for span in rig.receiver.spans if span.name == "sidecar.started"]) == 1


def test_eight_hours_of_silence(http_rig: Rig) -> None:
    rig = http_rig
    script = rig.start("make")
    for _ in range(2880):
        rig.clock.advance(10)
        rig.beat(script, "sleeping")
    rig.settle(script)
    rig.flush()
    roles = [span.attributes["sidecar.span.role"] for span in rig.receiver.spans]
    assert roles.count("heartbeat") == 481
    (command,) = [span for span in rig.receiver.spans if span.attributes["sidecar.span.role"] == "command"]
    assert command.attributes["shell.heartbeat_count"] == 2880
    assert len(command.events) <= 128
    assert len(command.events) + command.attributes["sidecar.heartbeat.events_dropped"] == 2880


def test_what_an_earlier_daemon_told_is_not_told_again(http_rig: Rig) -> None:
    rig = http_rig
    script = ScriptedCommand(rig.clock, "make")
    rig.running[script.id] = script.start()
    script.command.identity["replay"] = True
    rig.telemetry.command_started(script.command)
    frame = script.beat("sleeping") | {"replay": True}
    rig.telemetry.heartbeat(script.command, frame)
    rig.clock.advance(10)
    rig.beat(script, "sleeping")
    rig.settle(script)
    rig.flush()
    assert [log.event_name for log in rig.receiver.logs if log.event_name != "sidecar.verdict"] == [
        "sidecar.heartbeat",
        "sidecar.settled",
    ]
    assert not [span for span in rig.receiver.spans if span.name == "sidecar.started"]
    assert rig.wait_for_value("sidecar.commands.started", 0, family="make")
    (command,) = [span for span in rig.receiver.spans if span.span_id == script.span_id]
    assert command.attributes["shell.heartbeat_count"] == 2


def test_a_hostile_identity_costs_nobody_else(http_rig: Rig) -> None:
    rig = http_rig
    bad = rig.start("evil", traceId="0" * 32)
    rig.beat(bad)
    rig.settle(bad)
    good = rig.start("make")
    rig.settle(good)
    rig.flush()
    assert good.span_id in {span.span_id for span in rig.receiver.spans}
    assert rig.telemetry.status()["problem_count"] >= 3


def play_everything(rig: Rig) -> None:
    """What makes every span, event, log event and metric, with every attribute that each can have."""
    script = rig.start(
        "pytest",
        toolName="Bash",
        toolCallId="call_1",
        sessionId="s-42",
        timeoutMs=60_000,
        silenceTimeoutMs=50_000,
        commandLine="pytest -x",
        parentSpanId="cd" * 8,
    )
    rig.clock.advance(4)
    script.write(840, 12)
    rig.clock.advance(10)
    leaf = {"pid": 4712, "program": "psql"}
    finding = {"confidence": "measured", "sinceMs": 1, "alive": True, "progress": False, "leaf": leaf}
    rig.telemetry.heartbeat(script.command, script.beat("network_wait", ["a fact"], **finding))
    rig.clock.advance(3)
    for limit in ({}, {"limit": "may_be_hung:1s=report"}):
        told = script.judge("network_peer_dead", ["another"], **finding, **limit)
        rig.telemetry.verdict_changed(script.command, told)
    rig.wait_for_value("sidecar.suspect.output.age", 13)
    rig.clock.advance(3)
    rig.settle(script, exitCode=2, maxRssBytes=1, cpuUserMs=1, cpuSystemMs=1)
    stopped = rig.start("make")
    receipt = Receipt("cancel", "asked on the socket", 5)
    receipt.sent("SIGTERM", 6, 3)
    receipt.survivors = ["4711 dd (D, uninterruptible)"]
    told = {"suspendedMs": 1, "stop": receipt.as_json(), "outputHeldBy": ["4711 sleep: stdout"]}
    rig.settle(stopped, "cancelled", signal="SIGKILL", **told)
    # The daemon knows what it was told: a verdict, and how old the output was.
    identity = {"toolName": "Bash", "toolCallId": "call_2", "sessionId": "s-42", "timeoutMs": 60_000}
    lost = rig.start("make", **identity)
    script.write()
    lost.write()
    rig.clock.advance(30)
    lost.judge("sleeping", ["sleeps"])
    rig.lose(lost)
    overdue = rig.start("npm", sessionId="s-42", heartbeatIntervalMs=1000)  # nothing will end it, nor is it heard of
    overdue.write()
    rig.clock.advance(61)
    rig.wait_for_value("sidecar.overdue.output.age", 61)
    rig.wait_for_value("sidecar.heartbeat.delay", 60)
    rig.settle(overdue)
    for name in SDK_METRICS:  # of the exports so far
        rig.receiver.wait_for_metric(lambda metric, name=name: metric.name == name)
    rig.flush()


def is_of_type(value: object, kind: str) -> bool:
    if kind == "string[]":
        return isinstance(value, list) and all(type(item) is str for item in value)
    return type(value) is {"string": str, "int": int, "boolean": bool}[kind]


def note_and_check(attributes: dict[str, Any], known: dict[str, Attribute], seen: set[str]) -> None:
    seen.update(attributes)
    for name, value in attributes.items():
        assert is_of_type(value, known[name].type), (name, value)
        assert value not in ("", []), f"{name} is sent empty"


def test_what_goes_out_and_the_registry_are_one(rig: Rig) -> None:
    """Both ways: nothing goes out that is not registered for its place, and everything registered does go out.

    Whoever adds to the registry makes `play_everything` send it.
    """
    play_everything(rig)
    sent: dict[str, set[str]] = defaultdict(set)
    for span in rig.receiver.spans:
        role = span.attributes["sidecar.span.role"]
        note_and_check(span.attributes, ATTRIBUTES, sent[f"span {role}"])
        note_and_check(span.resource, RESOURCE, sent["resource"])
        for event in span.events:
            note_and_check(event.attributes, ATTRIBUTES, sent[f"event {event.name}"])
    for log in rig.receiver.logs:
        note_and_check(log.attributes, ATTRIBUTES, sent[f"log {log.event_name}"])
    registered = {
        **{f"span {name}": set(span.attributes) for name, span in SPANS.items()},
        **{f"event {name}": set(event.attributes) for name, event in SPAN_EVENTS.items()},
        **{f"log {name}": set(event.attributes) for name, event in LOG_EVENTS.items()},
        # A minimal container has no machine id.
        "resource": set(RESOURCE) - (set() if machine_id() else {"host.id"}),
    }
    assert sent == registered


def test_the_examples_are_what_is_sent(rig: Rig) -> None:
    play_everything(rig)
    names = {(span.attributes["sidecar.span.role"], span.name) for span in rig.receiver.spans}
    assert {(role, span.example) for role, span in SPANS.items()} <= names
    assert {log.example for log in LOG_EVENTS.values()} <= {log.body for log in rig.receiver.logs}
    kinds = {(span.attributes["sidecar.span.role"], span.kind) for span in rig.receiver.spans}
    assert kinds == {("command", "CLIENT"), ("started", "INTERNAL"), ("heartbeat", "INTERNAL")}


def test_metrics_and_the_registry_are_one(rig: Rig) -> None:
    """The SDK's own too: an alert on lost telemetry is built on them, and an upgrade may rename them."""
    play_everything(rig)
    check_metrics(rig.receiver, METRICS | SDK_METRICS)


def test_what_failed_is_said_in_the_registered_words() -> None:
    with OtlpReceiver() as receiver, OtlpReceiver() as collector:
        receiver.http_status = 503
        environ = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.http_endpoint,
            "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": f"{collector.http_endpoint}/v1/metrics",
        }
        rig = Rig(collector, "http/protobuf", otlp_endpoint=None, otlp_protocol=None, environ=environ)
        rig.settle(rig.start())
        for name in ("otel.sdk.exporter.span.exported", "otel.sdk.exporter.log.exported"):
            failed = collector.wait_for_metric(lambda m, name=name: m.name == name and "error.type" in m.attributes)
            assert failed.attributes["error.type"] == "503"
        rig.flush()
        check_metrics(collector, METRICS | SDK_METRICS, whole=False)


def check_metrics(receiver: OtlpReceiver, registry: dict[str, Metric], *, whole: bool = True) -> None:
    kinds = {
        "counter": ("sum", True),
        "up-down counter": ("sum", False),
        "gauge": ("gauge", False),
        "histogram": ("histogram", False),
    }
    seen = set()
    for metric in receiver.metrics:
        known = registry[metric.name]
        assert metric.unit == known.unit, metric.name
        assert set(metric.attributes) - {"error.type"} == set(known.attributes) - {"error.type"}, metric.name
        assert (metric.kind, metric.monotonic) == kinds[known.instrument.removeprefix("observable ")], metric.name
        for name, value in metric.attributes.items():
            assert is_of_type(value, (LABELS | SDK_LABELS)[name].type), (metric.name, name, value)
        seen.add(metric.name)
    assert not whole or seen == set(registry)


def test_headers_and_compression() -> None:
    environ = {
        "OTEL_EXPORTER_OTLP_COMPRESSION": "gzip",
        "OTEL_EXPORTER_OTLP_HEADERS": "authorization=somebody-elses-token",
    }
    with OtlpReceiver() as receiver:
        rig = Rig(receiver, "http/protobuf", environ=environ, otlp_headers={"X-Key": "ours"})
        rig.settle(rig.start())
        rig.flush()
        assert receiver.spans
        assert {path for path, _ in receiver.requests} == {"/v1/traces", "/v1/metrics", "/v1/logs"}
        for _, headers in receiver.requests:
            assert headers["content-encoding"] == "gzip"
            assert headers["x-key"] == "ours"
            assert "authorization" not in headers


def test_grpc_headers() -> None:
    with OtlpReceiver(grpc=True) as receiver:
        rig = Rig(receiver, "grpc", otlp_headers={"X-Key": "ours"})
        rig.settle(rig.start())
        rig.flush()
        assert {headers["x-key"] for _, headers in receiver.requests} == {"ours"}


def test_standard_variables_per_signal() -> None:
    with OtlpReceiver(grpc=True) as receiver:
        environ = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.http_endpoint,
            "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "grpc",
            "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": receiver.grpc_endpoint,
            "OTEL_LOGS_EXPORTER": "none",
        }
        rig = Rig(receiver, "http/protobuf", otlp_endpoint=None, otlp_protocol=None, environ=environ)
        rig.settle(rig.start())
        rig.flush()
        assert {path for path, _ in receiver.requests} == {"TraceService/Export", "/v1/metrics"}
        assert "logs" not in rig.telemetry.status()["signals"]


def test_sdk_disabled() -> None:
    with OtlpReceiver() as receiver:
        rig = Rig(receiver, "http/protobuf", environ={"OTEL_SDK_DISABLED": "true"})
        script = rig.start()
        rig.beat(script)
        rig.settle(script)
        rig.telemetry.loop_alive()
        rig.flush()
        assert receiver.requests == []
        assert rig.telemetry.status()["disabled"] is True
