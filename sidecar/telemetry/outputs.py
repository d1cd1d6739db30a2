"""The ways out of a process: spans, log events and metrics, each with its exporter; made together, ended together.

One signal's bad variable must not cost the others: what cannot be made is left out, and told to `problems`.
"""

from __future__ import annotations

import threading
import time
import warnings
from typing import TYPE_CHECKING

from opentelemetry.sdk.metrics import (
    AlwaysOffExemplarFilter,
    AlwaysOnExemplarFilter,
    Counter,
    MeterProvider,
    TraceBasedExemplarFilter,
)
from opentelemetry.sdk.metrics.view import ExplicitBucketHistogramAggregation, View
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from sidecar.telemetry import exporters
from sidecar.telemetry.conventions.metrics import EXPORT_BOUNDS_S
from sidecar.telemetry.environment import sdk_environ
from sidecar.telemetry.families import Families
from sidecar.telemetry.logs import LogEvents
from sidecar.telemetry.metrics import Metrics, cardinality_limit
from sidecar.telemetry.suspects import OtlpReader
from sidecar.telemetry.targets import SIGNALS, Signal, Target, target_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from opentelemetry.sdk.resources import Resource

    from sidecar.telemetry.prometheus import PrometheusEndpoint
    from sidecar.telemetry.quiet import Problems
    from sidecar.telemetry.settings import TelemetrySettings

    Clock = Callable[[], int]

_DELAY_MS = 500
"""How long spans and log events are gathered: a heartbeat should be seen while it is news."""

_EXEMPLAR_FILTERS = {"always_on": AlwaysOnExemplarFilter, "always_off": AlwaysOffExemplarFilter}


def _views() -> list[View]:
    # The SDK measures its exports in seconds, by bounds that were meant for milliseconds: all would be in one bucket.
    aggregation = ExplicitBucketHistogramAggregation(EXPORT_BOUNDS_S)
    return [View(instrument_name="otel.sdk.exporter.operation.duration", aggregation=aggregation)]


class Outputs:
    """`spans`, `logs` and `metrics` are None where they are switched off or could not be made.

    The providers are private ones: the process may have OpenTelemetry of its own.
    """

    def __init__(
        self,
        settings: TelemetrySettings,
        resource: Resource,
        problems: Problems,
        monotonic_ns: Clock,
        unix_ns: Clock,
    ) -> None:
        self.spans: BatchSpanProcessor | None = None
        self.logs: LogEvents | None = None
        self.metrics: Metrics | None = None
        self.prometheus: PrometheusEndpoint | None = None
        self.targets: dict[Signal, Target] = {}
        self._settings = settings
        self._resource = resource
        self._problems = problems
        self._closing = exporters.Closing()
        self._families = Families(settings.families)
        self._monotonic_ns = monotonic_ns
        self._unix_ns = unix_ns
        self._otlp_reader: OtlpReader | None = None
        notes: list[str] = []
        for signal in SIGNALS:
            target = target_of(signal, settings, notes)
            if target is not None:
                self.targets[signal] = target
        for note in notes:
            problems.add(note)
        own_endpoint = settings.otlp_endpoint is not None
        with sdk_environ(settings.environ, own_endpoint=own_endpoint), warnings.catch_warnings():
            # A dependency's warning about its own dependencies would reach stderr.
            warnings.simplefilter("ignore")
            self._build()

    def shutdown(self, budget_s: float) -> None:
        """Send what is queued, and return within `budget_s` whatever the exporters do.

        A refused Collector would hold the SDK's own shutdown for 6-8 s a signal, a silent one for 10-30. What is
        not through by then is lost with the process: the threads are daemons.
        """
        deadline_s = time.monotonic() + budget_s
        self._closing.begin(deadline_s)
        endings: list[Callable[[], object]] = []
        if self.spans is not None:
            endings.append(self.spans.shutdown)
        if self.logs is not None:
            endings.append(self.logs.shutdown)
        if self._otlp_reader is not None:
            endings.append(self._otlp_reader.shutdown)
        if self.prometheus is not None:
            endings.append(self.prometheus.shutdown)
        threads = [threading.Thread(target=self._end, args=(ending,), daemon=True) for ending in endings]
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(max(0.0, deadline_s - time.monotonic()))
        except RuntimeError as error:
            # The interpreter is going down already and makes no more threads.
            self._problems.add(str(error))

    def _build(self) -> None:
        chosen = self._settings.environ.get("OTEL_METRICS_EXEMPLAR_FILTER", "").strip().lower()
        exemplars = _EXEMPLAR_FILTERS.get(chosen, TraceBasedExemplarFilter)()
        meters = MeterProvider(
            resource=self._resource, exemplar_filter=exemplars, shutdown_on_exit=False, views=_views()
        )
        self._try(self._build_prometheus, meters)
        self._try(self._build_otlp_metrics, meters)
        self._try(self._build_metrics, meters)
        self._try(self._build_spans, meters)
        self._try(self._build_logs, meters)

    def _build_prometheus(self, meters: MeterProvider) -> None:
        if self._settings.prometheus_port:
            from sidecar.telemetry.prometheus import PrometheusEndpoint

            limit = cardinality_limit(self._families)
            self.prometheus = PrometheusEndpoint(self._settings.prometheus_port, meters, limit)

    def _build_otlp_metrics(self, meters: MeterProvider) -> None:
        target = self.targets.get("metrics")
        if target is not None:
            self._otlp_reader = OtlpReader(
                exporters.metric_exporter(target, self._settings, meters, self._closing),
                self._settings.metric_export_interval_ns / 1e6,
                cardinality_limits={Counter: cardinality_limit(self._families)},
            )
            meters.add_metric_reader(self._otlp_reader)

    def _build_metrics(self, meters: MeterProvider) -> None:
        # After the readers: what is counted before a reader is there never reaches it, a counter's zero included.
        daemon = self._settings.scope == "daemon"
        self.metrics = Metrics(
            meters,
            self._families,
            self._monotonic_ns,
            self._unix_ns,
            daemon=daemon,
            suspect_after_ns=self._settings.suspect_after_ns,
        )
        for reader in (self._otlp_reader, self.prometheus.reader if self.prometheus else None):
            if reader is not None:
                reader.suspects = self.metrics.worst_suspects

    def _build_spans(self, meters: MeterProvider) -> None:
        target = self.targets.get("traces")
        if target is not None:
            exporter = exporters.span_exporter(target, self._settings, meters, self._closing)
            self.spans = BatchSpanProcessor(exporter, schedule_delay_millis=_DELAY_MS, meter_provider=meters)

    def _build_logs(self, meters: MeterProvider) -> None:
        target = self.targets.get("logs")
        if target is not None:
            exporter = exporters.log_exporter(target, self._settings, meters, self._closing)
            self.logs = LogEvents(self._resource, exporter, meters, _DELAY_MS)

    def _try(self, build: Callable[[MeterProvider], None], meters: MeterProvider) -> None:
        try:
            build(meters)
        except Exception as error:  # noqa: BLE001 - a bad variable or a taken port, of any library's own error
            self._problems.add(f"{build.__name__.removeprefix('_build_')}: {error!r}"[:500])

    def _end(self, ending: Callable[[], object]) -> None:
        try:
            ending()
        except Exception as error:  # noqa: BLE001 - the SDK's, of any kind; a thread's traceback would go to stderr
            self._problems.add(f"shutdown: {error!r}"[:500])
