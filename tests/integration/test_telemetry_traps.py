"""The known traps of opentelemetry-python 1.45, each in a process of its own: time to the end, and stderr.

The process makes telemetry for one command and ends it with a budget; it prints how long that took.
"""

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

import pytest

from sidecar.testing.otlp import OtlpReceiver

ROOT = Path(__file__).parents[2]
BUDGET_S = 1.0
PROTOCOLS = ["http/protobuf", "grpc"]

PROGRAM = """
import sys, time
from sidecar.telemetry.pipeline import Telemetry
from sidecar.telemetry.settings import TelemetrySettings
from sidecar.testing import FakeClock
from sidecar.testing.scripted import ScriptedCommand

endpoint, protocol, wait_s, budget_s = sys.argv[1], sys.argv[2], float(sys.argv[3]), float(sys.argv[4])
clock = FakeClock()
telemetry = Telemetry(
    TelemetrySettings(otlp_endpoint=endpoint or None, otlp_protocol=protocol or None),
    monotonic_ns=clock.monotonic_ns,
    unix_ns=clock.unix_ns,
)
script = ScriptedCommand(clock, "make")
before = time.monotonic()
telemetry.command_started(script.start())
clock.advance(10)
telemetry.heartbeat(script.command, script.beat("sleeping"))
script.settle()
telemetry.command_settled(script.command)
called_s = time.monotonic() - before
time.sleep(wait_s)
before = time.monotonic()
telemetry.shutdown(budget_s)
after = time.monotonic()
print(after, after - before, called_s, telemetry.status()["problem_count"], "grpc" in sys.modules)
"""


class Outcome:
    def __init__(
        self,
        endpoint: str,
        protocol: str,
        environ: Mapping[str, str] = MappingProxyType({}),
        wait_s: float = 0.0,
        budget_s: float = BUDGET_S,
    ) -> None:
        kept = {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}
        clean = {name: value for name, value in kept.items() if not name.startswith("OTEL_")}
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, endpoint, protocol, str(wait_s), str(budget_s)],
            env={**clean, "PYTHONPATH": str(ROOT), **environ},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        ended_s = time.monotonic()
        self.stderr = done.stderr
        self.status = done.returncode
        assert done.stdout, done.stderr
        after_s, shutdown_s, called_s, problems, grpc = done.stdout.split()
        self.exit_s = ended_s - float(after_s)
        self.shutdown_s, self.called_s = float(shutdown_s), float(called_s)
        self.problems, self.grpc_loaded = int(problems), grpc == "True"

    def check(self) -> None:
        assert self.stderr == ""
        assert self.status == 0
        # What else the machine does is left four seconds: the SDK would take 6 to 30.
        assert self.shutdown_s < BUDGET_S + 4.0
        # Nothing holds the exit after the budget: no atexit handler, no thread that is waited for.
        assert self.exit_s < 4.0
        assert self.called_s < 4.0


@contextlib.contextmanager
def _silent_collector() -> Iterator[str]:
    """Takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


def _refused() -> str:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"http://127.0.0.1:{listener.getsockname()[1]}"


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_no_collector(protocol: str) -> None:
    outcome = Outcome(_refused(), protocol)
    outcome.check()
    assert outcome.problems > 0


@pytest.mark.parametrize("wait_s", [0.0, 1.0], ids=["first try", "between tries"])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_no_collector_is_given_up_at_once(protocol: str, wait_s: float) -> None:
    # 6-8 s a signal if the SDK has its way; and not even the budget where the answer is known.
    assert Outcome(_refused(), protocol, wait_s=wait_s, budget_s=30.0).shutdown_s < 5.0


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_silent_collector(protocol: str) -> None:
    with _silent_collector() as endpoint:
        Outcome(endpoint, protocol).check()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_silent_collector_with_an_export_under_way(protocol: str) -> None:
    with _silent_collector() as endpoint:
        Outcome(endpoint, protocol, wait_s=1.0).check()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_proxy_variable_does_not_capture_loopback(protocol: str) -> None:
    proxy = _refused()
    names = ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY", "grpc_proxy")
    with OtlpReceiver(grpc=protocol == "grpc") as receiver:
        endpoint = receiver.grpc_endpoint if protocol == "grpc" else receiver.http_endpoint
        outcome = Outcome(endpoint, protocol, dict.fromkeys(names, proxy))
        outcome.check()
        assert outcome.problems == 0
        assert len(receiver.spans) == 3


def test_a_remote_endpoint_goes_through_the_proxy() -> None:
    with OtlpReceiver() as receiver:
        # A proxy is sent the whole URL, which the receiver answers with 404, and that is enough to see it.
        Outcome("http://collector.invalid:4318", "http/protobuf", {"http_proxy": receiver.http_endpoint}).check()
        assert "http://collector.invalid:4318/v1/traces" in {path for path, _ in receiver.requests}


def test_grpc_is_loaded_only_when_asked_for() -> None:
    assert not Outcome(_refused(), "http/protobuf").grpc_loaded
    assert Outcome(_refused(), "grpc").grpc_loaded


@pytest.mark.parametrize(
    "environ",
    [
        {"OTEL_SDK_DISABLED": "true"},
        {"OTEL_TRACES_EXPORTER": "none", "OTEL_METRICS_EXPORTER": "none", "OTEL_LOGS_EXPORTER": "none"},
    ],
)
def test_switched_off(environ: dict[str, str]) -> None:
    with OtlpReceiver() as receiver:
        outcome = Outcome(receiver.http_endpoint, "http/protobuf", environ)
        outcome.check()
        assert outcome.problems == 0
        assert receiver.requests == []


@pytest.mark.parametrize(
    "environ",
    [
        {"OTEL_EXPORTER_OTLP_COMPRESSION": "middle-out"},
        {"OTEL_EXPORTER_OTLP_COMPRESSION": "none"},
        {"OTEL_EXPORTER_OTLP_TIMEOUT": "soon"},
        {"OTEL_EXPORTER_OTLP_CERTIFICATE": "/nowhere"},
        {"OTEL_BSP_MAX_QUEUE_SIZE": "-1"},
        {"OTEL_BLRP_SCHEDULE_DELAY": "never"},
        {"OTEL_METRICS_EXEMPLAR_FILTER": "nonsense"},
        {"OTEL_ATTRIBUTE_COUNT_LIMIT": "x"},
        {"OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT": "abc"},
        {"OTEL_BSP_MAX_QUEUE_SIZE": "1", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "999999"},
        {"OTEL_SPAN_EVENT_COUNT_LIMIT": "0"},
        {"OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE": "sideways"},
        {"OTEL_TRACES_EXPORTER": "console"},
        {"OTEL_EXPORTER_OTLP_HEADERS": "not a header"},
        {"OTEL_PYTHON_METER_PROVIDER": "no_such_provider"},
        {"OTEL_PYTHON_CONTEXT": "no_such_context"},
    ],
    ids=lambda environ: ",".join(map("=".join, environ.items())),
)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_nonsense_in_a_variable_is_never_printed_and_never_fatal(environ: dict[str, str], protocol: str) -> None:
    with OtlpReceiver(grpc=protocol == "grpc") as receiver:
        endpoint = receiver.grpc_endpoint if protocol == "grpc" else receiver.http_endpoint
        Outcome(endpoint, protocol, environ).check()
        assert receiver.requests


FORKING_PROGRAM = """
import os, sys, time
from sidecar.telemetry.pipeline import Telemetry
from sidecar.telemetry.settings import TelemetrySettings
from sidecar.telemetry.spool import SpoolLimits
from sidecar.testing import FakeClock
from sidecar.testing.scripted import ScriptedCommand

telemetry = Telemetry(
    TelemetrySettings(
        otlp_endpoint=sys.argv[1], metric_export_interval_ns=100_000_000, spool=SpoolLimits(sys.argv[2])
    )
)
script = ScriptedCommand(FakeClock(), "make")
telemetry.command_started(script.start())
if os.fork() == 0:
    time.sleep(0.8)
    os._exit(0)
telemetry.shutdown(5.0)
print("parent is done", flush=True)
"""


def test_a_forked_child_writes_nothing(tmp_path: Path) -> None:
    with OtlpReceiver() as receiver:
        with subprocess.Popen(
            [sys.executable, "-c", FORKING_PROGRAM, receiver.http_endpoint, str(tmp_path / "state" / "spool.db")],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            assert process.stdout.readline() == "parent is done\n"
            requests = len(receiver.requests)
            assert requests > 0
            # Both streams end when the child does.
            assert process.stdout.read() + process.stderr.read() == ""
        assert len(receiver.requests) == requests
        # The start, of the parent alone.
        assert len(receiver.spans) == 1
