"""The installed program against a real OTLP receiver, each test with a daemon and folders of its own."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from backends import Collector
from jaeger_backend import Jaeger
from prometheus_backend import Prometheus
from stack import Stack

from sidecar.cli.demo_stage import Stage
from sidecar.core.errors import DaemonUnavailable
from sidecar.daemon import client
from sidecar.testing.otlp import OtlpReceiver

SECOND_NS = 1_000_000_000
LIMIT_S = 400
"""For a test and what it shares: a stack that starts on a loaded machine takes its time. What hangs is told before."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent) and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(LIMIT_S))


@pytest.fixture(scope="session", autouse=True)
def installed() -> str:
    """The `sidecar` script beside the interpreter, which starts."""
    script = os.path.join(os.path.dirname(sys.executable), "sidecar")
    if not os.access(script, os.X_OK):
        pytest.skip(f"{script} does not exist: install the package, `pip install -e '.[dev]'`")
    version = subprocess.run([script, "--version"], capture_output=True, text=True, check=False)
    if version.returncode != 0:
        pytest.skip(f"{script} does not start: {version.stderr.strip()[-200:]}")
    return script


@pytest.fixture
def receiver() -> Iterator[OtlpReceiver]:
    with OtlpReceiver() as receiver:
        yield receiver


@pytest.fixture
def stage(installed: str) -> Iterator[Stage]:
    """Folders and an environment; the daemon is the test's to start. Another that came to be on its socket is
    stopped."""
    with Stage([installed]) as stage:
        yield stage
        try:
            list(client.request(stage.socket_path, "stop"))
        except DaemonUnavailable:
            pass


@pytest.fixture(scope="session")
def stack(installed: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    folder = tmp_path_factory.mktemp("stack")
    with Jaeger(folder) as jaeger, OtlpReceiver(path_prefix="/otlp") as loki:
        collector = Collector(
            folder,
            TRACES_ENDPOINT=jaeger.otlp,
            LOGS_ENDPOINT=loki.http_endpoint,
            METRIC_EXPIRATION="10s",
            SPAN_METRICS_INTERVAL="1s",
        )
        with collector, Prometheus(folder, {"collector": collector.prometheus}) as prometheus:
            yield Stack(collector, jaeger, prometheus, loki)
