"""Telemetry: commands as spans, log events and metrics, over OTLP and /metrics."""
