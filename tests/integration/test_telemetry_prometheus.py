"""/metrics: the same instruments, by a scrape."""

import re
import socket
import threading
import urllib.request

import pytest
from supervised import closed_port

from sidecar.telemetry.conventions.metrics import METRICS
from sidecar.telemetry.metrics_page import TRY_AGAIN_S
from sidecar.telemetry.pipeline import Telemetry
from sidecar.telemetry.settings import TelemetrySettings
from sidecar.testing import FakeClock
from sidecar.testing.scripted import ScriptedCommand

# No OTLP at all: /metrics needs none.
ENVIRON = {"OTEL_TRACES_EXPORTER": "none", "OTEL_METRICS_EXPORTER": "none", "OTEL_LOGS_EXPORTER": "none"}


def _scrape(url: str) -> str:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(url, timeout=60) as response:
        return str(response.read().decode())


def test_scrape() -> None:
    clock = FakeClock()
    # A series begins with 0, and stays at 0 for a few of these.
    with closed_port() as port:
        settings = TelemetrySettings(prometheus_port=port, environ=ENVIRON, metric_export_interval_ns=1)
        telemetry = Telemetry(settings, monotonic_ns=clock.monotonic_ns, unix_ns=clock.unix_ns)
    url = telemetry.status()["prometheus"]
    assert url.startswith("http://127.0.0.1:")
    text = _scrape(url)
    assert 'sidecar_commands_lost_total{family="make"} 0.0' in text
    script = ScriptedCommand(clock, "make", sessionId="s-1")
    running = {script.id: script.start()}
    telemetry.observe(lambda: list(running.values()))
    telemetry.command_started(script.command)
    clock.advance(20)
    telemetry.heartbeat(script.command, script.beat("frozen", ["in the freezer"]))
    text = _scrape(url)
    assert 'sidecar_commands_started_total{family="make"} 1.0' in text
    assert 'sidecar_commands_active{family="make",state="silent"} 1.0' in text
    assert "sidecar_output_age_seconds 20.0" in text
    oldest = re.search(r"^sidecar_output_oldest_timestamp_seconds (\S+)$", text, re.MULTILINE)
    assert oldest is not None
    assert float(oldest[1]) == clock.unix_ns() / 1e9 - 20
    assert re.search(
        r'sidecar_suspect_output_age_seconds\{evidence="in the freezer",family="make",session="s-1",trace_id="\w{32}",'
        r'verdict="frozen"\} 20.0',
        text,
    )
    assert 'sidecar_verdicts_total{family="make",verdict="frozen"} 0.0' in text
    assert 'sidecar_heartbeats_total{family="make",verdict="frozen"} 1.0' in text
    text = _scrape(url)
    assert 'sidecar_verdicts_total{family="make",verdict="frozen"} 1.0' in text
    script.lose()
    running.clear()
    telemetry.command_settled(script.command)
    text = _scrape(url)
    assert 'sidecar_commands_lost_total{family="make"} 1.0' in text
    bucket = 'sidecar_command_duration_seconds_bucket{family="make",le="30.0",outcome="lost"}'
    assert f"{bucket} 0.0" in text
    assert f"{bucket} 1.0" in _scrape(url)
    assert "sidecar_suspect_output_age" not in text
    assert re.search(r'sidecar_lost_timestamp_seconds\{family="make",session="s-1",trace_id="\w{32}"\} ', text)
    assert "sidecar_output_age_seconds 0.0" in text
    assert "python_gc" not in text
    assert "process_" not in text
    assert "otel_scope" not in text
    assert 'service_name="sidecar"' in text
    names = {name.replace(".", "_") for name in METRICS}
    for line in text.splitlines():
        if line.startswith("# TYPE sidecar"):
            assert any(line.split()[2].startswith(name) for name in names)
    telemetry.shutdown(5)
    with pytest.raises(OSError):
        _scrape(url)


def test_a_taken_port_is_a_problem_and_is_tried_again_now_and_then() -> None:
    clock = FakeClock()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        settings = TelemetrySettings(prometheus_port=port, environ=ENVIRON)
        telemetry = Telemetry(settings, monotonic_ns=clock.monotonic_ns, unix_ns=clock.unix_ns)
        try:
            unserved = f"http://127.0.0.1:{port}/metrics is not served: Address already in use"
            for _ in range(3):
                status = telemetry.status()
                assert (status["prometheus"], status["prometheus_problem"]) == (None, unserved)
                assert status["problem_count"] == 1
                assert status["problems"][0].endswith(f" prometheus: {unserved}")
                clock.advance(TRY_AGAIN_S)
                _tick(telemetry)
            listener.close()
            _tick(telemetry)
            assert telemetry.status()["prometheus"] is None, "not before it is due"
            clock.advance(TRY_AGAIN_S)
            _tick(telemetry)
            url = telemetry.status()["prometheus"]
            assert telemetry.status()["prometheus_problem"] is None
            assert "sidecar_daemon_loop_timestamp_seconds" in _scrape(url)
        finally:
            telemetry.shutdown(5)
    with pytest.raises(OSError):
        _scrape(url)


def _tick(telemetry: Telemetry) -> None:
    """As the daemon does every second; what was begun has ended when it returns."""
    telemetry.loop_alive()
    for thread in threading.enumerate():
        if thread.name == "metrics-port":
            thread.join()


def test_off_unless_asked_for() -> None:
    telemetry = Telemetry(TelemetrySettings(environ=ENVIRON))
    assert telemetry.status()["prometheus"] is None
    telemetry.shutdown(1)
