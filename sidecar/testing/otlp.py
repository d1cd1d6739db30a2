"""An OTLP receiver in this process: real HTTP, and real gRPC where asked for, on loopback.

    with OtlpReceiver(grpc=True) as receiver:
        ...  # export to receiver.http_endpoint or receiver.grpc_endpoint
        span = receiver.wait_for_span(lambda span: span.name == "make", timeout_s=5)

Both protocols end in the same lists. The waiters return the first match, one that came earlier included, or
raise TimeoutError that names what came instead. Callbacks run on the receiving thread.
"""

from __future__ import annotations

import gzip
import socket
import ssl
import threading
import time
import zlib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from google.protobuf.message import DecodeError  # type: ignore[import-untyped]  # ships no types
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import (
    ExportLogsServiceRequest,
    ExportLogsServiceResponse,
)
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from sidecar.testing.received import ReceivedLog, ReceivedMetric, ReceivedSpan, logs_of, metrics_of, spans_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import TracebackType

T = TypeVar("T")

_MAX_BODY_BYTES = 64 * 1024 * 1024


class Inbox(Generic[T]):
    """A growing list that can be waited on."""

    def __init__(self, on_item: Callable[[T], None] | None) -> None:
        self._items: list[T] = []
        self._grew = threading.Condition()
        self._on_item = on_item

    @property
    def items(self) -> list[T]:
        """A copy of all that came so far."""
        with self._grew:
            return list(self._items)

    def extend(self, items: Iterable[T]) -> None:
        arrived = list(items)
        with self._grew:
            self._items += arrived
            self._grew.notify_all()
        if self._on_item is not None:
            for item in arrived:
                self._on_item(item)

    def clear(self) -> None:
        with self._grew:
            self._items.clear()

    def wait_for(self, predicate: Callable[[T], bool], timeout_s: float) -> T:
        """The first item that `predicate` takes; TimeoutError after `timeout_s`."""
        deadline_s = time.monotonic() + timeout_s
        seen = 0
        with self._grew:
            while True:
                seen = min(seen, len(self._items))
                for item in self._items[seen:]:
                    if predicate(item):
                        return item
                seen = len(self._items)
                remaining_s = deadline_s - time.monotonic()
                if remaining_s <= 0:
                    break
                self._grew.wait(remaining_s)
            names = {getattr(item, "name", "") or getattr(item, "event_name", "") for item in self._items}
        came = ", ".join(sorted(names)) or "nothing"
        raise TimeoutError(f"nothing that matches within {timeout_s} s; {seen} came: {came}")


class OtlpReceiver:
    """Takes spans, metrics and log records in, over HTTP always and over gRPC with `grpc=True`.

    Ports are ephemeral unless given (to come back on the same one after an outage); `tls` names the files of a
    certificate and its key, `client_authority` that of the authority whose clients alone are let in; with
    `path_prefix` it takes OTLP over HTTP under that path only (Loki: `/otlp`). A context manager; or `start()` and
    `stop()`.

    A Collector in trouble, to be set at any time:

    - `http_status`: another than 200 refuses what comes over HTTP with it; gRPC then answers with the status that
      a gateway makes of it (400 INVALID_ARGUMENT, 401 UNAUTHENTICATED, 429 RESOURCE_EXHAUSTED, else UNAVAILABLE);
    - `retry_after_s`: what such an answer asks for, in Retry-After or RetryInfo;
    - `delay_s`: how long each answer takes;
    - `refused_records`: how many spans, points or log records each success says it refused.

    What is refused as a whole is in `requests`, and nowhere else.
    """

    def __init__(
        self,
        *,
        grpc: bool = False,
        http_port: int = 0,
        grpc_port: int = 0,
        tls: tuple[str, str] | None = None,
        client_authority: str | None = None,
        path_prefix: str = "",
        on_span: Callable[[ReceivedSpan], None] | None = None,
        on_metric: Callable[[ReceivedMetric], None] | None = None,
        on_log: Callable[[ReceivedLog], None] | None = None,
    ) -> None:
        self.http_status = 200
        self.retry_after_s: float | None = None
        self.delay_s = 0.0
        self.refused_records = 0
        self.requests: list[tuple[str, dict[str, str]]] = []
        """(path or RPC name, headers with lower-case names) of each request, refused ones included."""
        self._spans: Inbox[ReceivedSpan] = Inbox(on_span)
        self._metrics: Inbox[ReceivedMetric] = Inbox(on_metric)
        self._logs: Inbox[ReceivedLog] = Inbox(on_log)
        self._want_grpc = grpc
        self._tls = tls
        self._client_authority = client_authority
        self._http_port = http_port
        self._grpc_port = grpc_port
        self.path_prefix = path_prefix
        self._http: _Server | None = None
        self._grpc: Any = None

    def start(self) -> OtlpReceiver:
        handler = type("Handler", (_Handler,), {"receiver": self})
        self._http = _Server(("127.0.0.1", self._http_port), handler)
        self._http_port = self._http.server_address[1]
        if self._tls is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*self._tls)
            if self._client_authority is not None:
                context.verify_mode = ssl.CERT_REQUIRED
                context.load_verify_locations(self._client_authority)
            # The handshake belongs to the connection's own thread: one that hangs must not hold up the others.
            self._http.socket = context.wrap_socket(
                self._http.socket, server_side=True, do_handshake_on_connect=False
            )
        threading.Thread(target=self._http.serve_forever, args=(0.05,), name="otlp-receiver-http", daemon=True).start()
        if self._want_grpc:
            # Loaded here: gRPC costs a hundred milliseconds that most users of the receiver need not pay.
            from sidecar.testing.otlp_grpc import serve

            self._grpc, self._grpc_port = serve(self, self._grpc_port, self._tls, self._client_authority)
        return self

    def stop(self) -> None:
        if self._http is not None:
            self._http.shutdown()
            self._http.server_close()
            self._http.hang_up()
            self._http = None
        if self._grpc is not None:
            self._grpc.stop(grace=None).wait()
            self._grpc = None

    def __enter__(self) -> OtlpReceiver:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def http_endpoint(self) -> str:
        """The base, to which exporters add /v1/traces and the like."""
        return f"{self._scheme}://127.0.0.1:{self._http_port}{self.path_prefix}"

    @property
    def grpc_endpoint(self) -> str:
        if not self._want_grpc:
            raise RuntimeError("this receiver speaks no gRPC; make it with grpc=True")
        return f"{self._scheme}://127.0.0.1:{self._grpc_port}"

    @property
    def _scheme(self) -> str:
        return "http" if self._tls is None else "https"

    @property
    def spans(self) -> list[ReceivedSpan]:
        return self._spans.items

    @property
    def metrics(self) -> list[ReceivedMetric]:
        return self._metrics.items

    @property
    def logs(self) -> list[ReceivedLog]:
        return self._logs.items

    def wait_for_span(self, predicate: Callable[[ReceivedSpan], bool], timeout_s: float = 30.0) -> ReceivedSpan:
        return self._spans.wait_for(predicate, timeout_s)

    def wait_for_metric(self, predicate: Callable[[ReceivedMetric], bool], timeout_s: float = 30.0) -> ReceivedMetric:
        return self._metrics.wait_for(predicate, timeout_s)

    def wait_for_log(self, predicate: Callable[[ReceivedLog], bool], timeout_s: float = 30.0) -> ReceivedLog:
        return self._logs.wait_for(predicate, timeout_s)

    def clear(self) -> None:
        """Forget all that came so far."""
        self._spans.clear()
        self._metrics.clear()
        self._logs.clear()
        self.requests.clear()

    def take_traces(self, request: ExportTraceServiceRequest) -> ExportTraceServiceResponse:
        self._spans.extend(spans_of(request, time.monotonic_ns()))
        response = ExportTraceServiceResponse()
        self._say_what_is_refused(response, "rejected_spans")
        return response

    def take_metrics(self, request: ExportMetricsServiceRequest) -> ExportMetricsServiceResponse:
        self._metrics.extend(metrics_of(request, time.monotonic_ns()))
        response = ExportMetricsServiceResponse()
        self._say_what_is_refused(response, "rejected_data_points")
        return response

    def take_logs(self, request: ExportLogsServiceRequest) -> ExportLogsServiceResponse:
        self._logs.extend(logs_of(request, time.monotonic_ns()))
        response = ExportLogsServiceResponse()
        self._say_what_is_refused(response, "rejected_log_records")
        return response

    def _say_what_is_refused(self, response: Any, field: str) -> None:
        if self.refused_records:
            setattr(response.partial_success, field, self.refused_records)
            response.partial_success.error_message = "told to refuse"


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, *arguments: Any) -> None:
        self._open: set[socket.socket] = set()
        super().__init__(*arguments)

    def process_request(self, request: Any, client_address: Any) -> None:
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._open.discard(request)
        super().shutdown_request(request)

    def hang_up(self) -> None:
        """A connection that is kept alive would go on being served by its thread."""
        for connection in list(self._open):
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # the client was faster

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up is no news; the default prints a traceback."""


class _Handler(BaseHTTPRequestHandler):
    receiver: OtlpReceiver
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        length_bytes = int(self.headers.get("Content-Length", "0"))
        if not 0 <= length_bytes <= _MAX_BODY_BYTES:
            self._answer(413, b"")
            return
        body = self.rfile.read(length_bytes)
        self.receiver.requests.append((self.path, {key.lower(): value for key, value in self.headers.items()}))
        time.sleep(self.receiver.delay_s)
        if self.receiver.http_status != 200:
            self._answer(self.receiver.http_status, b"")
            return
        try:
            self._take(self._decoded(body))
        except (DecodeError, OSError, EOFError, zlib.error):
            # BadGzipFile is an OSError.
            self._answer(400, b"")

    def _decoded(self, body: bytes) -> bytes:
        encoding = self.headers.get("Content-Encoding", "identity")
        if encoding == "gzip":
            return gzip.decompress(body)
        return zlib.decompress(body) if encoding == "deflate" else body

    def _take(self, body: bytes) -> None:
        response: ExportTraceServiceResponse | ExportMetricsServiceResponse | ExportLogsServiceResponse
        prefix = self.receiver.path_prefix
        path = self.path.removeprefix(prefix) if self.path.startswith(prefix) else ""
        if path == "/v1/traces":
            response = self.receiver.take_traces(ExportTraceServiceRequest.FromString(body))
        elif path == "/v1/metrics":
            response = self.receiver.take_metrics(ExportMetricsServiceRequest.FromString(body))
        elif path == "/v1/logs":
            response = self.receiver.take_logs(ExportLogsServiceRequest.FromString(body))
        else:
            self._answer(404, b"")
            return
        self._answer(200, response.SerializeToString())

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/x-protobuf")
        self.send_header("Content-Length", str(len(body)))
        if self.receiver.retry_after_s is not None and status != 200:
            self.send_header("Retry-After", f"{self.receiver.retry_after_s:g}")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing is printed: a test aid has no business on stderr."""
