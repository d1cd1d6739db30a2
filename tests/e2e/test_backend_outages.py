"""Something is away for a while: afterwards everything is there, and once."""

import collections
import os
import signal
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path

import pytest
from backends import Collector, eventually, get
from installed import Sidecar, new_trace
from jaeger_backend import Jaeger
from log_order import assert_in_order

from sidecar.testing.otlp import OtlpReceiver

OUTAGE_S = 60.0
AFTERWARDS_S = 120.0


def collector_of(folder: Path, jaeger: Jaeger, loki: OtlpReceiver) -> Collector:
    return Collector(folder, TRACES_ENDPOINT=jaeger.otlp, LOGS_ENDPOINT=loki.http_endpoint)


def is_whole(jaeger: Jaeger, trace_id: str) -> bool:
    return {"started", "command"} <= {span.role for span in jaeger.trace(trace_id)}


def assert_once(jaeger: Jaeger, trace_ids: Iterable[str]) -> None:
    for trace_id in trace_ids:
        times = collections.Counter(span.span_id for span in jaeger.trace(trace_id))
        assert set(times.values()) == {1}, times


def settled_ids(loki: OtlpReceiver) -> "collections.Counter[str]":
    return collections.Counter(log.trace_id for log in loki.logs if log.event_name == "sidecar.settled")


def test_the_collector_is_away_for_a_minute(installed: str, tmp_path: Path) -> None:
    """One command begins before it and ends in it, one begins in it and ends after it, some are within."""
    fifos = [tmp_path / "first", tmp_path / "last"]
    for fifo in fifos:
        os.mkfifo(fifo)
    with Jaeger(tmp_path) as jaeger, OtlpReceiver(path_prefix="/otlp") as loki:
        collector = collector_of(tmp_path, jaeger, loki)
        with collector, Sidecar(tmp_path, collector.http) as sidecar:
            traces = {name: new_trace() for name in ("first", "last", "a", "b", "c")}

            def start(name: str, *command: str) -> "subprocess.Popen[bytes]":
                return sidecar.start(*command, TRACEPARENT=traces[name][0])

            first = start("first", "sh", "-c", f"read line < {fifos[0]}")
            eventually("a heartbeat before", lambda: "heartbeat" in roles(jaeger, traces["first"][1]))
            collector.stop()
            away_s = time.monotonic()
            for name in ("a", "b", "c"):
                assert start(name, "true").wait(30) == 0
            fifos[0].write_text("go on\n")
            assert first.wait(30) == 0
            last = start("last", "sh", "-c", f"read line < {fifos[1]}")
            time.sleep(max(0.0, away_s + OUTAGE_S - time.monotonic()))
            collector.start()
            fifos[1].write_text("go on\n")
            assert last.wait(30) == 0

            ids = [trace_id for _, trace_id, _ in traces.values()]
            for trace_id in ids:
                eventually("the trace is whole", lambda t=trace_id: is_whole(jaeger, t), AFTERWARDS_S)
            eventually("all log events", lambda: set(ids) <= set(settled_ids(loki)), AFTERWARDS_S)
            assert_once(jaeger, ids)
            assert {times for trace_id, times in settled_ids(loki).items() if trace_id in ids} == {1}
            heartbeats = [span for span in jaeger.trace(traces["last"][1]) if span.role == "heartbeat"]
            assert len(heartbeats) >= 3, "those of the outage came too"


def roles(jaeger: Jaeger, trace_id: str) -> list[str | None]:
    return [span.role for span in jaeger.trace(trace_id)]


def test_jaeger_is_away_and_the_collector_is_killed_meanwhile(installed: str, tmp_path: Path) -> None:
    """What the Collector has acknowledged is on its disk."""
    with Jaeger(tmp_path) as jaeger, OtlpReceiver(path_prefix="/otlp") as loki:
        collector = collector_of(tmp_path, jaeger, loki)
        with collector, Sidecar(tmp_path, collector.http) as sidecar:
            jaeger.stop()
            ids = []
            for _ in range(5):
                traceparent, trace_id, _ = new_trace()
                ids.append(trace_id)
                assert sidecar.start("true", TRACEPARENT=traceparent).wait(30) == 0
            # Loki is there, so its log says when the daemon has sent all of it.
            eventually("all log events", lambda: set(ids) <= set(settled_ids(loki)))
            eventually("all spans are the Collector's", lambda: accepted_spans(collector) >= 2 * len(ids))
            collector.stop(signal.SIGKILL)
            collector.start()
            jaeger.start()
            for trace_id in ids:
                eventually("the trace is whole", lambda t=trace_id: is_whole(jaeger, t), AFTERWARDS_S)
            assert_once(jaeger, ids)


def accepted_spans(collector: Collector) -> float:
    lines = get(collector.own_metrics).splitlines()
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith("otelcol_receiver_accepted_spans"))


@pytest.mark.parametrize("config", ["otel-config.yaml", "deploy/collector-agent.yaml"])
def test_log_events_come_in_order_after_an_outage(config: str, tmp_path: Path) -> None:
    with OtlpReceiver(grpc=True, path_prefix="/otlp") as backend:
        collector = Collector(
            tmp_path,
            config,
            LOGS_ENDPOINT=backend.http_endpoint,
            GATEWAY=backend.grpc_endpoint.removeprefix("http://"),
            GATEWAY_INSECURE="true",
            TLS_CA="",
            TLS_CERT="",
            TLS_KEY="",
        )
        with collector:
            assert_in_order(collector, backend)
