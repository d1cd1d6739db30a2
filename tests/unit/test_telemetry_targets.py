"""Where each signal goes, by settings and by the standard variables."""

from typing import Any

import pytest

from sidecar.telemetry.settings import TelemetrySettings
from sidecar.telemetry.targets import SIGNALS, Signal, Target, Tls, is_loopback, target_of

BASE = "OTEL_EXPORTER_OTLP_"


def _target(signal: Signal, environ: dict[str, str], **settings: Any) -> tuple[Target | None, list[str]]:
    problems: list[str] = []
    return target_of(signal, TelemetrySettings(environ=environ, **settings), problems), problems


def test_default_is_http_on_localhost() -> None:
    target, problems = _target("traces", {})
    assert target == Target("http/protobuf", "http://localhost:4318/v1/traces", 10.0, True)
    assert problems == []


@pytest.mark.parametrize(
    ("environ", "settings", "expected"),
    [
        ({f"{BASE}ENDPOINT": "http://c:1/"}, {}, ("http/protobuf", "http://c:1/v1/logs")),
        ({f"{BASE}LOGS_ENDPOINT": "http://c:1/own"}, {}, ("http/protobuf", "http://c:1/own")),
        ({f"{BASE}PROTOCOL": "grpc"}, {}, ("grpc", "http://localhost:4317")),
        ({f"{BASE}LOGS_PROTOCOL": "grpc", f"{BASE}ENDPOINT": "https://c:1"}, {}, ("grpc", "https://c:1")),
        (
            {f"{BASE}PROTOCOL": "grpc", f"{BASE}LOGS_PROTOCOL": "http/protobuf"},
            {},
            ("http/protobuf", "http://localhost:4318/v1/logs"),
        ),
        # The settings win.
        (
            {f"{BASE}LOGS_ENDPOINT": "http://theirs:1/own", f"{BASE}PROTOCOL": "grpc"},
            {"otlp_endpoint": "http://ours:2", "otlp_protocol": "http/protobuf"},
            ("http/protobuf", "http://ours:2/v1/logs"),
        ),
        # The port says it where nobody else does, and a missing scheme is no TLS.
        ({}, {"otlp_endpoint": "127.0.0.1:4317"}, ("grpc", "http://127.0.0.1:4317")),
        ({}, {"otlp_endpoint": "c:9"}, ("http/protobuf", "http://c:9/v1/logs")),
        # A Unix socket is for gRPC, whatever else was said.
        ({}, {"otlp_endpoint": "unix:/o.sock", "otlp_protocol": "http/protobuf"}, ("grpc", "unix:/o.sock")),
        ({f"{BASE}ENDPOINT": "unix:///o.sock"}, {}, ("grpc", "unix:///o.sock")),
    ],
)
def test_endpoint(environ: dict[str, str], settings: dict[str, Any], expected: tuple[str, str]) -> None:
    target, _ = _target("logs", environ, **settings)
    assert target is not None
    assert (target.protocol, target.endpoint) == expected


def test_disabled_and_none() -> None:
    for signal in SIGNALS:
        assert _target(signal, {"OTEL_SDK_DISABLED": "TRUE"})[0] is None
        # Honoured whatever the settings say.
        assert _target(signal, {f"OTEL_{signal.upper()}_EXPORTER": "none"}, otlp_endpoint="http://c:1")[0] is None
        assert _target(signal, {f"OTEL_{signal.upper()}_EXPORTER": "otlp"})[0] is not None
    assert _target("traces", {"OTEL_SDK_DISABLED": "1"})[0] is not None


def test_console_would_write_to_the_commands_stdout() -> None:
    target, problems = _target("traces", {"OTEL_TRACES_EXPORTER": "console"})
    assert target is None
    assert problems == ["OTEL_TRACES_EXPORTER=console is not supported; use otlp or none"]


def test_timeout_is_in_milliseconds_as_the_specification_has_it() -> None:
    target, _ = _target("traces", {f"{BASE}TIMEOUT": "2500", f"{BASE}LOGS_TIMEOUT": "1"})
    assert target is not None
    assert target.timeout_s == 2.5
    target, problems = _target("traces", {f"{BASE}TIMEOUT": "soon"})
    assert target is not None
    assert target.timeout_s == 10.0
    assert len(problems) == 1


@pytest.mark.parametrize(("asked", "got"), [("gzip", "gzip"), ("deflate", "deflate"), ("none", "none"), ("x", "none")])
def test_compression(asked: str, got: str) -> None:
    target, problems = _target("traces", {f"{BASE}COMPRESSION": asked})
    assert target is not None
    assert target.compression == got
    assert len(problems) == (asked == "x")


def test_headers_of_the_signal_then_of_all_then_ours() -> None:
    environ = {f"{BASE}HEADERS": "Api-Key=a%20b,broken, x = 1", f"{BASE}LOGS_HEADERS": "only=logs"}
    target, problems = _target("traces", environ)
    assert target is not None
    assert target.headers == {"api-key": "a b", "x": "1"}
    assert len(problems) == 1
    assert "a b" not in repr(target) + problems[0]
    target, _ = _target("logs", environ, otlp_headers={"X-Key": "ours"})
    assert target is not None
    assert target.headers == {"only": "logs", "x-key": "ours"}


def test_somebody_elses_token_does_not_go_to_our_endpoint() -> None:
    environ = {f"{BASE}HEADERS": "a=b", f"{BASE}TRACES_HEADERS": "c=d"}
    target, _ = _target("traces", environ, otlp_endpoint="http://ours:1")
    assert target is not None
    assert target.headers == {}


def test_tls() -> None:
    environ = {f"{BASE}CERTIFICATE": "/all", f"{BASE}TRACES_CLIENT_KEY": "/key", f"{BASE}CLIENT_CERTIFICATE": "/me"}
    target, _ = _target("traces", environ)
    assert target is not None
    assert target.tls == Tls("/all", "/key", "/me")


@pytest.mark.parametrize(
    ("endpoint", "asked", "insecure"),
    [
        ("http://c:1", "", True),
        ("https://c:1", "", False),
        ("https://c:1", "true", False),
        ("c:1", "", True),
        ("c:1", "false", False),
        ("unix:///run/otlp.sock", "", True),
    ],
)
def test_insecure_is_asked_only_where_the_scheme_does_not_say_it(endpoint: str, asked: str, insecure: bool) -> None:
    environ = {f"{BASE}INSECURE": asked, f"{BASE}PROTOCOL": "grpc", f"{BASE}ENDPOINT": endpoint}
    target, _ = _target("traces", environ)
    assert target is not None
    assert target.insecure is insecure


def test_unknown_protocol_falls_back_and_says_so() -> None:
    target, problems = _target("traces", {f"{BASE}PROTOCOL": "http/json"})
    assert target is not None
    assert target.protocol == "http/protobuf"
    assert "http/json" in problems[0]


def test_password_is_not_shown() -> None:
    target, _ = _target("traces", {}, otlp_endpoint="https://me:secret@c:1/base")
    assert target is not None
    assert target.shown == "https://c:1/base/v1/traces"


@pytest.mark.parametrize(
    ("endpoint", "loopback"),
    [
        ("http://127.0.0.1:4318", True),
        ("http://127.9.9.9", True),
        ("http://[::1]:4317", True),
        ("http://localhost:4318/v1/traces", True),
        ("http://collector.localhost", True),
        ("http://10.0.0.1:4318", False),
        ("http://localhost.example.org", False),
        ("unix:///run/otlp.sock", True),
        ("unix:/run/otlp.sock", True),
    ],
)
def test_loopback(endpoint: str, loopback: bool) -> None:
    assert is_loopback(endpoint) is loopback


@pytest.mark.parametrize(
    "endpoint", ["http://[::1", "ftp://u:SECRET@c:1", "http://u:SECRET@:4318", "http://c:99999", "http://c:0", "http://"]
)
@pytest.mark.parametrize("protocol", ["grpc", "http/protobuf"])
def test_what_is_no_url_is_told_without_being_shown(endpoint: str, protocol: str) -> None:
    target, problems = _target("traces", {f"{BASE}ENDPOINT": endpoint, f"{BASE}PROTOCOL": protocol})
    assert target is None
    (problem,) = problems
    assert problem.startswith("the OTLP endpoint of traces is not a URL")
    assert "SECRET" not in problem


def test_a_query_stays_behind_the_path() -> None:
    target, _ = _target("traces", {f"{BASE}ENDPOINT": "http://c:1/base/?key=x"})
    assert target is not None
    assert target.endpoint == "http://c:1/base/v1/traces?key=x"


@pytest.mark.parametrize("asked", ["inf", "1e300", "nan", "-1", "soon"])
def test_a_timeout_that_no_clock_takes(asked: str) -> None:
    target, problems = _target("traces", {f"{BASE}TIMEOUT": asked})
    assert target is not None
    assert target.timeout_s == 10.0
    assert len(problems) == 1


def test_a_header_that_would_fail_for_ever_is_left_out_and_white_space_is_cut() -> None:
    target, problems = _target("traces", {f"{BASE}HEADERS": "a=%20b%20,c=x%E2%82%AC,d=e%0A"})
    assert target is not None
    assert target.headers == {"a": "b", "d": "e"}
    assert len(problems) == 1
