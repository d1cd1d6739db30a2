"""The options of `sidecar run`, generated from sidecar.config by `python -m sidecar.config --write-schema`."""

# name, attribute of Settings, flag of `sidecar run`, variable, kind, default
OPTIONS: tuple[tuple[str, str, str | None, str, str, str], ...] = (
    ("timeout", "timeout_ns", "--timeout", "SIDECAR_TIMEOUT", "timeout", "0"),
    ("kill_after", "kill_after_ns", "--kill-after", "SIDECAR_KILL_AFTER", "duration", "5s"),
    ("heartbeat_interval", "heartbeat_interval_ns", "--heartbeat-interval", "SIDECAR_HEARTBEAT_INTERVAL", "heartbeat", "10s"),
    ("pty", "pty", "--pty", "SIDECAR_PTY", "pty", "auto"),
    ("tool_call_id", "tool_call_id", "--tool-call-id", "SIDECAR_TOOL_CALL_ID", "identifier", ""),
    ("tool_name", "tool_name", "--tool-name", "SIDECAR_TOOL_NAME", "identifier", ""),
    ("session_id", "session_id", "--session-id", "SIDECAR_SESSION_ID", "identifier", ""),
    ("inline", "inline", "--inline", "SIDECAR_INLINE", "bool", "false"),
    ("shell", "shell", "--shell", "SIDECAR_SHELL", "program", "/bin/sh"),
    ("drain_grace", "drain_grace_ns", "--drain-grace", "SIDECAR_DRAIN_GRACE", "duration", "100ms"),
    ("capture_command", "capture_command", "--capture-command", "SIDECAR_CAPTURE_COMMAND", "bool", "false"),
    ("socket", "socket", "--socket", "SIDECAR_SOCKET", "path", ""),
    ("log", "log", "--log", "SIDECAR_LOG", "path", ""),
    ("daemon_idle_timeout", "daemon_idle_timeout_ns", None, "SIDECAR_DAEMON_IDLE_TIMEOUT", "timeout", "10m"),
    ("daemon_log", "daemon_log", None, "SIDECAR_DAEMON_LOG", "path", ""),
    ("daemon_environment", "daemon_environment", None, "SIDECAR_DAEMON_ENVIRONMENT", "names", ""),
    ("families", "families", None, "SIDECAR_FAMILIES", "families", ""),
    ("prometheus_port", "prometheus_port", None, "SIDECAR_PROMETHEUS_PORT", "port", "0"),
    ("otlp_endpoint", "otlp_endpoint", "--otlp-endpoint", "SIDECAR_OTLP_ENDPOINT", "url", ""),
    ("otlp_protocol", "otlp_protocol", "--otlp-protocol", "SIDECAR_OTLP_PROTOCOL", "protocol", "http/protobuf"),
    ("otlp_headers", "otlp_headers", None, "SIDECAR_OTLP_HEADERS", "headers", ""),
    ("metric_export_interval", "metric_export_interval_ns", "--metric-export-interval", "SIDECAR_METRIC_EXPORT_INTERVAL", "export_interval", "10s"),
)
