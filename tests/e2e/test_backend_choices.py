"""What the variables of otel-config.yaml choose."""

from pathlib import Path

from backends import Collector, eventually
from installed import Sidecar

from sidecar.testing.otlp import OtlpReceiver


def test_everything_printed_and_no_backend(installed: str, tmp_path: Path) -> None:
    """As the top of the file says."""
    printed = dict.fromkeys(("TRACES_EXPORTER", "LOGS_EXPORTER", "METRICS_EXPORTER"), "debug")
    with Collector(tmp_path, **printed) as collector, Sidecar(tmp_path, collector.http) as sidecar:
        sidecar.start("true").wait(10)
        for line in ("sidecar.span.role: Str(command)", "EventName: sidecar.settled", "Name: sidecar.output.age"):
            eventually(line, lambda line=line: line in collector.log_text())


def test_metrics_pushed_instead_of_scraped(installed: str, tmp_path: Path) -> None:
    with (
        OtlpReceiver(path_prefix="/api/v1/otlp") as prometheus,
        Collector(
            tmp_path,
            METRICS_EXPORTER="otlp_http/metrics",
            METRICS_ENDPOINT=f"{prometheus.http_endpoint}/v1/metrics",
            TRACES_EXPORTER="debug",
            LOGS_EXPORTER="debug",
            SPAN_METRICS_INTERVAL="1s",
        ) as collector,
        Sidecar(tmp_path, collector.http) as sidecar,
    ):
        sidecar.start("true").wait(10)
        point = prometheus.wait_for_metric(
            lambda point: point.name == "sidecar.commands.started" and point.value == 1, 60
        )
        assert point.resource["service.name"] == "sidecar"
        prometheus.wait_for_metric(lambda point: point.name == "sidecar.spans.calls", 60)


def test_what_is_on_disk_is_for_its_owner(installed: str, tmp_path: Path) -> None:
    with Collector(tmp_path) as collector:
        storage = collector.folder / "storage"
        assert list(storage.iterdir())
        assert storage.stat().st_mode & 0o777 == 0o700
