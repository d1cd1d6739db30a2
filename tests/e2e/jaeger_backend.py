"""Jaeger, and what it has of a trace."""

import json
import urllib.error
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from backends import Backend, free_port, get, tool

_JAEGER_CONFIG = """
service:
  extensions: [jaeger_storage, jaeger_query, healthcheckv2]
  telemetry:
    metrics: {{level: none}}
    logs: {{level: warn}}
  pipelines:
    traces:
      receivers: [otlp]
      exporters: [jaeger_storage_exporter]
extensions:
  healthcheckv2:
    use_v2: true
    http: {{endpoint: "127.0.0.1:{health}"}}
  jaeger_query:
    storage: {{traces: memory}}
    http: {{endpoint: "127.0.0.1:{query}"}}
    grpc: {{endpoint: "127.0.0.1:{query_grpc}"}}
  jaeger_storage:
    backends:
      memory:
        memory: {{max_traces: 100000}}
receivers:
  otlp:
    protocols:
      grpc: {{endpoint: "127.0.0.1:{otlp}"}}
exporters:
  jaeger_storage_exporter: {{trace_storage: memory}}
"""


class JaegerSpan(NamedTuple):
    """A span as Jaeger's API gives it. `events` are the names and attributes of its span events."""

    name: str
    trace_id: str
    span_id: str
    parent_id: str | None
    tags: dict[str, Any]
    events: list[dict[str, Any]]
    process: dict[str, Any]
    warnings: list[str]

    @property
    def role(self) -> str | None:
        return self.tags.get("sidecar.span.role")


class Jaeger(Backend):
    """Jaeger with its store in memory: what it held is gone when it stops."""

    name = "jaeger"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        ports = {name: free_port() for name in ("health", "query", "query_grpc", "otlp")}
        self._config = self.folder / "config.yaml"
        self._config.write_text(_JAEGER_CONFIG.format(**ports))
        self.health = f"http://127.0.0.1:{ports['health']}/status"
        self.query = f"http://127.0.0.1:{ports['query']}"
        self.otlp = f"127.0.0.1:{ports['otlp']}"

    def words(self) -> list[str]:
        return [tool("jaeger"), "--config", str(self._config)]

    def trace(self, trace_id: str) -> list[JaegerSpan]:
        """The spans of a trace, as many times as Jaeger has them; empty if it has none yet."""
        try:
            found = json.loads(get(f"{self.query}/api/traces/{trace_id}"))["data"]
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return []
            raise
        return [span for trace in found for span in _jaeger_spans(trace)]


def _jaeger_spans(trace: dict[str, Any]) -> Iterable[JaegerSpan]:
    for span in trace["spans"]:
        parents = [each["spanID"] for each in span["references"] if each["refType"] == "CHILD_OF"]
        yield JaegerSpan(
            span["operationName"],
            span["traceID"],
            span["spanID"],
            parents[0] if parents else None,
            _jaeger_tags(span["tags"]),
            [_jaeger_tags(each["fields"]) for each in span["logs"]],
            _jaeger_tags(trace["processes"][span["processID"]]["tags"])
            | {"service.name": trace["processes"][span["processID"]]["serviceName"]},
            span["warnings"] or [],
        )


def _jaeger_tags(tags: list[dict[str, Any]]) -> dict[str, Any]:
    return {tag["key"]: tag["value"] for tag in tags}
