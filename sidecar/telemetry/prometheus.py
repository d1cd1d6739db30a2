"""/metrics for Prometheus, on loopback, opt-in: the same instruments as over OTLP."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.registry import Collector

from sidecar.telemetry.readers import PrometheusReader

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from opentelemetry.sdk.metrics import MeterProvider
    from prometheus_client import Metric


class PrometheusEndpoint:
    """Serves one meter provider's metrics at `url`. OSError where the port is taken."""

    def __init__(self, port: int, meters: MeterProvider, cardinality_limits: Mapping[type, int]) -> None:
        # Registries of our own: the library's default one brings python_gc_* and process_* along.
        collected, served = CollectorRegistry(), CollectorRegistry()
        # Scope labels would be three more on every series, the same on each, and a version among them: every
        # upgrade of ours would be new series all over.
        self.reader = PrometheusReader(
            scope_info_enabled=False, registry=collected, cardinality_limits=cardinality_limits
        )
        served.register(_OneAtATime(collected))
        self._server, self._thread = start_http_server(port, addr="127.0.0.1", registry=served)
        self.url = f"http://127.0.0.1:{self._server.server_port}/metrics"
        meters.add_metric_reader(self.reader)

    def shutdown(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        if self._thread is not threading.current_thread():
            self._thread.join()


class _OneAtATime(Collector):
    """What another registry collects, by one scrape at a time.

    The SDK's reader hands a collection over through a queue that all scrapes share: of two at once (two Prometheis,
    or one and a person with curl) one may find both collections, every series twice, which Prometheus refuses
    as a whole, and the other none.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        self._lock = threading.Lock()

    def collect(self) -> Iterable[Metric]:
        with self._lock:
            return list(self._registry.collect())
