"""OTLP exporters for a target, over HTTP or gRPC. Either library is loaded only when it is asked for.

The SDK's batches are encoded by its own encoders. Spans and log records then go into the spool, which is quick and
certain, and a sender takes them from there; metrics are sent at once or not at all, since the next ones say more.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from opentelemetry.exporter.otlp.common._aggregation import _get_aggregation, _get_temporality
from opentelemetry.exporter.otlp.proto.common._log_encoder import encode_logs
from opentelemetry.exporter.otlp.proto.common.metrics_encoder import encode_metrics
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk._logs.export import LogRecordExporter, LogRecordExportResult
from opentelemetry.sdk.metrics.export import MetricExporter, MetricExportResult
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from sidecar.telemetry.answers import Outcome
from sidecar.telemetry.backoff import LONGEST_ASKED_S

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from opentelemetry.sdk._logs import ReadableLogRecord
    from opentelemetry.sdk.metrics.export import MetricsData
    from opentelemetry.sdk.trace import ReadableSpan

    from sidecar.telemetry.answers import Answer
    from sidecar.telemetry.sender import Sender, Transport
    from sidecar.telemetry.targets import Signal, Target

_MAX_BYTES = 1 << 20
"""A larger batch is halved: a gRPC server takes 4 MiB by default, and the spool drops whole requests."""


def transport(signal: Signal, target: Target) -> Transport:
    """The way to `target`. Raises what the library does for a certificate or address that makes no sense."""
    if target.protocol == "grpc":
        from sidecar.telemetry.over_grpc import OverGrpc

        return OverGrpc(signal, target)
    from sidecar.telemetry.over_http import OverHttp

    return OverHttp(signal, target)


class SpooledSpans(SpanExporter):
    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        _hand_over(self._sender, spans, encode_spans)
        return SpanExportResult.SUCCESS


class SpooledLogs(LogRecordExporter):
    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def export(self, batch: Sequence[ReadableLogRecord]) -> LogRecordExportResult:
        _hand_over(self._sender, batch, encode_logs)
        return LogRecordExportResult.SUCCESS

    def shutdown(self) -> None:
        """The sender has an end of its own."""

    def force_flush(self, timeout_millis: int = 10_000) -> bool:
        return True


class PlainMetrics(MetricExporter):
    """One try for each collection, none while the Collector has asked to wait. `closing` bounds the last one."""

    def __init__(
        self,
        target: Target,
        way: Transport,
        closing: Closing,
        tell: Callable[[str], None],
        observe: Callable[[int, Answer, float], None],
    ) -> None:
        # Private, for OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE and its like; the SDK is pinned.
        super().__init__(_get_temporality(None), _get_aggregation(None))
        self._target = target
        self._way = way
        self._closing = closing
        self._tell = tell
        self._observe = observe
        self._not_before_s = 0.0

    def export(self, metrics_data: MetricsData, timeout_millis: float = 10_000, **kwargs: Any) -> MetricExportResult:
        if time.monotonic() < self._not_before_s:
            return MetricExportResult.FAILURE
        body: bytes = encode_metrics(metrics_data).SerializeToString()
        started_s = time.perf_counter()
        answer = self._way.send(body, self._closing.timeout_s(self._target.timeout_s))
        self._observe(_points(metrics_data), answer, time.perf_counter() - started_s)
        if answer.retry_after_s is not None:
            self._not_before_s = time.monotonic() + min(answer.retry_after_s, LONGEST_ASKED_S)
        if answer.reason:
            self._tell(f"metrics: {self._target.shown}: {answer.reason}")
        return MetricExportResult.SUCCESS if answer.outcome is Outcome.TAKEN else MetricExportResult.FAILURE

    def force_flush(self, timeout_millis: float = 10_000) -> bool:
        return True

    def shutdown(self, timeout_millis: float = 30_000, **kwargs: Any) -> None:
        """Nothing is held."""


class Closing:
    """The word that the end has come. `deadline_s` is on the monotonic clock; None while there is no hurry."""

    def __init__(self) -> None:
        self.deadline_s: float | None = None

    def timeout_s(self, usual_s: float) -> float:
        return usual_s if self.deadline_s is None else min(usual_s, self.deadline_s - time.monotonic())


def _hand_over(sender: Sender, batch: Sequence[Any], encode: Callable[[Sequence[Any]], Any]) -> None:
    body: bytes = encode(batch).SerializeToString()
    if len(body) > _MAX_BYTES and len(batch) > 1:
        middle = len(batch) // 2
        _hand_over(sender, batch[:middle], encode)
        _hand_over(sender, batch[middle:], encode)
    else:
        sender.add(body, len(batch))


def _points(data: MetricsData) -> int:
    return sum(
        len(metric.data.data_points)
        for resource_metrics in data.resource_metrics
        for scope_metrics in resource_metrics.scope_metrics
        for metric in scope_metrics.metrics
    )
