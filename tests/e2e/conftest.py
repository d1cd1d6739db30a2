"""The installed program against a real OTLP receiver, each test with a daemon and folders of its own."""

import os
import sys
from collections.abc import Iterator

import pytest

from sidecar.cli.demo_stage import Stage
from sidecar.core.errors import DaemonUnavailable
from sidecar.daemon import client
from sidecar.testing.otlp import OtlpReceiver

SECOND_NS = 1_000_000_000


@pytest.fixture(scope="session", autouse=True)
def installed() -> str:
    """The `sidecar` script beside the interpreter."""
    script = os.path.join(os.path.dirname(sys.executable), "sidecar")
    if not os.access(script, os.X_OK):
        pytest.skip(f"{script} does not exist: install the package, `pip install -e '.[dev]'`")
    return script


@pytest.fixture
def receiver() -> Iterator[OtlpReceiver]:
    with OtlpReceiver() as receiver:
        yield receiver


@pytest.fixture
def stage() -> Iterator[Stage]:
    """Folders and an environment; the daemon is the test's to start. Another that came to be on its socket is
    stopped."""
    with Stage() as stage:
        yield stage
        try:
            list(client.request(stage.socket_path, "stop"))
        except DaemonUnavailable:
            pass
