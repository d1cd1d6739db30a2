"""A test aid: an installation whose daemon really exports, with a socket, a state folder and a daemon of its own."""

import contextlib
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from supervised import WAIT_S, Ended, Installation

from sidecar.daemon import client


class Exporting:
    """`environ` is what commands and daemon are run with; change it before either is started."""

    def __init__(self, installation: Installation, folder: Path, endpoint: str, protocol: str) -> None:
        folder.chmod(0o700)
        self.installation = installation
        self.socket = str(folder / "s.sock")
        self.state = folder / "state"
        self.spool = self.state / "sidecar" / "spool.db"
        self.environ = {name: value for name, value in installation.environ.items() if name != "OTEL_SDK_DISABLED"}
        self.environ |= {
            "SIDECAR_SOCKET": self.socket,
            "XDG_STATE_HOME": str(self.state),
            "XDG_CONFIG_HOME": str(folder / "config"),
            "HOME": str(folder),
            "SIDECAR_OTLP_ENDPOINT": endpoint,
            "SIDECAR_OTLP_PROTOCOL": protocol,
        }

    def run(self, *command: str, flags: tuple[str, ...] = (), **options: Any) -> Ended:
        """`sidecar run` of a command, to its end."""
        return self.installation.run(*command, flags=flags, env=self.environ, **options)

    def cli(self, *words: str, **environ: str) -> "subprocess.CompletedProcess[str]":
        """`sidecar WORDS`."""
        return subprocess.run(
            [self.installation.script, *words],
            env={**self.environ, **environ},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=WAIT_S,
        )

    def spool_status(self) -> dict[str, Any]:
        """`sidecar spool status --json`."""
        shown = self.cli("spool", "status", "--json")
        assert shown.returncode == 0, shown.stderr
        found: dict[str, Any] = json.loads(shown.stdout)
        return found

    def start_daemon(self) -> int:
        """Its pid."""
        started = self.cli("daemon", "start")
        assert started.returncode == 0, started.stderr
        return int(client.status(self.socket)["pid"])

    def stop_daemon(self) -> None:
        """And wait until its process has gone: until then it tries once more to send what it has."""
        if os.path.exists(self.socket):
            assert self.cli("daemon", "stop").returncode in (0, 3)


@contextlib.contextmanager
def exporting(installation: Installation, folder: Path, endpoint: str, protocol: str) -> Iterator[Exporting]:
    made = Exporting(installation, folder, endpoint, protocol)
    try:
        yield made
    finally:
        made.stop_daemon()
