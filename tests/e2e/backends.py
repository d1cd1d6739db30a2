"""The real backends, each started on free ports of loopback in a folder of its own, and ended by its pid.

    with Jaeger(folder) as jaeger, Collector(folder, traces=jaeger.otlp) as collector:
        ...

Each can be stopped and started again on the same ports with what it kept in its folder. A backend that does not come
up raises RuntimeError with the end of its log. Where its program is missing the test skips, and says how to get it.
"""

import http.client
import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

import e2e_tools
import pytest

ROOT = Path(__file__).parents[2]
READY_S = 90.0
STOP_S = 20.0
# Loopback, whatever HTTP_PROXY says.
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))

T = TypeVar("T")
_given: set[int] = set()


def tool(name: str) -> str:
    """The path of a backend's program; skips without it."""
    found = e2e_tools.find(name)
    if found is None:
        pytest.skip(e2e_tools.why_not(name))
    return found


def free_port() -> int:
    """A port that nobody has now, nor was given before; below the range that outgoing connections take theirs from."""
    while True:
        port = 20_000 + int.from_bytes(os.urandom(2)) % 12_000
        if port in _given:  # by somebody who does not listen there yet, or is to come back there
            continue
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            _given.add(port)
            return port


def get(url: str, timeout_s: float = 10.0) -> str:
    with _OPENER.open(url, timeout=timeout_s) as answer:
        body: bytes = answer.read()
    return body.decode()


def eventually(what: str, look: Callable[[], T | None], timeout_s: float = 60.0, every_s: float = 0.2) -> T:
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
