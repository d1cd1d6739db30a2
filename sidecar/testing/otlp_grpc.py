"""The gRPC side of the OTLP receiver."""

from __future__ import annotations

import time
from concurrent import futures
from typing import TYPE_CHECKING, Any

import grpc  # type: ignore[import-untyped]  # ships no types
from google.protobuf.any_pb2 import Any as AnyMessage  # type: ignore[import-untyped]  # as above
from google.rpc.error_details_pb2 import RetryInfo  # type: ignore[import-untyped]  # as above
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]  # as above
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2_grpc as logs
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2_grpc as metrics
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2_grpc as traces

if TYPE_CHECKING:
    from collections.abc import Callable

    from sidecar.testing.otlp import OtlpReceiver


_CODES = {
    400: grpc.StatusCode.INVALID_ARGUMENT,
    401: grpc.StatusCode.UNAUTHENTICATED,
    429: grpc.StatusCode.RESOURCE_EXHAUSTED,
}


def serve(
    receiver: OtlpReceiver, port: int, tls: tuple[str, str] | None = None, client_authority: str | None = None
) -> tuple[Any, int]:
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
        if tls is None:
            bound = server.add_insecure_port(f"127.0.0.1:{port}")
        else:
            certificate, key = tls
            with open(certificate, "rb") as public, open(key, "rb") as private:
                pair = (private.read(), public.read())
            authority = None
            if client_authority is not None:
                with open(client_authority, "rb") as file:
                    authority = file.read()
            credentials = grpc.ssl_server_credentials([pair], authority, authority is not None)
            bound = server.add_secure_port(f"127.0.0.1:{port}", credentials)
    except RuntimeError as error:
        raise OSError(f"gRPC port {port}: {error}") from None
    server.start()
    return server, bound


def _service(base: Any, receiver: OtlpReceiver, take: Callable[[Any], Any]) -> Any:
    class Service(base):  # type: ignore[misc]  # generated classes have no types
        def Export(self, request: Any, context: Any) -> Any:  # noqa: N802 - the name in the protocol
            headers = {key.lower(): str(value) for key, value in context.invocation_metadata()}
            receiver.requests.append((f"{base.__name__.removesuffix('Servicer')}/Export", headers))
            time.sleep(receiver.delay_s)
            if receiver.http_status != 200:
                if receiver.retry_after_s is not None:
                    context.set_trailing_metadata((("grpc-status-details-bin", _details(receiver.retry_after_s)),))
                context.abort(_CODES.get(receiver.http_status, grpc.StatusCode.UNAVAILABLE), "told to refuse")
            return take(request)

    return Service()


def _details(retry_after_s: float) -> bytes:
    """RetryInfo as a server sends it: in the details of a google.rpc.Status."""
    info = RetryInfo()
    info.retry_delay.FromNanoseconds(int(retry_after_s * 1e9))
    packed = AnyMessage()
    packed.Pack(info)
    return bytes(Status(details=[packed]).SerializeToString())
