"""OTLP exporters for a target, over HTTP or gRPC. Either library is loaded only when it is asked for.

To be called within `environment.sdk_environ`: certificates and headers are read by the SDK.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.sdk._logs.export import LogRecordExporter
    from opentelemetry.sdk.metrics.export import MetricExporter
    from opentelemetry.sdk.trace.export import SpanExporter

    from sidecar.telemetry.settings import TelemetrySettings
    from sidecar.telemetry.targets import Target

T = TypeVar("T")

# A proxy variable captures even 127.0.0.1 with gRPC; a Collector on this host is never behind one.
_NO_PROXY = (("grpc.enable_http_proxy", 0),)


class Closing:
    """The word that the end has come, shared by the exporters of a process."""

    def __init__(self) -> None:
        self.deadline_s: float | None = None
        """On the monotonic clock; None while there is no hurry."""
        self._exporters: list[object] = []

    def watch(self, exporter: T) -> T:
        self._exporters.append(exporter)
        return exporter

    def begin(self, deadline_s: float) -> None:
        """From now on one try each, and a wait between tries ends.

        The exporters' own `shutdown` would do that too, but has them refuse all that is still queued. So the
        event it sets is set here, which is theirs alone; where another version has none, the caller's budget is
        what bounds them.
        """
        self.deadline_s = deadline_s
        for exporter in self._exporters:
            http_client = getattr(exporter, "_client", None)
            for holder, name in ((http_client, "_shutdown_event"), (exporter, "_shutdown_in_progress")):
                event = getattr(holder, name, None)
                if isinstance(event, threading.Event):
                    event.set()


def span_exporter(target: Target, settings: TelemetrySettings, meters: MeterProvider, closing: Closing) -> SpanExporter:
    if target.protocol == "grpc":
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as OverGrpc

        return closing.watch(OverGrpc(meter_provider=meters, **_grpc(target, settings)))
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as OverHttp

    return closing.watch(OverHttp(meter_provider=meters, **_http(target, settings, closing)))


def metric_exporter(
    target: Target, settings: TelemetrySettings, meters: MeterProvider, closing: Closing
) -> MetricExporter:
    if target.protocol == "grpc":
        from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter as OverGrpc

        return closing.watch(OverGrpc(meter_provider=meters, **_grpc(target, settings)))
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter as OverHttp

    return closing.watch(OverHttp(meter_provider=meters, **_http(target, settings, closing)))


def log_exporter(
    target: Target, settings: TelemetrySettings, meters: MeterProvider, closing: Closing
) -> LogRecordExporter:
    if target.protocol == "grpc":
        from opentelemetry.exporter.otlp.proto.grpc._log_exporter import OTLPLogExporter as OverGrpc

        return closing.watch(OverGrpc(meter_provider=meters, **_grpc(target, settings)))
    from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter as OverHttp

    return closing.watch(OverHttp(meter_provider=meters, **_http(target, settings, closing)))


def _grpc(target: Target, settings: TelemetrySettings) -> dict[str, Any]:
    import grpc  # type: ignore[import-untyped]  # ships no types

    compressions = {"gzip": grpc.Compression.Gzip, "deflate": grpc.Compression.Deflate}
    options: dict[str, Any] = {"endpoint": target.endpoint, "timeout": target.timeout_s}
    options["compression"] = compressions.get(target.compression, grpc.Compression.NoCompression)
    if settings.otlp_headers:
        # Metadata keys of HTTP/2 are lower case; gRPC refuses others.
        options["headers"] = tuple((key.lower(), value) for key, value in settings.otlp_headers.items())
    if target.loopback:
        options["channel_options"] = _NO_PROXY
    return options


def _http(target: Target, settings: TelemetrySettings, closing: Closing) -> dict[str, Any]:
    from opentelemetry.exporter.otlp.proto.http import Compression

    from sidecar.telemetry.http_session import Session

    options: dict[str, Any] = {"endpoint": target.endpoint, "timeout": target.timeout_s}
    options["compression"] = Compression(target.compression)
    options["session"] = Session(closing, loopback=target.loopback)
    if settings.otlp_headers:
        options["headers"] = dict(settings.otlp_headers)
    return options
