"""OTLP over gRPC: one request, one try. The messages are passed as the bytes they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import grpc  # type: ignore[import-untyped]  # ships no types
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]  # as above
from google.rpc.error_details_pb2 import RetryInfo  # type: ignore[import-untyped]  # as above
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]  # as above

from sidecar import __version__
from sidecar.telemetry.answers import Answer, Outcome, of_response

if TYPE_CHECKING:
    from sidecar.telemetry.targets import Signal, Target

_METHODS = {
    "traces": "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
    "metrics": "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
    "logs": "/opentelemetry.proto.collector.logs.v1.LogsService/Export",
}
_COMPRESSIONS = {"gzip": grpc.Compression.Gzip, "deflate": grpc.Compression.Deflate}
# https://opentelemetry.io/docs/specs/otlp/#failures-1; RESOURCE_EXHAUSTED only where the server says when.
_RETRYABLE = frozenset(
    (
        grpc.StatusCode.CANCELLED,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.ABORTED,
        grpc.StatusCode.OUT_OF_RANGE,
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.DATA_LOSS,
    )
)
_STATUS_KEY, _RETRY_KEY = "grpc-status-details-bin", "google.rpc.retryinfo-bin"
_SHORTEST_S = 0.05


class OverGrpc:
    """Sends serialized requests of one signal to one target. For one thread at a time."""

    def __init__(self, signal: Signal, target: Target) -> None:
        self._signal = signal
        self._target = target
        parts = urlsplit(target.endpoint)
        self._address = parts.netloc.rpartition("@")[2] or target.endpoint
        self._options: list[tuple[str, object]] = [
            ("grpc.primary_user_agent", f"OTel-OTLP-Exporter-Python-sidecar/{__version__}")
        ]
        if target.loopback:
            # A proxy variable captures even 127.0.0.1; a Collector on this host is never behind one.
            self._options.append(("grpc.enable_http_proxy", 0))
        self._metadata = tuple(target.headers.items())
        self._channel: Any = None
        self._call: Any = None

    def send(self, body: bytes, timeout_s: float) -> Answer:
        """One try, which is over after `timeout_s`. Never raises."""
        try:
            if self._channel is None:
                self._connect()
            answer = self._call(body, timeout=max(timeout_s, _SHORTEST_S), metadata=self._metadata)
        except grpc.RpcError as error:
            return self._failed(error)
        except Exception as error:  # noqa: BLE001 - a certificate that cannot be read, say; worth a later try
            return Answer(Outcome.LATER, f"{type(error).__name__}: {error}"[:200], type(error).__qualname__)
        return of_response(self._signal, answer)

    def _connect(self) -> None:
        compression = _COMPRESSIONS.get(self._target.compression, grpc.Compression.NoCompression)
        if self._target.insecure:
            self._channel = grpc.insecure_channel(self._address, self._options, compression)
        else:
            tls = self._target.tls
            credentials = grpc.ssl_channel_credentials(
                _content(tls.certificate), _content(tls.client_key), _content(tls.client_certificate)
            )
            self._channel = grpc.secure_channel(self._address, credentials, self._options, compression)
        self._call = self._channel.unary_unary(_METHODS[self._signal])

    def _failed(self, error: Any) -> Answer:
        code = error.code()
        if code == grpc.StatusCode.UNAVAILABLE:
            # A channel that could not connect refuses calls for up to two minutes, without trying; a new one tries.
            self._channel.close()
            self._channel = None
        retry_after_s = _retry_after_s(error)
        retryable = code in _RETRYABLE or (code == grpc.StatusCode.RESOURCE_EXHAUSTED and retry_after_s is not None)
        return Answer(
            Outcome.LATER if retryable else Outcome.NEVER,
            f"gRPC status {code.name}: {error.details()}"[:200],
            code.name,
            retry_after_s,
        )


def _content(path: str | None) -> bytes | None:
    if path is None:
        return None
    with open(path, "rb") as file:
        return file.read()


def _retry_after_s(error: Any) -> float | None:
    """What the server asks for: RetryInfo in the status's details, or, as the SDK has it, by itself."""
    trailing = dict(error.trailing_metadata() or ())
    info = RetryInfo()
    try:
        if _RETRY_KEY in trailing:
            info.ParseFromString(trailing[_RETRY_KEY])
        elif _STATUS_KEY in trailing:
            details = Status.FromString(trailing[_STATUS_KEY]).details
            if not any(detail.Unpack(info) for detail in details):
                return None
        else:
            return None
    except DecodeError:
        return None
    return float(info.retry_delay.seconds + info.retry_delay.nanos / 1e9)
