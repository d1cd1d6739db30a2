"""The ways out of a process: spans, log events and metrics, each with its exporter; made together, ended together.

One signal's bad variable must not cost the others: what cannot be made is left out, and told to `problems`.
"""

from __future__ import annotations

import threading
import time
import warnings
from typing import TYPE_CHECKING, Any

from opentelemetry.sdk.metrics import (
    AlwaysOffExemplarFilter,
    AlwaysOnExemplarFilter,
    MeterProvider,
    TraceBasedExemplarFilter,
)
from opentelemetry.sdk.metrics.view import ExplicitBucketHistogramAggregation, View
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from sidecar.telemetry import exporters
from sidecar.telemetry.conventions.metrics import EXPORT_BOUNDS_S
from sidecar.telemetry.environment import sdk_environ
from sidecar.telemetry.export_metrics import exporter_metrics, observe_spool
from sidecar.telemetry.families import Families
from sidecar.telemetry.logs import LogEvents
from sidecar.telemetry.metrics import BORN_BEFORE, Metrics, cardinality_limits
from sidecar.telemetry.newborn import BornAtZero, hold_of
from sidecar.telemetry.readers import OtlpReader
from sidecar.telemetry.sender import Sender
from sidecar.telemetry.spool import Spool
from sidecar.telemetry.targets import SIGNALS, Signal, Target, target_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from opentelemetry.sdk.resources import Resource

    from sidecar.telemetry.answers import Answer
    from sidecar.telemetry.prometheus import PrometheusEndpoint
    from sidecar.telemetry.quiet import Problems
    from sidecar.telemetry.settings import TelemetrySettings

    Clock = Callable[[], int]

_DELAY_MS = 100
"""How long spans and log events are gathered in memory, until they are in the spool: what a SIGKILL may cost."""

_INLINE_ADOPTS_AFTER_S = 10.0
"""A process that lives for one command looks after what others have left only if that takes longer than this."""

_TO_SPOOL = 0.6
"""The part of the time for the end that what is queued has, to reach the spool; the rest is for sending it."""

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
        self.spool = Spool(settings.spool, problems.add)
        self._closing = exporters.Closing()
        self._senders: list[Sender] = []
        self._families = Families(settings.families)
        self._monotonic_ns = monotonic_ns
        self._unix_ns = unix_ns
        self._otlp_reader: OtlpReader | None = None
        self._tries: dict[Signal, tuple[int, str]] = {}
        """(when, what was said; empty where all is well) of each signal's last try."""
        notes: list[str] = []
        for signal in SIGNALS:
            target = target_of(signal, settings, notes)
            if target is not None:
                self.targets[signal] = target
        for note in notes:
            problems.add(note)
        with sdk_environ(settings.environ), warnings.catch_warnings():
            # A dependency's warning about its own dependencies would reach stderr.
            warnings.simplefilter("ignore")
            self._build()

    def shutdown(self, budget_s: float) -> bool:
        """Send what is queued, and return within `budget_s` whatever the Collector does. True: all is sent, or on disk.

        What it does not take by then is in the spool; where that has no disk just now, it is lost. The last metrics
        are lost: their gauges would be stale. Left to itself the SDK would take 6-8 s a signal for a Collector that
        refuses, 10-30 for a silent one.
        """
        deadline_s = time.monotonic() + budget_s
        self._closing.deadline_s = deadline_s
        for sender in self._senders:
            sender.begin_end(deadline_s)
        queues = [ending.shutdown for ending in (self.spans, self.logs) if ending is not None]
        others = [ending.shutdown for ending in (self._otlp_reader, self.prometheus) if ending is not None]
        spooling = [self._ending(ending) for ending in queues]
        rest = [self._ending(ending) for ending in others]
        _join(spooling, deadline_s - budget_s * (1 - _TO_SPOOL))
        ended = [sender.end() for sender in self._senders]
        _join([*spooling, *rest], deadline_s)
        spooled = not any(thread.is_alive() for thread in spooling)
        if all(ended) and spooled:
            return self.spool.close()
        # Closing is left to the kernel: a thread may have something to add yet.
        self.spool.save()
        return spooled and self.spool.is_safe

    def save(self) -> bool:
        """What is gathered in memory goes to the spool now. Whether it has reached the disk, if there is one for it."""
        flushed = [queue.force_flush() for queue in (self.spans, self.logs) if queue is not None]
        # Whose end has begun does not wait, and may not have put anything into the spool yet.
        return all(flushed) and self.spool.is_safe

    def send_now(self, *, everything: bool) -> None:
        """Somebody knows that the Collector is back; `everything`: and will have what was meant for another."""
        for sender in self._senders:
            sender.send_now(everything=everything)

    def signal_status(self) -> dict[str, Any]:
        """Where each signal goes, and what became of its last try. JSON-ready; holds no secret."""
        now_ns = self._monotonic_ns()
        found: dict[str, Any] = {}
        for signal, target in self.targets.items():
            found[signal] = {"protocol": target.protocol, "endpoint": target.shown}
            if (last := self._tries.get(signal)) is not None:
                tried_ns, problem = last
                found[signal] |= {"tried_ms_ago": (now_ns - tried_ns) // 1_000_000, "problem": problem or None}
        return found

    def spool_status(self) -> dict[str, Any]:
        """What the spool is like, and why a signal's requests wait. JSON-ready."""
        return {
            "path": self.spool.path,
            "problem": self.spool.problem or None,
            "dropped": self.spool.dropped(),
            "waiting_because": {
                sender.signal: sender.last_problem for sender in self._senders if sender.last_problem
            },
        }

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

            limits = cardinality_limits(self._families)
            self.prometheus = PrometheusEndpoint(
                self._settings.prometheus_port, meters, limits, self._problems.add, self._monotonic_ns
            )

    def _build_otlp_metrics(self, meters: MeterProvider) -> None:
        target = self.targets.get("metrics")
        if target is not None:
            exporter = exporters.PlainMetrics(
                target,
                exporters.transport("metrics", target),
                self._closing,
                self._problems.add,
                self._observer("metrics", target, meters),
            )
            self._otlp_reader = OtlpReader(
                exporter,
                self._settings.metric_export_interval_ns / 1e6,
                cardinality_limits=cardinality_limits(self._families),
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
                reader.suspects = self.metrics.named_commands
                if daemon:
                    reader.newborn = BornAtZero(hold_of(self._settings.metric_export_interval_ns), BORN_BEFORE)
        if daemon:
            observe_spool(self.spool, meters)

    def _build_spans(self, meters: MeterProvider) -> None:
        sender = self._sender("traces", meters)
        if sender is not None:
            self.spans = BatchSpanProcessor(
                exporters.SpooledSpans(sender), schedule_delay_millis=_DELAY_MS, meter_provider=meters
            )

    def _build_logs(self, meters: MeterProvider) -> None:
        sender = self._sender("logs", meters)
        if sender is not None:
            self.logs = LogEvents(self._resource, exporters.SpooledLogs(sender), meters, _DELAY_MS)

    def _sender(self, signal: Signal, meters: MeterProvider) -> Sender | None:
        target = self.targets.get(signal)
        if target is None:
            return None
        sender = Sender(
            signal,
            target,
            exporters.transport(signal, target),
            self.spool,
            self._problems.add,
            self._observer(signal, target, meters),
            adopt_after_s=0.0 if self._settings.scope == "daemon" else _INLINE_ADOPTS_AFTER_S,
        )
        self._senders.append(sender)
        sender.start()
        return sender

    def _observer(
        self, signal: Signal, target: Target, meters: MeterProvider
    ) -> Callable[[int, Answer, float], None]:
        """Counts each try, and keeps what the last one got."""
        count = exporter_metrics(signal, target, meters)

        def observe(records: int, answer: Answer, seconds: float) -> None:
            self._tries[signal] = (self._monotonic_ns(), answer.reason)
            count(records, answer, seconds)

        return observe

    def _try(self, build: Callable[[MeterProvider], None], meters: MeterProvider) -> None:
        try:
            build(meters)
        except Exception as error:  # noqa: BLE001 - a bad variable, of any library's own error
            self._problems.add(f"{build.__name__.removeprefix('_build_')}: {error!r}"[:500])

    def _ending(self, ending: Callable[[], object]) -> threading.Thread:
        thread = threading.Thread(target=self._end, args=(ending,), daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            # The interpreter is going down already and makes no more threads.
            self._problems.add(str(error))
        return thread

    def _end(self, ending: Callable[[], object]) -> None:
        try:
            ending()
        except Exception as error:  # noqa: BLE001 - the SDK's, of any kind; a thread's traceback would go to stderr
            self._problems.add(f"shutdown: {error!r}"[:500])


def _join(threads: list[threading.Thread], deadline_s: float) -> None:
    for thread in threads:
        if thread.is_alive():
            thread.join(max(0.0, deadline_s - time.monotonic()))
