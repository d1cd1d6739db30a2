"""The OTLP receiver takes what a real exporter sends, over both protocols, and waits well."""

import gzip
import http.client
import threading
import urllib.error
import urllib.request

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from sidecar.testing import FakeClock
from sidecar.testing.otlp import OtlpReceiver


def _request(name: str) -> bytes:
    request = ExportTraceServiceRequest()
    resource_spans = request.resource_spans.add()
    attribute = resource_spans.resource.attributes.add()
    attribute.key, attribute.value.string_value = "service.name", "test"
    span = resource_spans.scope_spans.add().spans.add()
    span.name, span.trace_id, span.span_id, span.kind = name, b"\x01" * 16, b"\x02" * 8, 3
    attribute = span.attributes.add()
    attribute.key = "list"
    attribute.value.array_value.values.add().int_value = 7
    return bytes(request.SerializeToString())


def _post(url: str, body: bytes, **headers: str) -> int:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    request = urllib.request.Request(url, body, headers, method="POST")
    try:
        with opener.open(request, timeout=60) as response:
            return int(response.status)
    except urllib.error.HTTPError as error:
        return error.code


def test_http_plain_and_gzip() -> None:
    with OtlpReceiver() as receiver:
        url = f"{receiver.http_endpoint}/v1/traces"
        assert _post(url, _request("plain")) == 200
        assert _post(url, gzip.compress(_request("zipped")), **{"Content-Encoding": "gzip"}) == 200
        assert [span.name for span in receiver.spans] == ["plain", "zipped"]
        span = receiver.spans[0]
        assert (span.trace_id, span.span_id, span.parent_span_id) == ("01" * 16, "02" * 8, "")
        assert (span.kind, span.attributes, span.resource) == (
            "CLIENT",
            {"list": [7]},
            {"service.name": "test"},
        )


def test_http_answers_what_it_cannot_take() -> None:
    with OtlpReceiver() as receiver:
        assert _post(f"{receiver.http_endpoint}/v1/traces", b"\xff not protobuf") == 400
        assert _post(f"{receiver.http_endpoint}/v1/traces", b"no gzip", **{"Content-Encoding": "gzip"}) == 400
        assert _post(f"{receiver.http_endpoint}/v1/nothing", b"") == 404
        receiver.http_status = 503
        assert _post(f"{receiver.http_endpoint}/v1/traces", _request("refused")) == 503
        assert receiver.spans == []
        assert len(receiver.requests) == 4


def test_grpc() -> None:
    from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.trace import SpanContext

    with OtlpReceiver(grpc=True) as receiver:
        exporter = OTLPSpanExporter(endpoint=receiver.grpc_endpoint, headers=(("key", "value"),))
        span = ReadableSpan("over-grpc", SpanContext(1, 2, False), resource=Resource({}), start_time=1, end_time=2)
        exporter.export([span])
        assert receiver.wait_for_span(lambda span: span.name == "over-grpc").start_unix_ns == 1
        assert receiver.requests[0][0] == "TraceService/Export"
        assert receiver.requests[0][1]["key"] == "value"
        exporter.shutdown()


def test_grpc_has_to_be_asked_for() -> None:
    with OtlpReceiver() as receiver, pytest.raises(RuntimeError, match="grpc=True"):
        _ = receiver.grpc_endpoint


def test_waiter_sees_what_comes_later_and_says_what_came_instead() -> None:
    with OtlpReceiver() as receiver:
        url = f"{receiver.http_endpoint}/v1/traces"
        sender = threading.Timer(0.05, _post, (url, _request("later")))
        sender.start()
        assert receiver.wait_for_span(lambda span: span.name == "later").name == "later"
        sender.join()
        with pytest.raises(TimeoutError, match="1 came: later"):
            receiver.wait_for_span(lambda span: span.name == "never", timeout_s=0.01)


def test_callback_and_same_port_again() -> None:
    names: list[str] = []
    with OtlpReceiver(on_span=lambda span: names.append(span.name)) as receiver:
        port = int(receiver.http_endpoint.rpartition(":")[2])
        _post(f"{receiver.http_endpoint}/v1/traces", _request("one"))
    with OtlpReceiver(http_port=port) as receiver:
        assert _post(f"http://127.0.0.1:{port}/v1/traces", _request("two")) == 200
    assert names == ["one"]


def test_clock() -> None:
    clock = FakeClock(monotonic_ns=0, unix_ns=0)
    clock.advance(1.5)
    clock.jump_wall(-1)
    assert (clock.monotonic_ns(), clock.unix_ns()) == (1_500_000_000, 500_000_000)
    with pytest.raises(ValueError, match="go back"):
        clock.advance(-1)


def test_a_receiver_that_stops_hangs_up() -> None:
    with OtlpReceiver() as receiver:
        address = receiver.http_endpoint.removeprefix("http://")
        kept = http.client.HTTPConnection(address, timeout=60)
        kept.request("POST", "/v1/traces", _request("kept alive"))
        assert kept.getresponse().read() == b""

    # Its thread would have gone on serving the connection, for a Collector that is said to be away.
    def too_late() -> None:
        kept.request("POST", "/v1/traces", _request("too late"))
        kept.getresponse()

    with pytest.raises((http.client.HTTPException, OSError)):
        too_late()
    assert [span.name for span in receiver.spans] == ["kept alive"]
    kept.close()
