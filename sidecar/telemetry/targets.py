"""Where each signal goes: the settings and the OTEL_* variables, put together. Pure; no SDK, no network.

Source: https://opentelemetry.io/docs/specs/otel/protocol/exporter/ and
https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sidecar.telemetry.settings import Protocol, TelemetrySettings

Signal = Literal["traces", "metrics", "logs"]
Compression = Literal["none", "gzip", "deflate"]
SIGNALS: tuple[Signal, ...] = ("traces", "metrics", "logs")

_DEFAULT_TIMEOUT_MS = 10_000
_MAX_TIMEOUT_MS = 3_600_000
_GRPC_PORT = 4317
# What a field name of HTTP has not (RFC 9110, 5.6.2: token); keys of gRPC metadata are narrower still.
_NOT_IN_A_TOKEN = frozenset(' \t"(),/:;<=>?@[\\]{}')


@dataclass(frozen=True, slots=True)
class Tls:
    """Files in PEM: whom to trust (None: the system's authorities), and who we are (None: nobody in particular)."""

    certificate: str | None = None
    client_key: str | None = None
    client_certificate: str | None = None


@dataclass(frozen=True, slots=True)
class Target:
    """One signal's way out. `endpoint` is the whole URL, its path included over HTTP.

    `headers` have lower-case names. `insecure` is for gRPC, whose endpoint may have no scheme that says it.
    """

    protocol: Protocol
    endpoint: str
    timeout_s: float
    loopback: bool
    compression: Compression = "none"
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    insecure: bool = True
    tls: Tls = field(default_factory=Tls)

    @property
    def shown(self) -> str:
        """The endpoint without what may be a password in it."""
        parts = urlsplit(self.endpoint)
        return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()


def sdk_disabled(environ: Mapping[str, str]) -> bool:
    """OTEL_SDK_DISABLED: only `true`, in any case, means yes."""
    return environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"


def target_of(signal: Signal, settings: TelemetrySettings, problems: list[str]) -> Target | None:
    """Where `signal` goes; None for nowhere. What was asked for and cannot be had is added to `problems`."""
    environ = settings.environ
    if sdk_disabled(environ) or not _wanted(signal, environ, problems):
        return None
    protocol = _protocol(signal, settings, problems)
    endpoint = _endpoint(signal, settings, protocol)
    if not _is_usable(endpoint):
        # Without the endpoint itself: there may be a password in it.
        problems.append(f"the OTLP endpoint of {signal} is not a URL like http://host:4318; they go nowhere")
        return None
    return Target(
        protocol,
        endpoint,
        _timeout_s(signal, environ, problems),
        is_loopback(endpoint),
        _compression(signal, environ, problems),
        _headers(signal, settings, problems),
        _insecure(signal, endpoint, environ),
        Tls(
            _variable(signal, "CERTIFICATE", environ) or None,
            _variable(signal, "CLIENT_KEY", environ) or None,
            _variable(signal, "CLIENT_CERTIFICATE", environ) or None,
        ),
    )


def is_loopback(endpoint: str) -> bool:
    """Whether an endpoint is this host by its name; nothing is resolved."""
    if _is_socket(endpoint):
        return True
    host = urlsplit(endpoint).hostname or ""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _wanted(signal: Signal, environ: Mapping[str, str], problems: list[str]) -> bool:
    name = f"OTEL_{signal.upper()}_EXPORTER"
    asked = {item.strip() for item in environ.get(name, "").split(",")} - {""}
    for other in sorted(asked - {"otlp", "none"}):
        # `console` would write to the command's own stdout.
        problems.append(f"{name}={other} is not supported; use otlp or none")
    return not asked or "otlp" in asked


def _protocol(signal: Signal, settings: TelemetrySettings, problems: list[str]) -> Protocol:
    if _is_socket(settings.otlp_endpoint or _variable(signal, "ENDPOINT", settings.environ)):
        # A Unix socket has no URL for HTTP.
        return "grpc"
    if settings.otlp_protocol is not None:
        return settings.otlp_protocol
    asked = _variable(signal, "PROTOCOL", settings.environ)
    if asked == "grpc":
        return "grpc"
    if asked == "http/protobuf":
        return "http/protobuf"
    if asked:
        problems.append(f"OTLP protocol {asked} is not supported; http/protobuf is used")
    elif settings.otlp_endpoint and _port(settings.otlp_endpoint) == _GRPC_PORT:
        return "grpc"
    return "http/protobuf"


def _endpoint(signal: Signal, settings: TelemetrySettings, protocol: Protocol) -> str:
    own = settings.environ.get(f"OTEL_EXPORTER_OTLP_{signal.upper()}_ENDPOINT", "").strip()
    if own and not settings.otlp_endpoint:
        # A signal's own endpoint is taken as it is, path and all.
        return _with_scheme(own)
    base = settings.otlp_endpoint or settings.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT", "").strip()
    if protocol == "grpc":
        return _with_scheme(base or f"http://localhost:{_GRPC_PORT}")
    url, mark, query = _with_scheme(base or "http://localhost:4318").partition("?")
    return f"{url.rstrip('/')}/v1/{signal}{mark}{query}"


def _is_usable(endpoint: str) -> bool:
    """A URL with a host that we can send to. Port 0 is nobody's."""
    if _is_socket(endpoint):
        return True
    try:
        parts = urlsplit(endpoint)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # brackets that do not close, a port over 65535
        return False


def _with_scheme(endpoint: str) -> str:
    # `127.0.0.1:4317` has no scheme; the SDK would then speak TLS to it.
    if "://" in endpoint or _is_socket(endpoint):
        return endpoint
    return f"http://{endpoint}"


def _is_socket(endpoint: str) -> bool:
    # As gRPC writes it: https://github.com/grpc/grpc/blob/master/doc/naming.md
    return endpoint.startswith("unix:")


def _port(endpoint: str) -> int | None:
    try:
        return urlsplit(_with_scheme(endpoint)).port
    except ValueError:
        return None


def _timeout_s(signal: Signal, environ: Mapping[str, str], problems: list[str]) -> float:
    asked = _variable(signal, "TIMEOUT", environ)
    if asked:
        try:
            timeout_ms = float(asked)
        except ValueError:
            timeout_ms = 0.0
        if 0 < timeout_ms <= _MAX_TIMEOUT_MS:
            return timeout_ms / 1000
        problems.append(f"OTLP timeout {asked!r:.40} is not milliseconds up to an hour; {_DEFAULT_TIMEOUT_MS} is used")
    return _DEFAULT_TIMEOUT_MS / 1000


def _compression(signal: Signal, environ: Mapping[str, str], problems: list[str]) -> Compression:
    # Not left to the SDK: over gRPC it takes `none` for an error.
    asked = _variable(signal, "COMPRESSION", environ).lower()
    if asked == "gzip":
        return "gzip"
    if asked == "deflate":
        return "deflate"
    if asked not in ("", "none"):
        problems.append(f"OTLP compression {asked!r} is not supported; use gzip, deflate or none")
    return "none"


def _headers(signal: Signal, settings: TelemetrySettings, problems: list[str]) -> dict[str, str]:
    headers: dict[str, str] = {}
    if settings.otlp_endpoint is None:
        # Else the variables' are left out: they may hold somebody else's token, and are meant for the endpoint
        # that the configuration replaces.
        for item in _variable(signal, "HEADERS", settings.environ).split(","):
            name, equals, value = item.partition("=")
            name, value = name.strip().lower(), unquote(value).strip()
            if equals and name and name.isascii() and not set(name) & _NOT_IN_A_TOKEN and _is_field_value(value):
                headers[name] = value
            elif item.strip():
                problems.append("a header in OTEL_EXPORTER_OTLP_HEADERS is not name=value, and is left out")
    return headers | {name.lower(): value for name, value in (settings.otlp_headers or {}).items()}


def _is_field_value(value: str) -> bool:
    """What HTTP and gRPC both let through (RFC 9110, 5.5, without its obsolete part)."""
    return value.isascii() and value.isprintable()


def _insecure(signal: Signal, endpoint: str, environ: Mapping[str, str]) -> bool:
    scheme = urlsplit(endpoint).scheme
    if scheme == "https":
        return False
    asked = _variable(signal, "INSECURE", environ).lower()
    return asked == "true" if asked else True


def _variable(signal: Signal, name: str, environ: Mapping[str, str]) -> str:
    own = environ.get(f"OTEL_EXPORTER_OTLP_{signal.upper()}_{name}", "").strip()
    return own or environ.get(f"OTEL_EXPORTER_OTLP_{name}", "").strip()
