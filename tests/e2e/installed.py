"""The installed sidecar in a private place, with any setting: a daemon, commands, and frames by hand."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from sidecar.cli.demo_stage import stage_environment
from sidecar.core.errors import DaemonUnavailable
from sidecar.daemon import client

SECOND_NS = 1_000_000_000
EVIDENCE = "10.0.0.7:5432: 4 retransmits unanswered"
SCRIPT = Path(sys.executable).parent / "sidecar"


def new_trace() -> tuple[str, str, str]:
    """(traceparent, trace id, the parent's span id) of a caller's span, sampled."""
    trace_id, parent_id = os.urandom(16).hex(), os.urandom(8).hex()
    return f"00-{trace_id}-{parent_id}-01", trace_id, parent_id


def suspect_frames(trace_id: str, session_id: str) -> list[dict[str, Any]]:
    """A command that may be hung, as its supervisor would tell of it; to be kept alive by its connection."""
    common = {"v": 1, "commandId": f"0190-{trace_id}"}
    started = {
        "type": "command_started",
        "seq": 0,
        "traceId": trace_id,
        "spanId": os.urandom(8).hex(),
        "traceFlags": "01",
        "pid": os.getpid(),
        "supervisorPid": os.getpid(),
        "program": "npm",
        "sessionId": session_id,
        "heartbeatIntervalMs": 1000,
        "io": "pipe",
        "startUnixMs": time.time_ns() // 1_000_000,
        "startMonotonicMs": time.monotonic_ns() // 1_000_000,
    }
    verdict = {"type": "verdict", "seq": 1, "elapsedMs": 10, "verdict": "network_peer_dead", "evidence": [EVIDENCE]}
    return [common | started, common | verdict]


class Sidecar:
    """A context manager: a daemon that exports to `endpoint`, one heartbeat each `interval_s`, and its commands.

    `settings` are SIDECAR_* variables, without the prefix.
    """

    def __init__(self, folder: Path, endpoint: str, interval_s: float = 1.0, **settings: str) -> None:
        self.folder = folder / f"sidecar-{os.urandom(4).hex()}"
        (self.folder / "run").mkdir(parents=True, mode=0o700)
        environ = stage_environment(
            os.environ, str(self.folder), endpoint, int(interval_s * SECOND_NS), metric_interval_ns=SECOND_NS
        )
        self.environ = environ | {f"SIDECAR_{name}": value for name, value in settings.items()}
        self._daemon: subprocess.Popen[bytes] | None = None
        self._commands: list[subprocess.Popen[bytes]] = []

    @property
    def socket_path(self) -> str:
        return self.environ["SIDECAR_SOCKET"]

    def of_daemon(self) -> dict[str, str]:
        """What leads to this daemon and sets it up. Not the folders of a user: an agent's are below its own home."""
        return {
            name: value
            for name, value in self.environ.items()
            if name.startswith("SIDECAR_") or name == "XDG_RUNTIME_DIR"
        }

    def start_daemon(self) -> None:
        with open(self.folder / "daemon.out", "ab") as log:
            self._daemon = subprocess.Popen(
                [SCRIPT, "daemon", "run"],
                env=self.environ,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        deadline_s = time.monotonic() + 30
        while time.monotonic() < deadline_s and self._daemon.poll() is None:
            try:
                client.status(self.socket_path)
            except DaemonUnavailable:
                time.sleep(0.05)
                continue
            return
        raise RuntimeError(f"the daemon did not come up: {(self.folder / 'daemon.out').read_text()[-1000:]}")

    def stop_daemon(self, number: int = signal.SIGTERM) -> float:
        """Seconds until it had ended."""
        assert self._daemon is not None
        began_s = time.monotonic()
        self._daemon.send_signal(number)
        self._daemon.wait(60)
        self._daemon = None
        return time.monotonic() - began_s

    def start(self, *command: str, options: Sequence[str] = (), **environ: str) -> "subprocess.Popen[bytes]":
        """`sidecar run OPTIONS -- COMMAND`, its output piped."""
        child = subprocess.Popen(
            [SCRIPT, "run", *options, "--", *command],
            env=self.environ | environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self._commands.append(child)
        return child

    def send(self, *frames: dict[str, Any]) -> socket.socket:
        """Frames as a supervisor sends them, over a connection that is the caller's to close."""
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(self.socket_path)
        connection.sendall(b"".join(json.dumps(frame).encode() + b"\n" for frame in frames))
        return connection

    def status(self) -> dict[str, Any]:
        return dict(client.status(self.socket_path))

    def __enter__(self) -> Self:
        self.start_daemon()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for child in self._commands:
            if child.poll() is None:
                child.terminate()
            child.communicate(timeout=60)
        if self._daemon is not None:
            self.stop_daemon()
