"""Sizing: what a command costs at a receiver of OTLP over HTTP, not compressed, as docs/operating.md has it.

Spans, log events and bytes of a command that ends at once (of many in a row, the mean) and of one that is silent for
65 s; what the daemon's metrics are at an export, in points and bytes; and the daemon's resident set after all of that.
"""

import http.server
import json
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from benchmarks.installation import Installation, daemon_at

AT_ONCE = 220
SILENT_S = 65
EXPORT_S = 5.0
LIMIT_BYTES = 3600
"""Of a command that ends at once, spans and log events together: twice what was measured."""

Sums = dict[str, int]


def measure(installed: Installation) -> dict[str, float | str]:
    with _receiver() as (endpoint, sums, newest):
        environ = {name: value for name, value in installed.environ.items() if name != "OTEL_SDK_DISABLED"}
        environ |= {"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, "SIDECAR_METRIC_EXPORT_INTERVAL": f"{EXPORT_S:g}s"}
        with daemon_at(installed, environ) as environ:
            time.sleep(2 * EXPORT_S)
            before = dict(sums)
            for _ in range(AT_ONCE):
                subprocess.run([installed.sidecar, "run", "--", "true"], env=environ, check=True)
            time.sleep(EXPORT_S)
            at_once = {key: (sums[key] - before[key]) / AT_ONCE for key in sums}
            time.sleep(EXPORT_S)
            metrics = dict(newest)
            before = dict(sums)
            subprocess.run([installed.sidecar, "run", "--", "sleep", str(SILENT_S)], env=environ, check=True)
            time.sleep(EXPORT_S)
            silent = {key: sums[key] - before[key] for key in sums}
            resident_mb = _daemon_mb(installed, environ)
    total = at_once["traces"] + at_once["logs"]
    return {
        "name": "sizing",
        "what": "bytes of telemetry of a command that ends at once",
        "ratio": round(total),
        "limit": f"<= {LIMIT_BYTES}",
        "ok": total <= LIMIT_BYTES,
        "detail": f"at once {_words(at_once)}; silent for {SILENT_S} s {_words(silent)}; "
        f""
        f"metrics {metrics['points']} points, {metrics['bytes']} bytes an export; daemon {resident_mb:.0f} MB",
    }


def _daemon_mb(installed: Installation, environ: dict[str, str]) -> float:
    asked = [installed.sidecar, "daemon", "status", "--json"]
    pid = json.loads(subprocess.run(asked, env=environ, check=True, capture_output=True).stdout)["pid"]
    with open(f"/proc/{pid}/status") as status:
        line = next(line for line in status if line.startswith("VmRSS:"))
    return int(line.split()[1]) / 1000 * 1.024


def _words(of: Mapping[str, float]) -> str:
    return f"{of['spans']:g} spans, {of['events']:g} log events, {of['traces']:.0f} + {of['logs']:.0f} bytes"


@contextmanager
def _receiver() -> Iterator[tuple[str, Sums, Sums]]:
    """Counts what comes; a client that sends one batch after the other is answered in between."""
    sums = {"spans": 0, "events": 0, "traces": 0, "logs": 0}
    newest = {"points": 0, "bytes": 0}

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.path.endswith("/traces"):
                spans = ExportTraceServiceRequest.FromString(body).resource_spans
                sums["spans"] += sum(len(scope.spans) for each in spans for scope in each.scope_spans)
                sums["traces"] += len(body)
            elif self.path.endswith("/logs"):
                logs = ExportLogsServiceRequest.FromString(body).resource_logs
                sums["events"] += sum(len(scope.log_records) for each in logs for scope in each.scope_logs)
                sums["logs"] += len(body)
            else:
                metrics = ExportMetricsServiceRequest.FromString(body).resource_metrics
                newest["points"] = sum(
                    len(getattr(metric, metric.WhichOneof("data")).data_points)
                    for each in metrics
                    for scope in each.scope_metrics
                    for metric in scope.metrics
                )
                newest["bytes"] = len(body)
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Nothing on stderr."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", sums, newest
        finally:
            server.shutdown()
