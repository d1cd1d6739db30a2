"""The sidecar's own metrics about exporting: what the SDK's exporters would say of themselves, and the spool's."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from opentelemetry.metrics import CallbackOptions, Observation
from opentelemetry.semconv._incubating.metrics.otel_metrics import (
    create_otel_sdk_exporter_log_exported,
    create_otel_sdk_exporter_metric_data_point_exported,
    create_otel_sdk_exporter_operation_duration,
    create_otel_sdk_exporter_span_exported,
)

from sidecar import __version__
from sidecar.telemetry.answers import Outcome
from sidecar.telemetry.conventions.metrics import METRICS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from opentelemetry.metrics import MeterProvider

    from sidecar.telemetry.answers import Answer
    from sidecar.telemetry.spool import Spool
    from sidecar.telemetry.targets import Signal, Target

SPOOLED: tuple[Signal, ...] = ("traces", "logs")

_EXPORTED = {
    "traces": (create_otel_sdk_exporter_span_exported, "span"),
    "metrics": (create_otel_sdk_exporter_metric_data_point_exported, "metric"),
    "logs": (create_otel_sdk_exporter_log_exported, "log"),
}


def exporter_metrics(signal: Signal, target: Target, meters: MeterProvider) -> Callable[[int, Answer, float], None]:
    """Counts each try as the semantic conventions have it for an SDK's exporter: `otel.sdk.exporter.*`."""
    create, what = _EXPORTED[signal]
    meter = meters.get_meter("opentelemetry-sdk")
    exported, duration = create(meter), create_otel_sdk_exporter_operation_duration(meter)
    kind = f"otlp_{'grpc' if target.protocol == 'grpc' else 'http'}_{what}_exporter"
    parts = urlsplit(target.endpoint)
    attributes: dict[str, str | int] = {"otel.component.type": kind, "otel.component.name": f"{kind}/0"}
    if parts.hostname:
        attributes["server.address"] = parts.hostname
        attributes["server.port"] = parts.port or (80 if parts.scheme == "http" else 443)

    def observe(records: int, answer: Answer, seconds: float) -> None:
        failed = {} if answer.outcome is Outcome.TAKEN else {"error.type": answer.error_type or "_OTHER"}
        exported.add(records, {**attributes, **failed})
        duration.record(seconds, {**attributes, **failed})

    return observe


def observe_spool(spool: Spool, meters: MeterProvider) -> None:
    """`sidecar.spool.items`, `.bytes` and `.dropped`, zeros included."""
    meter = meters.get_meter("sidecar", __version__)

    def items(options: CallbackOptions) -> Iterable[Observation]:
        return _by_signal({signal: records for signal, records, _ in _waiting(spool)})

    def size(options: CallbackOptions) -> Iterable[Observation]:
        return _by_signal({signal: size for signal, _, size in _waiting(spool)})

    def dropped(options: CallbackOptions) -> Iterable[Observation]:
        return _by_signal(spool.dropped())

    for name, look in (("sidecar.spool.items", items), ("sidecar.spool.bytes", size)):
        known = METRICS[name]
        meter.create_observable_gauge(name, [look], known.unit, known.brief)
    known = METRICS["sidecar.spool.dropped"]
    meter.create_observable_counter(known.name, [dropped], known.unit, known.brief)


def _waiting(spool: Spool) -> list[tuple[str, int, int]]:
    totals = spool.totals()
    return [
        (
            signal,
            sum(total.records for total in totals if total.signal == signal),
            sum(total.bytes for total in totals if total.signal == signal),
        )
        for signal in SPOOLED
    ]


def _by_signal(values: dict[str, int]) -> list[Observation]:
    return [Observation(values.get(signal, 0), {"signal": signal}) for signal in SPOOLED]
