"""What an OTLP receiver took in, as small typed records made from the protobuf messages.

Source of the shapes: https://github.com/open-telemetry/opentelemetry-proto (v1 of trace, metrics and logs).
Ids are lower-case hex, empty where the message had none. Times are unix nanoseconds, save `received_at_ns`,
which is this process's monotonic clock.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
    from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
    from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
    from opentelemetry.proto.metrics.v1.metrics_pb2 import HistogramDataPoint, Metric, NumberDataPoint

# Positions in opentelemetry.proto.trace.v1.Span.SpanKind and Status.StatusCode.
_KINDS = ("UNSPECIFIED", "INTERNAL", "SERVER", "CLIENT", "PRODUCER", "CONSUMER")
_STATUS_CODES = ("UNSET", "OK", "ERROR")
_CUMULATIVE = 2  # AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE


@dataclass(frozen=True, slots=True)
class ReceivedEvent:
    """An event on a span."""

    name: str
    time_unix_ns: int
    attributes: dict[str, Any]


@dataclass(frozen=True, slots=True)
class ReceivedSpan:
    """One span. `kind` is INTERNAL, CLIENT, ...; `status` is UNSET, OK or ERROR."""

    name: str
    trace_id: str
    span_id: str
    parent_span_id: str
    kind: str
    attributes: dict[str, Any]
    events: list[ReceivedEvent]
    status: str
    status_message: str
    start_unix_ns: int
    end_unix_ns: int
    trace_state: str
    resource: dict[str, Any]
    scope: str
    received_at_ns: int


@dataclass(frozen=True, slots=True)
class ReceivedLog:
    """One log record."""

    event_name: str
    body: Any
    attributes: dict[str, Any]
    trace_id: str
    span_id: str
    severity: str
    time_unix_ns: int
    resource: dict[str, Any]
    received_at_ns: int


@dataclass(frozen=True, slots=True)
class ReceivedHistogram:
    """The value of a histogram's point; `bucket_counts` is one longer than `bounds`."""

    count: int
    sum: float
    bounds: list[float]
    bucket_counts: list[int]


@dataclass(frozen=True, slots=True)
class ReceivedMetric:
    """One point of a metric. `kind` is sum, gauge or histogram; a sum that may fall has `monotonic` False."""

    name: str
    unit: str
    description: str
    kind: str
    monotonic: bool
    cumulative: bool
    attributes: dict[str, Any]
    value: float
    histogram: ReceivedHistogram | None
    start_unix_ns: int
    time_unix_ns: int
    resource: dict[str, Any] = field(repr=False)
    received_at_ns: int = 0


def spans_of(request: ExportTraceServiceRequest, received_at_ns: int) -> Iterator[ReceivedSpan]:
    """Every span of a request, in order."""
    for resource_spans in request.resource_spans:
        resource = attributes_of(resource_spans.resource.attributes)
        for scope_spans in resource_spans.scope_spans:
            for span in scope_spans.spans:
                yield ReceivedSpan(
                    name=span.name,
                    trace_id=span.trace_id.hex(),
                    span_id=span.span_id.hex(),
                    parent_span_id=span.parent_span_id.hex(),
                    kind=_KINDS[span.kind],
                    attributes=attributes_of(span.attributes),
                    events=[
                        ReceivedEvent(event.name, event.time_unix_nano, attributes_of(event.attributes))
                        for event in span.events
                    ],
                    status=_STATUS_CODES[span.status.code],
                    status_message=span.status.message,
                    start_unix_ns=span.start_time_unix_nano,
                    end_unix_ns=span.end_time_unix_nano,
                    trace_state=span.trace_state,
                    resource=resource,
                    scope=scope_spans.scope.name,
                    received_at_ns=received_at_ns,
                )


def logs_of(request: ExportLogsServiceRequest, received_at_ns: int) -> Iterator[ReceivedLog]:
    """Every log record of a request, in order."""
    for resource_logs in request.resource_logs:
        resource = attributes_of(resource_logs.resource.attributes)
        for scope_logs in resource_logs.scope_logs:
            for record in scope_logs.log_records:
                yield ReceivedLog(
                    event_name=record.event_name,
                    body=_value_of(record.body),
                    attributes=attributes_of(record.attributes),
                    trace_id=record.trace_id.hex(),
                    span_id=record.span_id.hex(),
                    severity=record.severity_text,
                    time_unix_ns=record.time_unix_nano,
                    resource=resource,
                    received_at_ns=received_at_ns,
                )


def metrics_of(request: ExportMetricsServiceRequest, received_at_ns: int) -> Iterator[ReceivedMetric]:
    """Every point of every metric, in order. Exponential histograms and summaries are skipped."""
    for resource_metrics in request.resource_metrics:
        resource = attributes_of(resource_metrics.resource.attributes)
        for scope_metrics in resource_metrics.scope_metrics:
            for metric in scope_metrics.metrics:
                yield from _points_of(metric, resource, received_at_ns)


def _points_of(metric: Metric, resource: dict[str, Any], received_at_ns: int) -> Iterator[ReceivedMetric]:
    kind = metric.WhichOneof("data")
    monotonic, cumulative = False, True
    points: Iterable[NumberDataPoint | HistogramDataPoint]
    if kind == "sum":
        points = metric.sum.data_points
        monotonic = metric.sum.is_monotonic
        cumulative = metric.sum.aggregation_temporality == _CUMULATIVE
    elif kind == "gauge":
        points = metric.gauge.data_points
    elif kind == "histogram":
        points = metric.histogram.data_points
        cumulative = metric.histogram.aggregation_temporality == _CUMULATIVE
    else:
        return
    for point in points:
        number, histogram = _value_at(point)
        yield ReceivedMetric(
            name=metric.name,
            unit=metric.unit,
            description=metric.description,
            kind=kind,
            monotonic=monotonic,
            cumulative=cumulative,
            attributes=attributes_of(point.attributes),
            value=number,
            histogram=histogram,
            start_unix_ns=point.start_time_unix_nano,
            time_unix_ns=point.time_unix_nano,
            resource=resource,
            received_at_ns=received_at_ns,
        )


def _value_at(point: Any) -> tuple[float, ReceivedHistogram | None]:
    # Any: the generated classes of the two kinds of point share no base that tells them apart.
    if hasattr(point, "bucket_counts"):
        histogram = ReceivedHistogram(point.count, point.sum, list(point.explicit_bounds), list(point.bucket_counts))
        return float(point.sum), histogram
    return float(point.as_int if point.WhichOneof("value") == "as_int" else point.as_double), None


def attributes_of(pairs: Iterable[KeyValue]) -> dict[str, Any]:
    """OTLP key-value pairs as a dict of Python values."""
    return {pair.key: _value_of(pair.value) for pair in pairs}


def _value_of(value: AnyValue) -> Any:
    kind = value.WhichOneof("value")
    if kind is None:
        return None
    if kind == "array_value":
        return [_value_of(item) for item in value.array_value.values]
    if kind == "kvlist_value":
        return attributes_of(value.kvlist_value.values)
    return getattr(value, kind)
