"""The gRPC side of the OTLP receiver."""

from __future__ import annotations

from concurrent import futures
from typing import TYPE_CHECKING, Any

import grpc  # type: ignore[import-untyped]  # ships no types
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2_grpc as logs
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2_grpc as metrics
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2_grpc as traces

if TYPE_CHECKING:
    from collections.abc import Callable

    from sidecar.testing.otlp import OtlpReceiver


def serve(receiver: OtlpReceiver, port: int) -> tuple[Any, int]:
    """Start the three OTLP services on 127.0.0.1. Returns (server, its port); OSError if that is taken."""
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=4, thread_name_prefix="otlp-receiver-grpc"))
    # Any: generated code has no types.
    modules: tuple[tuple[Any, str, Callable[[Any], Any]], ...] = (
        (traces, "TraceService", receiver.take_traces),
        (metrics, "MetricsService", receiver.take_metrics),
        (logs, "LogsService", receiver.take_logs),
    )
    for module, name, take in modules:
        service = _service(getattr(module, f"{name}Servicer"), receiver, take)
        getattr(module, f"add_{name}Servicer_to_server")(service, server)
    try:
        bound = server.add_insecure_port(f"127.0.0.1:{port}")
    except RuntimeError as error:
        raise OSError(f"gRPC port {port}: {error}") from None
    server.start()
    return server, bound


def _service(base: Any, receiver: OtlpReceiver, take: Callable[[Any], Any]) -> Any:
    class Service(base):  # type: ignore[misc]  # generated classes have no types
        def Export(self, request: Any, context: Any) -> Any:  # noqa: N802 - the name in the protocol
            headers = {key.lower(): str(value) for key, value in context.invocation_metadata()}
            receiver.requests.append((f"{base.__name__.removesuffix('Servicer')}/Export", headers))
            if receiver.http_status != 200:
                context.abort(grpc.StatusCode.UNAVAILABLE, "told to refuse")
            return take(request)

    return Service()
