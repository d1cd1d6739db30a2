"""Telemetry on a thread of the supervisor's own process."""

import contextlib
import gc
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from sidecar.core import frame as wire
from sidecar.telemetry.inline import InlineSink
from sidecar.telemetry.leftovers import files
from sidecar.telemetry.settings import TelemetrySettings
from sidecar.telemetry.spool import SpoolLimits
from sidecar.testing import FakeClock
from sidecar.testing.otlp import OtlpReceiver
from sidecar.testing.scripted import ScriptedCommand


def _frames() -> tuple[ScriptedCommand, list[dict[str, Any]]]:
    clock = FakeClock()
    script = ScriptedCommand(clock, "pytest")
    frames = [script.start().identity]
    clock.advance(10)
    frames.append(script.beat("sleeping"))
    clock.advance(1)
    frames.append(script.judge("network_peer_dead"))
    frames.append(script.settle())
    return script, frames


def _sink(receiver: OtlpReceiver) -> InlineSink:
    endpoint = receiver.http_endpoint
    return InlineSink(lambda: TelemetrySettings(otlp_endpoint=endpoint, scope="inline", environ={}))


@pytest.mark.parametrize("encoded", [False, True])
def test_frames_become_telemetry(encoded: bool) -> None:
    script, frames = _frames()
    with OtlpReceiver() as receiver:
        sink = _sink(receiver)
        for frame in frames:
            # None stands for an absent key, as in the supervisor's own frames.
            sink.put(wire.encode(frame) if encoded else {**frame, "evidence": None})
        assert sink.close(60.0)
        assert sink.failure is None
        assert sink.dropped == 0
        assert [span.name for span in receiver.spans] == [
            "sidecar.started",
            "sidecar.heartbeat",
            "sidecar.heartbeat",
            "pytest",
        ]
        assert receiver.spans[-1].span_id == script.span_id
        assert {log.event_name for log in receiver.logs} >= {"sidecar.heartbeat", "sidecar.settled"}
        assert any(metric.name == "sidecar.command.duration" for metric in receiver.metrics)


def test_close_keeps_to_its_budget_whatever_the_settings_do() -> None:
    sink = InlineSink(lambda: time.sleep(60) or TelemetrySettings(environ={}))  # type: ignore[func-returns-value]
    before_s = time.monotonic()
    sink.close(0.2)
    assert time.monotonic() - before_s < 20


def test_what_there_is_no_time_for_is_left_and_taken_by_the_next(tmp_path: Path) -> None:
    path = str(tmp_path / "state" / "spool.db")
    script, frames = _frames()
    late = InlineSink(lambda: time.sleep(60) or TelemetrySettings(environ={}))  # type: ignore[func-returns-value]
    # As if the settings had been read, and OpenTelemetry were what takes so long.
    late._spool_path, late._configured = path, True
    for frame in frames:
        late.put(frame)
    before_s = time.monotonic()
    assert late.close(0.4)
    assert time.monotonic() - before_s < 20
    assert len(files(path)) == 1

    with OtlpReceiver() as receiver:
        settings = TelemetrySettings(otlp_endpoint=receiver.http_endpoint, spool=SpoolLimits(path), environ={})
        following = InlineSink(lambda: settings)
        following.close(60.0)
        assert files(path) == []
        assert [span.name for span in receiver.spans] == ["sidecar.started", *["sidecar.heartbeat"] * 2, "pytest"]
        assert receiver.spans[-1].span_id == script.span_id


def test_what_is_neither_sent_nor_on_disk_is_not_safe(tmp_path: Path) -> None:
    path = tmp_path / "state" / "spool.db"
    _, frames = _frames()
    with OtlpReceiver() as receiver:
        settings = TelemetrySettings(otlp_endpoint=receiver.http_endpoint, spool=SpoolLimits(str(path)), environ={})
        assert InlineSink(lambda: settings).close(60.0)  # makes the spool
        receiver.http_status = 503
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            sink = InlineSink(lambda: settings)
            for frame in frames:
                sink.put(frame)
            assert not sink.close(60.0)


def test_full_queue_drops_heartbeats_and_keeps_the_ends() -> None:
    _, frames = _frames()
    sink = InlineSink(lambda: time.sleep(60) or TelemetrySettings(environ={}))  # type: ignore[func-returns-value]
    for _ in range(2000):
        sink.put(frames[1])
    dropped = sink.dropped
    assert dropped > 900
    sink.put(frames[-1])
    sink.put(wire.encode(frames[-1]))
    assert sink.dropped == dropped
    sink.close(0)


def test_no_telemetry_is_no_failure_of_the_command() -> None:
    def fail() -> TelemetrySettings:
        raise ImportError("no such library")

    _, frames = _frames()
    sink = InlineSink(fail)
    for frame in frames:
        sink.put(frame)
    assert not sink.close(60.0)
    assert sink.failure is not None
    assert "no such library" in sink.failure


def test_the_collector_of_garbage_runs_again() -> None:
    # The supervisor's fast path switches it off; hours of exports need it.
    _, frames = _frames()
    gc.disable()
    try:
        with OtlpReceiver() as receiver:
            sink = _sink(receiver)
            for frame in frames:
                sink.put(frame)
            sink.close(60.0)
            assert gc.isenabled()
    finally:
        gc.unfreeze()
        gc.enable()


def test_a_bad_frame_is_not_the_end() -> None:
    script, frames = _frames()
    with OtlpReceiver() as receiver:
        sink = _sink(receiver)
        sink.put(b"garbage\n")
        sink.put({"type": "command_settled"})
        for frame in frames:
            sink.put(frame)
        sink.close(60.0)
        assert script.span_id in {span.span_id for span in receiver.spans}


def test_importing_it_is_light() -> None:
    program = "import sys; import sidecar.telemetry.inline; print([m for m in sys.modules if 'opentelemetry' in m])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
