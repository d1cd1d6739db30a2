"""The real backends, each started on free ports of loopback in a folder of its own, and ended by its pid.

    with Jaeger(folder) as jaeger, Collector(folder, traces=jaeger.otlp) as collector:
        ...

Each can be stopped and started again on the same ports with what it kept in its folder. A backend that does not come
up raises RuntimeError with the end of its log. Where its program is missing the test skips, and says how to get it.
"""

import http.client
import json
import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeVar

import e2e_tools
import pytest

ROOT = Path(__file__).parents[2]
READY_S = 40.0
STOP_S = 20.0
# Loopback, whatever HTTP_PROXY says.
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))

T = TypeVar("T")


def tool(name: str) -> str:
    """The path of a backend's program; skips without it."""
    found = e2e_tools.find(name)
    if found is None:
        pytest.skip(e2e_tools.why_not(name))
    return found


def free_port() -> int:
    """A port that nobody has now; below the range that outgoing connections take theirs from."""
    while True:
        port = 20_000 + int.from_bytes(os.urandom(2)) % 12_000
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


def get(url: str, timeout_s: float = 10.0) -> str:
    with _OPENER.open(url, timeout=timeout_s) as answer:
        body: bytes = answer.read()
    return body.decode()


def eventually(what: str, look: Callable[[], T | None], timeout_s: float = 30.0, every_s: float = 0.2) -> T:
    """The first thing that `look` returns and is not None or empty; AssertionError after `timeout_s`.

    A backend that is away for a moment (OSError, an HTTP error) is looked at again.
    """
    deadline_s = time.monotonic() + timeout_s
    while True:
        seen: object
        try:
            if seen := look():
                return seen
        except (OSError, http.client.HTTPException) as error:
            seen = error
        assert time.monotonic() < deadline_s, f"not within {timeout_s} s: {what}; last seen: {seen!r}"
        time.sleep(every_s)


def _answers(url: str) -> bool:
    try:
        get(url, 2)
    except urllib.error.HTTPError as error:
        # Not ready is 503. What has no page for its health answers, say, 405.
        return error.code < 500
    except (OSError, http.client.HTTPException):
        return False
    return True


class Backend:
    """One program. `health` is a URL that answers with less than 500 once it is ready."""

    name = ""
    health = ""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / f"{self.name}-{free_port()}"
        self.folder.mkdir(parents=True)
        self.log = self.folder / "log"
        self._process: subprocess.Popen[bytes] | None = None

    def words(self) -> list[str]:
        raise NotImplementedError

    def environ(self) -> dict[str, str]:
        return {}

    def start(self) -> Self:
        words = self.words()
        with open(self.log, "ab") as log:
            # In a session of its own: Ctrl-C at a test run is pytest's, which then ends these in order.
            self._process = subprocess.Popen(
                words,
                env={"PATH": os.defpath, "HOME": str(self.folder), **self.environ()},
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        deadline_s = time.monotonic() + READY_S
        while self._process.poll() is None and time.monotonic() < deadline_s:
            if _answers(self.health):
                return self
            time.sleep(0.1)
        self.stop()
        raise RuntimeError(f"{self.name} did not come up:\n{self.log_text()[-3000:]}")

    def stop(self, number: int = signal.SIGTERM) -> None:
        """End it, and wait until it has ended. With SIGKILL nothing is written down any more."""
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(number)
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def log_text(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


class Collector(Backend):
    """The Collector with a configuration as it is shipped. `environ` sets the variables that it names (without
    the OTELCOL_ in front), over free ports for all that listens."""

    name = "otelcol"

    def __init__(self, folder: Path, config: str = "otel-config.yaml", **environ: str) -> None:
        super().__init__(folder)
        self.config = ROOT / config
        ports = {name: free_port() for name in ("GRPC", "HTTP", "ROUTED", "HEALTH", "PROMETHEUS", "OWN_METRICS_PORT")}
        self._environ = {
            "OTELCOL_STORAGE": str(self.folder / "storage"),
            "OTELCOL_OWN_METRICS_PORT": str(ports.pop("OWN_METRICS_PORT")),
            "OTELCOL_OWN_METRICS_HOST": "127.0.0.1",
            **{f"OTELCOL_{name}": f"127.0.0.1:{port}" for name, port in ports.items()},
            **{f"OTELCOL_{name}": value for name, value in environ.items()},
        }
        self.grpc = self._environ["OTELCOL_GRPC"]
        self.http = f"http://{self._environ['OTELCOL_HTTP']}"
        self.routed = self._environ["OTELCOL_ROUTED"]
        self.prometheus = self._environ["OTELCOL_PROMETHEUS"]
        self.own_metrics = f"http://127.0.0.1:{self._environ['OTELCOL_OWN_METRICS_PORT']}/metrics"
        # The one that only prints has no extension that tells its health.
        has_health = "health_check:" in self.config.read_text(encoding="utf-8")
        self.health = f"http://{self._environ['OTELCOL_HEALTH']}/" if has_health else f"{self.http}/v1/traces"

    def words(self) -> list[str]:
        return [tool("otelcol"), "--config", str(self.config)]

    def environ(self) -> dict[str, str]:
        return self._environ

    def set(self, **environ: str) -> None:
        """Further variables, before it starts."""
        self._environ |= {f"OTELCOL_{name}": value for name, value in environ.items()}

    def validate(self) -> "subprocess.CompletedProcess[str]":
        words = [tool("otelcol"), "validate", "--config", str(self.config)]
        return subprocess.run(words, env=self._environ, capture_output=True, text=True, check=False)


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


class Prometheus(Backend):
    """Debian's Prometheus, which scrapes each of `targets` (job name -> host:port) once a second."""

    name = "prometheus"

    def __init__(
        self, folder: Path, targets: Mapping[str, str], rules: str = "", alertmanager: str | None = None
    ) -> None:
        super().__init__(folder)
        self.targets = targets
        self.url = f"http://127.0.0.1:{free_port()}"
        self.health = f"{self.url}/-/ready"
        config: dict[str, Any] = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "scrape_configs": [
                # As docs/collector.md says.
                {"job_name": job, "honor_labels": True, "static_configs": [{"targets": [target]}]}
                for job, target in targets.items()
            ],
        }
        if rules:
            (self.folder / "rules.yml").write_text(rules)
            config["rule_files"] = ["rules.yml"]
        if alertmanager:
            config["alerting"] = {"alertmanagers": [{"static_configs": [{"targets": [alertmanager]}]}]}
        # JSON is YAML.
        (self.folder / "prometheus.yml").write_text(json.dumps(config))

    def words(self) -> list[str]:
        return [
            tool("prometheus"),
            f"--config.file={self.folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={self.folder / 'data'}",
            f"--web.listen-address={self.url.removeprefix('http://')}",
            "--enable-feature=exemplar-storage",
        ]

    def ask(self, query: str) -> list[tuple[dict[str, str], float]]:
        """(labels, value) of each series that an instant query gives."""
        answer = json.loads(get(f"{self.url}/api/v1/query?{urllib.parse.urlencode({'query': query})}"))
        return [(each["metric"], float(each["value"][1])) for each in answer["data"]["result"]]

    def values(self, query: str) -> list[float]:
        return [value for _, value in self.ask(query)]

    def exemplars(self, query: str) -> list[dict[str, str]]:
        """The labels of the exemplars of the last hour."""
        now_s = time.time()
        asked = urllib.parse.urlencode({"query": query, "start": now_s - 3600, "end": now_s + 60})
        found = json.loads(get(f"{self.url}/api/v1/query_exemplars?{asked}"))["data"]
        return [exemplar["labels"] for series in found for exemplar in series["exemplars"]]


class Alertmanager(Backend):
    """Debian's Alertmanager; alerts are read back through its API."""

    name = "alertmanager"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.address = f"127.0.0.1:{free_port()}"
        self.health = f"http://{self.address}/-/ready"
        config = {"route": {"receiver": "none", "group_wait": "0s"}, "receivers": [{"name": "none"}]}
        (self.folder / "alertmanager.yml").write_text(json.dumps(config))

    def words(self) -> list[str]:
        return [
            tool("prometheus-alertmanager"),
            f"--config.file={self.folder / 'alertmanager.yml'}",
            f"--storage.path={self.folder / 'data'}",
            f"--web.listen-address={self.address}",
            # No cluster: it would listen on all interfaces.
            "--cluster.listen-address=",
        ]

    def firing(self) -> list[dict[str, str]]:
        """The labels of the alerts that fire now."""
        alerts = json.loads(get(f"http://{self.address}/api/v2/alerts?active=true"))
        return [alert["labels"] for alert in alerts]
