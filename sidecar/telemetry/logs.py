"""Log events: OTLP log records with an event name, in a command's span context.

The one module that touches `opentelemetry._logs`, whose underscore upstream means: its shape may still change.
Log events are where OpenTelemetry moves span events to (OTEP 4430), and they are alive in Loki while the span
they belong to is still open.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.context import Context
from opentelemetry.sdk._logs import LoggerProvider, LogRecordLimits
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.trace import NonRecordingSpan, set_span_in_context

from sidecar import __version__

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.sdk._logs.export import LogRecordExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.trace import SpanContext

    from sidecar.telemetry.describe import Attributes


class Severity(Enum):
    """How loud an event is: something may need a look at WARN, something was lost at ERROR."""

    INFO = SeverityNumber.INFO
    WARN = SeverityNumber.WARN
    ERROR = SeverityNumber.ERROR


class LogEvents:
    """Sends log events in batches, through a provider of its own that is never the process's global one."""

    def __init__(self, resource: Resource, exporter: LogRecordExporter, meters: MeterProvider, delay_ms: int) -> None:
        # UNSET: no limit. Our records are bounded by the frames; the SDK would tell of a limit on stderr.
        unset = LogRecordLimits.UNSET
        self._provider = LoggerProvider(
            resource=resource,
            shutdown_on_exit=False,
            meter_provider=meters,
            log_record_limits=LogRecordLimits(unset, unset, unset, unset),
        )
        self._provider.add_log_record_processor(
            BatchLogRecordProcessor(exporter, schedule_delay_millis=delay_ms, meter_provider=meters)
        )
        self._logger = self._provider.get_logger("sidecar", __version__)

    def emit(
        self,
        event_name: str,
        context: SpanContext,
        time_unix_ns: int,
        severity: Severity,
        body: str,
        attributes: Attributes,
    ) -> None:
        """Queue one event. Goes out whether the trace is sampled or not."""
        self._logger.emit(
            LogRecord(
                timestamp=time_unix_ns,
                context=set_span_in_context(NonRecordingSpan(context), Context()),
                severity_number=severity.value,
                severity_text=severity.name,
                body=body,
                attributes=attributes,
                event_name=event_name,
            )
        )

    def force_flush(self) -> bool:
        """Hand what is queued to the exporter, and wait for that. False: its end has begun, which does that itself."""
        return self._provider.force_flush()

    def shutdown(self) -> None:
        """Send what is queued. May block for half a minute: bound it from outside."""
        self._provider.shutdown()
