"""The metrics: instrument, unit and bounded attributes of each; and what the SDK adds about itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sidecar.telemetry.conventions.attributes import DEVELOPMENT, Attribute


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric: its instrument, unit and attributes, which are all bounded. `example` is a value of one series."""

    name: str
    instrument: str
    unit: str
    attributes: tuple[str, ...]
    brief: str
    example: str
    bounds: tuple[float, ...] = ()
    stability: str = DEVELOPMENT


DURATION_BOUNDS_S: Final = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1200.0, 1800.0, 3600.0)

LABELS: Final = {
    label.name: label
    for label in (
        Attribute("family", "string", "", "make", "The program's name if it is on the configured list, else `other`"),
        Attribute("state", "string", "", "silent", "`running` or `silent`"),
        Attribute("verdict", "string", "", "network_wait", "One of the verdicts; of heartbeats also `none`"),
        Attribute("outcome", "string", "", "exited", "The settle reason"),
        Attribute("trace_id", "string", "", "4bf92f3577b34da6a3ce929d0e0e4736", "The command's trace, in hex"),
        Attribute(
            "evidence",
            "string",
            "",
            "10.0.0.7:5432: 4 retransmits unanswered",
            "The weightiest fact behind the verdict, as it was when the command first had it in this silence; cut to "
            "200 bytes",
        ),
        Attribute("signal", "string", "", "traces", "`traces` or `logs`"),
        Attribute("session", "string", "", "s-42", "The agent's session; empty if none is known"),
    )
}
"""The attributes of metrics: short names, as labels are in Prometheus."""

_COUNTER, _UP_DOWN, _GAUGE, _HISTOGRAM = (
    "counter",
    "observable up-down counter",
    "observable gauge",
    "histogram",
)
_QUEUE = "observable up-down counter"
_SUM = "up-down counter"
EXPORT_BOUNDS_S: Final = (0.01, 0.1, 1.0, 10.0)

METRICS: Final = {
    metric.name: metric
    for metric in (
        Metric(
            "sidecar.commands.active",
            _UP_DOWN,
            "{command}",
            ("family", "state"),
            "Commands in flight; state is `running` (output flows) or `silent` (an interval without)",
            "1",
        ),
        Metric("sidecar.commands.started", _COUNTER, "{command}", ("family",), "Commands started; born at 0", "17"),
        Metric(
            "sidecar.commands.lost",
            _COUNTER,
            "{command}",
            ("family",),
            "Commands whose supervisor died; born at 0",
            "0",
        ),
        Metric(
            "sidecar.heartbeats",
            _COUNTER,
            "{heartbeat}",
            ("family", "verdict"),
            "Heartbeats of silent commands, by the verdict they carried",
            "42",
        ),
        Metric(
            "sidecar.verdicts",
            _COUNTER,
            "{verdict}",
            ("family", "verdict"),
            "Changes of verdict, by the new one",
            "3",
        ),
        Metric(
            "sidecar.output.age",
            _GAUGE,
            "s",
            (),
            "Age of the oldest last output; 0 when nothing runs",
            "74.2",
        ),
        Metric(
            "sidecar.output.oldest.timestamp",
            _GAUGE,
            "s",
            (),
            "When that output was (Unix time); now, when nothing runs. `time() - x` goes on growing when the "
            "producer dies, where an age would freeze",
            "1764666000.5",
        ),
        Metric(
            "sidecar.silence.ratio",
            _GAUGE,
            "1",
            (),
            "Age of the last output over the command's own budget: its timeout, or 60 s without; the worst",
            "0.62",
        ),
        Metric(
            "sidecar.suspect.output.age",
            _GAUGE,
            "s",
            ("family", "verdict", "evidence", "trace_id", "session"),
            "Age of the last output of a command that may be hung: by its verdict, or because it has needed someone "
            "for `suspect_after` (60 s); the worst 5 only",
            "184.0",
        ),
        Metric(
            "sidecar.overdue.output.age",
            _GAUGE,
            "s",
            ("family", "verdict", "evidence", "trace_id", "session"),
            "Age of the last output of the command without a timeout that has been silent for the longest, whatever "
            "its verdict; absent below `suspect_after` (60 s)",
            "1840.0",
        ),
        Metric(
            "sidecar.heartbeat.delay",
            _GAUGE,
            "s",
            ("family", "trace_id", "session"),
            "By how long a command's heartbeat is overdue: its supervisor says nothing, neither of silence nor of "
            "output; the worst 5 only, absent below `suspect_after` (60 s)",
            "310.0",
        ),
        Metric(
            "sidecar.lost.timestamp",
            _GAUGE,
            "s",
            ("family", "trace_id", "session"),
            "When a command's supervisor was found dead (Unix time); the last 5, each for 15 minutes",
            "1764666000.5",
        ),
        Metric("sidecar.suspect.hidden", _GAUGE, "{command}", (), "Suspects beyond those 5", "0"),
        Metric(
            "sidecar.command.duration",
            _HISTOGRAM,
            "s",
            ("family", "outcome"),
            "Duration of commands; outcome is the settle reason",
            "12.5",
            DURATION_BOUNDS_S,
        ),
        Metric(
            "sidecar.command.silence.duration",
            _HISTOGRAM,
            "s",
            ("family",),
            "Each command's longest silence, to tune budgets by",
            "8.1",
            DURATION_BOUNDS_S,
        ),
        Metric(
            "sidecar.daemon.loop.timestamp",
            _GAUGE,
            "s",
            (),
            "When the daemon's loop last turned (Unix time): a stuck loop ages",
            "1764666000.5",
        ),
        Metric(
            "sidecar.spool.items",
            _GAUGE,
            "{record}",
            ("signal",),
            "Spans or log records that wait to be taken by the Collector",
            "12",
        ),
        Metric("sidecar.spool.bytes", _GAUGE, "By", ("signal",), "Size of the requests they are in", "8123"),
        Metric(
            "sidecar.spool.dropped",
            _COUNTER,
            "{record}",
            ("signal",),
            "Spans or log records given up: too many, too old, or refused for good; born at 0",
            "0",
        ),
    )
}

# https://opentelemetry.io/docs/specs/semconv/otel/sdk-metrics/ says what they mean.
_COMPONENT = ("otel.component.type", "otel.component.name")
_EXPORTED = (*_COMPONENT, "server.address", "server.port", "error.type")
SDK_LABELS: Final = {
    label.name: label
    for label in (
        Attribute("otel.component.type", "string", "", "otlp_http_span_exporter", "What kind of part"),
        Attribute("otel.component.name", "string", "", "otlp_http_span_exporter/0", "Which one of its kind"),
        Attribute("server.address", "string", "", "127.0.0.1", "Where an exporter sends to"),
        Attribute("server.port", "int", "", "4318", "On which port"),
        Attribute("error.type", "string", "", "ConnectionError", "Why not; absent where it went well"),
    )
}
SDK_METRICS: Final = {
    name: Metric(name, instrument, unit, attributes, brief, example)
    for name, instrument, unit, attributes, brief, example in (
        ("otel.sdk.log.created", _COUNTER, "{log_record}", (), "Log events made", "12"),
        ("otel.sdk.processor.span.queue.size", _QUEUE, "{span}", _COMPONENT, "Spans that wait", "3"),
        ("otel.sdk.processor.span.queue.capacity", _SUM, "{span}", _COMPONENT, "Spans it may hold", "16384"),
        (
            "otel.sdk.processor.span.processed",
            _COUNTER,
            "{span}",
            (*_COMPONENT, "error.type"),
            "Spans handed on; with `error.type` = `queue_full`: dropped",
            "96",
        ),
        ("otel.sdk.processor.log.queue.size", _QUEUE, "{log}", _COMPONENT, "Log events that wait", "3"),
        ("otel.sdk.processor.log.queue.capacity", _SUM, "{log_record}", _COMPONENT, "Log events it may hold", "16384"),
        (
            "otel.sdk.processor.log.processed",
            _COUNTER,
            "{log_record}",
            (*_COMPONENT, "error.type"),
            "Log events handed on; with `error.type` = `queue_full`: dropped",
            "96",
        ),
        ("otel.sdk.exporter.span.exported", _COUNTER, "{span}", _EXPORTED, "Spans sent; with `error.type`: not", "96"),
        (
            "otel.sdk.exporter.log.exported",
            _COUNTER,
            "{log_record}",
            _EXPORTED,
            "Log events sent; with `error.type`: not",
            "96",
        ),
        (
            "otel.sdk.exporter.metric_data_point.exported",
            _COUNTER,
            "{data_point}",
            _EXPORTED,
            "Points sent; with `error.type`: not",
            "5210",
        ),
        (
            "otel.sdk.exporter.operation.duration",
            _HISTOGRAM,
            "s",
            _EXPORTED,
            "How long an export took",
            "0.02",
        ),
    )
}
"""What the SDK says of itself: queues, drops, exports."""
