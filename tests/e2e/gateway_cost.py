"""What a gateway of a fleet costs, as docs/operating.md has it: processor time a command, an export of metrics, and a
scrape of it; its memory, and that of a Prometheus that has its series.

    python tests/e2e/gateway_cost.py        prints them; a minute

What a real daemon sends for a command that ends at once is sent again and again, each time as of another trace, or of
another daemon, to a real Collector with the gateway's configuration, by gRPC with certificates on both sides.
"""

import http.server
import json
import os
import re
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
from backends import Backend, eventually, get
from installed import Sidecar
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2_grpc import LogsServiceStub
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2_grpc import MetricsServiceStub
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import TraceServiceStub
from prometheus_backend import Prometheus
from test_backend_fleet import Gateway, certificates

COMMANDS = 4000
DAEMONS = 1250
"""Half of the 2,500 that are at work on the page: there are two gateways."""
SCRAPE = "30s"
KINDS = {"traces": ExportTraceServiceRequest, "logs": ExportLogsServiceRequest, "metrics": ExportMetricsServiceRequest}


@contextmanager
def recorded() -> Iterator[tuple[str, dict[str, list[Any]]]]:
    """An endpoint of OTLP over HTTP, and what came to it, by signal."""
    came: dict[str, list[Any]] = {kind: [] for kind in KINDS}

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            kind = self.path.rpartition("/")[2]
            came[kind].append(KINDS[kind].FromString(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Nothing on stderr."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", came
        finally:
            server.shutdown()


def one_command(folder: Path) -> dict[str, Any]:
    """What is sent for one command: its spans, its log events, and the metrics after it."""
    with recorded() as (endpoint, came), Sidecar(folder, endpoint) as sidecar:
        sidecar.start("true").wait(30)
        sum_of = {kind: KINDS[kind]() for kind in KINDS}
        eventually("an end of its span", lambda: _count(came["traces"], "resource_spans", "scope_spans", "spans") == 2)
        eventually("both log events", lambda: _count(came["logs"], "resource_logs", "scope_logs", "log_records") == 2)
        time.sleep(2)  # its metrics, at an interval of one second
        for kind in ("traces", "logs"):
            for each in came[kind]:
                sum_of[kind].MergeFrom(each)
        return sum_of | {"metrics": came["metrics"][-1]}


def _count(requests: list[Any], first: str, second: str, third: str) -> int:
    return sum(
        len(getattr(scope, third)) for each in requests for of in getattr(each, first) for scope in getattr(of, second)
    )


def seconds_of(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def cost_s(pid: int, count: int, send: Callable[[], None], there: Callable[[], bool]) -> float:
    """Processor time of the gateway for each of `count`, from the first until the last has arrived behind it."""
    before_s = seconds_of(pid)
    for _ in range(count):
        send()
    eventually("all of them", there)
    return (seconds_of(pid) - before_s) / count


def routed_points(gateway: Gateway) -> float:
    """How many points have come to where they are shown."""
    page = get(gateway.collector.own_metrics)
    found = re.findall(r'^otelcol_receiver_accepted_metric_points\w*\{.*receiver="otlp/routed".*\} (\S+)$', page, re.M)
    return sum(map(float, found))


def resident_mb(pid: int) -> float:
    return int(Path(f"/proc/{pid}/status").read_text().partition("VmRSS:")[2].split()[0]) / 1000


def pid_of(backend: Backend) -> int:
    assert backend._process is not None
    return backend._process.pid


def measure(folder: Path, said: dict[str, Any], tls: dict[str, str], *, pushed: bool) -> None:
    """Of a gateway that shows the metrics to Prometheus, or pushes them on."""
    points = sum(
        len(getattr(each, each.WhichOneof("data")).data_points)
        for of in said["metrics"].resource_metrics
        for scope in of.scope_metrics
        for each in scope.metrics
    )
    gateway = Gateway(folder, tls)
    gateway.collector.set(GATEWAYS=f"[{gateway.collector.routed}]")
    if pushed:
        endpoint = f"{gateway.backend.http_endpoint}/v1/metrics"
        gateway.collector.set(METRICS_EXPORTER="otlp_http/metrics", METRICS_ENDPOINT=endpoint)
    gateway.collector.start()
    try:
        pid = pid_of(gateway.collector)
        key, certificate, authority = (Path(tls[f"TLS_{name}"]).read_bytes() for name in ("KEY", "CERT", "CA"))
        credentials = grpc.ssl_channel_credentials(authority, key, certificate)
        with grpc.secure_channel(gateway.collector.grpc, credentials) as channel:
            traces, logs, metrics = (stub(channel) for stub in (TraceServiceStub, LogsServiceStub, MetricsServiceStub))

            def command() -> None:
                trace_id = os.urandom(16)
                for of in said["traces"].resource_spans:
                    for scope in of.scope_spans:
                        for span in scope.spans:
                            span.trace_id = trace_id
                traces.Export(said["traces"])
                logs.Export(said["logs"])

            number = iter(range(DAEMONS))

            def export() -> None:
                for of in said["metrics"].resource_metrics:
                    for attribute in of.resource.attributes:
                        if attribute.key == "service.instance.id":
                            attribute.value.string_value = f"daemon-{next(number)}"
                while True:
                    try:
                        metrics.Export(said["metrics"])
                        return
                    except grpc.RpcError as error:  # its queue is full: a host tries again, too
                        if error.code() is not grpc.StatusCode.UNAVAILABLE:
                            raise
                        time.sleep(0.1)

            if not pushed:
                each_s = cost_s(pid, COMMANDS, command, lambda: len(gateway.backend.spans) >= 2 * COMMANDS)
                print(f"a command: {each_s * 1000:.1f} ms of a core", end="; ")
                print(f"the gateway after {COMMANDS}: {resident_mb(pid):.0f} MB")
            each_s = cost_s(pid, DAEMONS, export, lambda: routed_points(gateway) >= DAEMONS * points)
            how = "pushed" if pushed else "shown"
            print(f"an export of {points} points, {how}: {each_s * 1000:.1f} ms of a core", end="; ")
            print(f"the gateway after those of {DAEMONS} daemons: {resident_mb(pid):.0f} MB")
        if not pushed:
            scrape(folder, gateway)
    finally:
        gateway.stop()


def scrape(folder: Path, gateway: Gateway) -> None:
    """What the page costs the gateway, and what its series cost Prometheus."""
    pid = pid_of(gateway.collector)
    before_s = seconds_of(pid)
    page = get(f"http://{gateway.collector.prometheus}/metrics", 60)
    series = sum(not line.startswith("#") for line in page.splitlines())
    print(
        f"a scrape of {series} series: {seconds_of(pid) - before_s:.1f} s of a core, {len(page) / 1e6:.0f} MB", end="; "
    )
    print(f"the gateway afterwards: {resident_mb(pid):.0f} MB")
    prometheus = Prometheus(folder, {"sidecar-collector": gateway.collector.prometheus})
    file = prometheus.folder / "prometheus.yml"
    config = json.loads(file.read_text())
    config["global"] = {"scrape_interval": SCRAPE, "scrape_timeout": SCRAPE}
    file.write_text(json.dumps(config))
    with prometheus:
        eventually("all of them", lambda: prometheus.values(f"scrape_samples_scraped >= {series // 2}"), 90)
        print(f"Prometheus with {series} series: {resident_mb(pid_of(prometheus)):.0f} MB")


def main() -> None:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        said, tls = one_command(folder), certificates(folder)
        for pushed in (True, False):
            measure(folder, said, tls, pushed=pushed)


if __name__ == "__main__":
    sys.exit(main())
