"""/metrics for Prometheus, on loopback, opt-in: the same instruments as over OTLP."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.registry import Collector

from sidecar.telemetry.metrics_page import TRY_AGAIN_S, address
from sidecar.telemetry.readers import PrometheusReader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from wsgiref.simple_server import WSGIServer

    from opentelemetry.sdk.metrics import MeterProvider
    from prometheus_client import Metric


class PrometheusEndpoint:
    """Serves one meter provider's metrics at `url`, once it can have the port.

    `problem` says why nothing is served, None where it is: `http://... is not served: Address already in use`. It is
    told to `tell`, and once only, however often the port is tried.
    """

    def __init__(
        self,
        port: int,
        meters: MeterProvider,
        cardinality_limits: Mapping[type, int],
        tell: Callable[[str], None],
        monotonic_ns: Callable[[], int],
    ) -> None:
        # Registries of our own: the library's default one brings python_gc_* and process_* along.
        collected, self._served = CollectorRegistry(), CollectorRegistry()
        # Scope labels would be three more on every series, the same on each, and a version among them: every
        # upgrade of ours would be new series all over.
        self.reader = PrometheusReader(
            scope_info_enabled=False, registry=collected, cardinality_limits=cardinality_limits
        )
        self._served.register(_OneAtATime(collected))
        meters.add_metric_reader(self.reader)
        self.url = address(port)
        self.problem: str | None = None
        self._port = port
        self._tell = tell
        self._monotonic_ns = monotonic_ns
        self._lock = threading.Lock()
        self._server: WSGIServer | None = None
        self._thread: threading.Thread | None = None
        self._trying: threading.Thread | None = None
        self._ended = False
        self._try()

    def try_again(self) -> None:
        """To be called every second or so: tries for the port where it is due. Does not block."""
        if self._server is not None or self._ended or (self._trying is not None and self._trying.is_alive()):
            return
        if self._monotonic_ns() - self._tried_ns >= TRY_AGAIN_S * 1_000_000_000:
            # A thread: where the port is free, the library asks for the host's name, perhaps over the network.
            self._trying = threading.Thread(target=self._try, name="metrics-port", daemon=True)
            self._trying.start()

    def shutdown(self) -> None:
        with self._lock:
            self._ended = True
        if self._server is not None:
            self._end(self._server)
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def _try(self) -> None:
        self._tried_ns = self._monotonic_ns()
        try:
            server, thread = start_http_server(self._port, addr="127.0.0.1", registry=self._served)
        except (OSError, RuntimeError) as error:  # taken, not allowed; no room for another thread
            problem = f"{self.url} is not served: {getattr(error, 'strerror', None) or error}"
            if problem != self.problem:
                self.problem = problem
                self._tell(f"prometheus: {problem}")
            return
        with self._lock:
            if not self._ended:
                self._server, self._thread, self.problem = server, thread, None
                return
        self._end(server)

    def _end(self, server: WSGIServer) -> None:
        server.shutdown()
        server.server_close()


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
