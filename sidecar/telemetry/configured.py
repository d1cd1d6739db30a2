"""From the resolved configuration to what the telemetry is told."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Literal

from sidecar import rendezvous
from sidecar.telemetry.families import DEFAULT_FAMILIES
from sidecar.telemetry.settings import Protocol, TelemetrySettings
from sidecar.telemetry.spool import SpoolLimits
from sidecar.telemetry.spool_place import default_path

if TYPE_CHECKING:
    from sidecar.config import Resolved


def telemetry_settings(resolved: Resolved, scope: Literal["daemon", "inline"]) -> TelemetrySettings:
    """The telemetry's part of the configuration, for a daemon or for one supervisor's own process."""
    settings = resolved.settings
    # Our default must not win over OTEL_EXPORTER_OTLP_PROTOCOL; what the user set does.
    chosen = resolved.origin["otlp_protocol"] != "default"
    protocol: Protocol = "grpc" if settings.otlp_protocol == "grpc" else "http/protobuf"
    return TelemetrySettings(
        otlp_endpoint=settings.otlp_endpoint,
        otlp_protocol=protocol if chosen else None,
        otlp_headers=settings.otlp_headers or None,
        metric_export_interval_ns=settings.metric_export_interval_ns,
        # One port cannot be had by every command's own process.
        prometheus_port=settings.prometheus_port if scope == "daemon" else 0,
        suspect_after_ns=settings.suspect_after_ns,
        families=settings.families or DEFAULT_FAMILIES,
        spool=spool_limits(resolved),
        scope=scope,
        socket=rendezvous.socket_path(os.environ, settings.socket),
    )


def spool_limits(resolved: Resolved) -> SpoolLimits:
    """The spool's part of the configuration. Without a path where it is switched off, or there is no home for it."""
    settings = resolved.settings
    path = settings.spool or default_path(os.environ)
    return SpoolLimits(path if settings.spool_max_bytes else None, settings.spool_max_bytes, settings.spool_max_age_ns)
