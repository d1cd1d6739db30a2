"""/metrics for Prometheus, on loopback, opt-in: the same instruments as over OTLP."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from opentelemetry.sdk.metrics import Counter
from prometheus_client import CollectorRegistry, start_http_server

from sidecar.telemetry.suspects import PrometheusReader

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics import MeterProvider


class PrometheusEndpoint:
    """Serves one meter provider's metrics at `url`. OSError where the port is taken."""

    def __init__(self, port: int, meters: MeterProvider, cardinality_limit: int) -> None:
        # A registry of its own: the library's default one brings python_gc_* and process_* along.
        registry = CollectorRegistry()
        # Scope labels would be three more on every series, the same on each.
        self.reader = PrometheusReader(
            scope_info_enabled=False, registry=registry, cardinality_limits={Counter: cardinality_limit}
        )
        self._server, self._thread = start_http_server(port, addr="127.0.0.1", registry=registry)
        self.url = f"http://127.0.0.1:{self._server.server_port}/metrics"
        meters.add_metric_reader(self.reader)

    def shutdown(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        if self._thread is not threading.current_thread():
            self._thread.join()
