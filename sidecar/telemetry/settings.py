"""What the telemetry can be told. Made by the configuration; plain, so that tests make it too."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from sidecar.telemetry.families import DEFAULT_FAMILIES
from sidecar.telemetry.spool import SpoolLimits

Protocol = Literal["http/protobuf", "grpc"]


@dataclass(frozen=True, slots=True)
class TelemetrySettings:
    """Each value given here wins over the OTEL_* variable of the same meaning.

    `otlp_endpoint` is a base URL for all signals: over HTTP /v1/traces and the like are added to it. None
    means the OTEL_EXPORTER_OTLP_* variables, and without those OpenTelemetry's default, localhost.
    `suspect_after_ns` is how long a command may need someone before it may be hung.
    `scope` is `daemon` for the one writer of a host, `inline` for the supervisor's own process.
    `socket` is where that daemon listens: two daemons of one user are two writers.
    `environ` is where OTEL_* variables are looked up.
    """

    otlp_endpoint: str | None = None
    otlp_protocol: Protocol | None = None
    otlp_headers: Mapping[str, str] | None = None
    metric_export_interval_ns: int = 10_000_000_000
    suspect_after_ns: int = 60_000_000_000
    prometheus_port: int = 0
    families: tuple[str, ...] = DEFAULT_FAMILIES
    scope: Literal["daemon", "inline"] = "daemon"
    socket: str = ""
    spool: SpoolLimits = field(default_factory=SpoolLimits)
    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ), repr=False)
