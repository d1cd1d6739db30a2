"""What a Collector's absence, and a process's death, cost: nothing that the spool has room for."""

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from supervised import until

from sidecar.core.command import Command
from sidecar.telemetry.pipeline import Telemetry
from sidecar.telemetry.settings import TelemetrySettings
from sidecar.telemetry.spool import SpoolLimits
from sidecar.testing import FakeClock
from sidecar.testing.otlp import OtlpReceiver
from sidecar.testing.scripted import ScriptedCommand

ROOT = Path(__file__).parents[2]
PROTOCOLS = ["http/protobuf", "grpc"]
WAIT_S = 60.0


def _telemetry(endpoint: str, protocol: str, path: Path, clock: FakeClock) -> Telemetry:
    return Telemetry(
        TelemetrySettings(
            otlp_endpoint=endpoint,
            otlp_protocol="grpc" if protocol == "grpc" else "http/protobuf",
            spool=SpoolLimits(str(path)),
            environ={},
        ),
        monotonic_ns=clock.monotonic_ns,
        unix_ns=clock.unix_ns,
    )


def _command(telemetry: Telemetry, clock: FakeClock) -> Command:
    script = ScriptedCommand(clock, "make")
    telemetry.command_started(script.start())
    clock.advance(10)
    telemetry.heartbeat(script.command, script.beat("sleeping"))
    script.settle()
    telemetry.command_settled(script.command)
    return script.command


def _endpoint(receiver: OtlpReceiver, protocol: str) -> str:
    return receiver.grpc_endpoint if protocol == "grpc" else receiver.http_endpoint


def _ports(receiver: OtlpReceiver) -> dict[str, int]:
    http, grpc = (int(endpoint.rpartition(":")[2]) for endpoint in (receiver.http_endpoint, receiver.grpc_endpoint))
    return {"http_port": http, "grpc_port": grpc}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_collector_that_comes_back_gets_everything_once_and_in_order(protocol: str, tmp_path: Path) -> None:
    clock = FakeClock()
    with OtlpReceiver(grpc=True) as receiver:
        endpoint, ports = _endpoint(receiver, protocol), _ports(receiver)
        telemetry = _telemetry(endpoint, protocol, tmp_path / "state" / "spool.db", clock)
        first = _command(telemetry, clock)
        receiver.wait_for_span(lambda span: span.span_id == first.identity["spanId"], WAIT_S)
        receiver.wait_for_log(lambda log: log.event_name == "sidecar.settled", WAIT_S)
        # What is not answered yet would be sent again.
        until(lambda: telemetry._outputs is not None and telemetry._outputs.spool.totals() == [])
    # Away. A few batches, each half a second of its own.
    commands = []
    for _ in range(3):
        commands.append(_command(telemetry, clock))
        time.sleep(0.6)
    with OtlpReceiver(grpc=True, **ports) as receiver:
        commands.append(_command(telemetry, clock))
        receiver.wait_for_span(lambda span: span.span_id == commands[-1].identity["spanId"], WAIT_S)
        telemetry.shutdown(60.0)
        own = [span.span_id for span in receiver.spans if span.attributes["sidecar.span.role"] == "command"]
        assert own == [command.identity["spanId"] for command in commands]
        assert len(receiver.spans) == 3 * len(commands)
        settled = [log.span_id for log in receiver.logs if log.event_name == "sidecar.settled"]
        assert settled == own


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_what_a_process_could_not_send_the_next_one_sends(protocol: str, tmp_path: Path) -> None:
    clock = FakeClock()
    path = tmp_path / "state" / "spool.db"
    with OtlpReceiver(grpc=True) as receiver:
        endpoint, ports = _endpoint(receiver, protocol), _ports(receiver)
    telemetry = _telemetry(endpoint, protocol, path, clock)
    command = _command(telemetry, clock)
    before_s = time.monotonic()
    telemetry.shutdown(1.5)
    assert time.monotonic() - before_s < 6.0, "the SDK would take 6 to 8 s a signal"
    with OtlpReceiver(grpc=True, **ports) as receiver:
        after = _telemetry(endpoint, protocol, path, clock)
        receiver.wait_for_span(lambda span: span.span_id == command.identity["spanId"], WAIT_S)
        receiver.wait_for_log(lambda log: log.event_name == "sidecar.settled", WAIT_S)
        after.shutdown(60.0)
        assert len(receiver.spans) == 3


def test_while_it_ends_nobody_says_that_all_is_safe(tmp_path: Path) -> None:
    """Once its end has begun, a queue is not waited for any more: what is in it may not be in the spool yet."""
    with OtlpReceiver() as receiver:
        path = tmp_path / "state" / "spool.db"
        telemetry = _telemetry(receiver.http_endpoint, "http/protobuf", path, FakeClock())
        outputs = telemetry._outputs
        assert outputs is not None
        assert outputs.spans is not None
        assert outputs.save()
        outputs.spans.shutdown()
        assert not outputs.save()
        telemetry.shutdown(60.0)


def test_the_spool_is_seen_in_the_metrics(tmp_path: Path) -> None:
    clock = FakeClock()
    with OtlpReceiver() as receiver:
        traces = "http://127.0.0.1:9/v1/traces"
        base = receiver.http_endpoint
        telemetry = Telemetry(
            TelemetrySettings(
                spool=SpoolLimits(str(tmp_path / "state" / "spool.db")),
                metric_export_interval_ns=200_000_000,
                environ={"OTEL_EXPORTER_OTLP_ENDPOINT": base, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": traces},
            ),
            monotonic_ns=clock.monotonic_ns,
            unix_ns=clock.unix_ns,
        )
        zero = receiver.wait_for_metric(lambda metric: metric.name == "sidecar.spool.dropped", WAIT_S)
        assert zero.value == 0
        _command(telemetry, clock)

        def waiting(name: str, signal_name: str, least: float) -> None:
            receiver.wait_for_metric(
                lambda metric: (
                    metric.name == name and metric.attributes == {"signal": signal_name} and metric.value >= least
                ),
                WAIT_S,
            )

        waiting("sidecar.spool.items", "traces", 3)
        waiting("sidecar.spool.bytes", "traces", 100)
        waiting("sidecar.spool.items", "logs", 0)
        telemetry.shutdown(2.0)


# A process that hands spans over one by one, and says which ones were accepted: those that it may not lose.
VICTIM = """
import sys
from sidecar.telemetry.exporters import SpooledSpans, transport
from sidecar.telemetry.sender import Sender
from sidecar.telemetry.settings import TelemetrySettings
from sidecar.telemetry.spool import Spool, SpoolLimits
from sidecar.telemetry.spans import SpanBuilder
from sidecar.telemetry.identity import identity_of
from sidecar.telemetry.targets import target_of
from sidecar.testing import FakeClock
from sidecar.testing.scripted import ScriptedCommand
from opentelemetry.sdk.resources import Resource

target = target_of("traces", TelemetrySettings(otlp_endpoint=sys.argv[1], environ={}), [])
spool = Spool(SpoolLimits(sys.argv[2]), print)
sender = Sender("traces", target, transport("traces", target), spool, print, lambda *_: None)
sender.start()
exporter, builder = SpooledSpans(sender), SpanBuilder(Resource({}))
print("ready", flush=True)
for _ in range(int(sys.argv[3])):
    command = ScriptedCommand(FakeClock(), "make").start()
    span = builder.started(command, identity_of(command))
    exporter.export([span])
    print(format(span.context.span_id, "016x"), flush=True)
if int(sys.argv[3]) == 0:
    sys.stdin.read()
"""


def _victim(endpoint: str, path: Path, count: int) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", VICTIM, endpoint, str(path), str(count)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def test_killed_at_any_moment_it_loses_nothing_that_was_accepted(tmp_path: Path) -> None:
    path = tmp_path / "state" / "spool.db"
    chance = random.Random(1)
    accepted: list[str] = []
    kills = 0
    with OtlpReceiver() as receiver:
        for _ in range(6):
            with _victim(receiver.http_endpoint, path, 100_000) as victim:
                assert victim.stdout is not None
                assert victim.stdout.readline() == "ready\n"
                # Somewhere in the middle, however fast the machine is.
                accepted += [victim.stdout.readline().strip() for _ in range(chance.randrange(5, 100))]
                time.sleep(chance.uniform(0.0, 0.01))
                victim.send_signal(signal.SIGKILL)
                kills += 1
                # Only whole lines: the kill may have cut the last one.
                accepted += [line.strip() for line in victim.stdout if line.endswith("\n")]
        with _victim(receiver.http_endpoint, path, 0) as last:
            assert last.stdout is not None
            assert last.stdout.readline() == "ready\n"
            missing = set(accepted)
            deadline_s = time.monotonic() + WAIT_S
            while missing and time.monotonic() < deadline_s:
                time.sleep(0.1)
                missing -= {span.span_id for span in receiver.spans}
            last.kill()
        assert not missing, f"{len(missing)} of {len(accepted)} are lost"
        # Twice only what was on its way at a kill: one message at most.
        counts = Counter(span.span_id for span in receiver.spans)
        assert max(counts.values()) <= 1 + kills
        twice = sum(1 for count in counts.values() if count > 1)
        assert twice <= kills * 64
