"""What the Collector masks, wherever it stands in a span or a log record, and what it leaves alone."""

import base64
import os
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from backends import Collector
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

from sidecar.testing.otlp import OtlpReceiver

HIDDEN = "q9Zr7Xw2Kp4Lm8Nv3Bt6Yc1Hd5Jf0SgAeUiOq9Zr7Xw2Kp4Lm8Nv3Bt6Yc1Hd5Jf0"
JWT = ".".join(
    base64.urlsafe_b64encode(part).decode().rstrip("=") for part in (b'{"alg":"HS256"}', b'{"sub":"1"}', b"x" * 32)
)

# The value, and what becomes of it.
SECRETS = {
    "pem": (f"-----BEGIN RSA PRIVATE KEY-----\n{HIDDEN}\n-----END RSA PRIVATE KEY-----\nrest", "****\nrest"),
    "pem_cut": (f"x -----BEGIN PRIVATE KEY-----\n{HIDDEN}", "x ****"),
    "url": (f"git clone https://me:{HIDDEN}@example.org/r.git", "git clone https****example.org/r.git"),
    "bearer": (f"curl -H 'Authorization: Bearer {HIDDEN}' u", "curl -H 'Authorization: ****' u"),
    "aws": ("key AKIAIOSFODNN7EXAMPLE.", "key ****."),
    "github": (f"ghp_{HIDDEN[:36]}", "****"),
    "github_fine": (f"github_pat_{HIDDEN[:30]}", "****"),
    "gitlab": (f"glpat-{HIDDEN[:20]}", "****"),
    "slack": (f"xoxb-123456789012-{HIDDEN[:20]}", "****"),
    "google": (f"AIza{HIDDEN[:35]}", "****"),
    "stripe": (f"sk_live_{HIDDEN[:24]}", "****"),
    "npm": (f"npm_{HIDDEN[:36]}", "****"),
    "pypi": (f"pypi-{HIDDEN[:60]}", "****"),
    "openai": (f"sk-proj-{HIDDEN[:40]}", "****"),
    "anthropic": (f"sk-ant-api03-{HIDDEN[:40]}", "****"),
    "jwt": (f"jwt {JWT}", "jwt ****"),
    "assignment": (f"DB_PASSWORD={HIDDEN} make test", "**** make test"),
    "json": (f'{{"api_key": "{HIDDEN}", "x": 1}}', '{"****", "x": 1}'),
    # By the name of the attribute.
    "http.request.header.authorization": (f"x {HIDDEN}", "****"),
    "db.password": (HIDDEN, "****"),
    "api-key": (HIDDEN, "****"),
}
ORDINARY = {
    "process.command_line": "pytest -k 'test_token or test_password' --maxfail=1 tests/secrets",
    "vcs.ref": "bfe61318c2f0d9c1b7a5e3d4f6a8b0c2d4e6f8a0",
    "url.full": "https://example.org:8443/path?x=1&page=2",
    "time": "2026-12-02T09:57:02.123Z",
    "sidecar.command.id": "01890a5d-ac96-774b-bcce-b302099a8057",
    "sidecar.evidence": "peer 10.0.0.7:443 answered 163 s ago",
    "note": "basic usage of the token bucket; passwordless; skeleton-key-shaped",
    "gen_ai.usage.input_tokens": 512,
}


def pairs(values: dict[str, Any]) -> list[KeyValue]:
    return [
        KeyValue(key=key, value=AnyValue(int_value=value) if isinstance(value, int) else AnyValue(string_value=value))
        for key, value in values.items()
    ]


def post(url: str, body: bytes) -> None:
    request = urllib.request.Request(url, body, {"Content-Type": "application/x-protobuf"})
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=60) as answer:
        assert answer.status == 200


@pytest.fixture(scope="module")
def collected(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, OtlpReceiver]]:
    """Where to send to, and what comes out behind the Collector."""
    folder: Path = tmp_path_factory.mktemp("redaction")
    with OtlpReceiver(grpc=True) as backend:
        traces = backend.grpc_endpoint.removeprefix("http://")
        with Collector(folder, TRACES_ENDPOINT=traces, LOGS_ENDPOINT=backend.http_endpoint) as collector:
            yield collector.http, backend


def test_secrets_are_masked_wherever_they_stand(collected: tuple[str, OtlpReceiver]) -> None:
    url, backend = collected
    secrets = {key: value for key, (value, _) in SECRETS.items()}
    masked = {key: value for key, (_, value) in SECRETS.items()}
    trace_id = os.urandom(16)

    traces = ExportTraceServiceRequest()
    resource_spans = traces.resource_spans.add()
    resource_spans.resource.attributes.extend(pairs(secrets))
    span = resource_spans.scope_spans.add().spans.add(name="x", trace_id=trace_id, span_id=os.urandom(8))
    span.attributes.extend(pairs(secrets))
    span.events.add(name="e").attributes.extend(pairs(secrets))
    post(f"{url}/v1/traces", traces.SerializeToString())
    seen = backend.wait_for_span(lambda span: span.trace_id == trace_id.hex(), 60)
    for attributes in (seen.attributes, seen.resource, seen.events[0].attributes):
        assert {key: attributes.get(key) for key in masked} == masked
    assert HIDDEN[:16] not in repr(seen)

    logs = ExportLogsServiceRequest()
    resource_logs = logs.resource_logs.add()
    resource_logs.resource.attributes.extend(pairs(secrets))
    record = resource_logs.scope_logs.add().log_records.add(trace_id=trace_id, span_id=os.urandom(8))
    record.attributes.extend(pairs(secrets))
    record.body.string_value = SECRETS["bearer"][0]
    post(f"{url}/v1/logs", logs.SerializeToString())
    log = backend.wait_for_log(lambda log: log.trace_id == trace_id.hex(), 60)
    for attributes in (log.attributes, log.resource):
        assert {key: attributes.get(key) for key in masked} == masked
    assert log.body == SECRETS["bearer"][1]
    assert HIDDEN[:16] not in repr(log)


def test_what_is_no_secret_comes_out_unchanged(collected: tuple[str, OtlpReceiver]) -> None:
    url, backend = collected
    trace_id = os.urandom(16)
    traces = ExportTraceServiceRequest()
    resource_spans = traces.resource_spans.add()
    span = resource_spans.scope_spans.add().spans.add(name="x", trace_id=trace_id, span_id=os.urandom(8))
    span.attributes.extend(pairs(ORDINARY))
    post(f"{url}/v1/traces", traces.SerializeToString())
    seen = backend.wait_for_span(lambda span: span.trace_id == trace_id.hex(), 60)
    assert seen.attributes == ORDINARY
