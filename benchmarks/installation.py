"""What is measured is what a user installs: a virtual environment of its own, a daemon of its own."""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


@dataclass(frozen=True)
class Installation:
    """`python` and `sidecar` of the environment, and the variables to run them with (a private socket)."""

    python: str
    sidecar: str
    environ: dict[str, str]


@contextmanager
def installation() -> Iterator[Installation]:
    """Install this tree with pip into a temporary environment and start its daemon; both are gone afterwards."""
    folder = tempfile.mkdtemp(prefix="sidecar-benchmark-")
    try:
        subprocess.run([sys.executable, "-m", "venv", f"{folder}/venv"], check=True)
        subprocess.run([f"{folder}/venv/bin/pip", "install", "-q", ROOT], check=True)
        os.mkdir(f"{folder}/run", 0o700)
        environ = {name: value for name, value in os.environ.items() if not name.startswith(("SIDECAR_", "OTEL_"))}
        environ |= {
            "XDG_RUNTIME_DIR": f"{folder}/run",
            "XDG_CONFIG_HOME": folder,
            "XDG_STATE_HOME": f"{folder}/state",
            "OTEL_SDK_DISABLED": "true",
        }
        sidecar = f"{folder}/venv/bin/sidecar"
        subprocess.run([sidecar, "daemon", "start"], check=True, env=environ, stdout=subprocess.DEVNULL)
        try:
            yield Installation(f"{folder}/venv/bin/python3", sidecar, environ)
        finally:
            subprocess.run([sidecar, "daemon", "stop"], env=environ, stdout=subprocess.DEVNULL, check=False)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def daemon_at(installed: Installation, environ: dict[str, str]) -> Iterator[dict[str, str]]:
    """Another daemon, with a socket of its own; gives `environ` with the way to it."""
    with tempfile.TemporaryDirectory(prefix="sidecar-benchmark-") as folder:
        environ = {**environ, "SIDECAR_SOCKET": f"{folder}/s.sock"}
        subprocess.run([installed.sidecar, "daemon", "start"], check=True, env=environ, stdout=subprocess.DEVNULL)
        try:
            yield environ
        finally:
            subprocess.run(
                [installed.sidecar, "daemon", "stop"], env=environ, stdout=subprocess.DEVNULL, check=False
            )


def wall_s(argv: list[str], environ: dict[str, str]) -> float:
    """The wall time of one run of `argv`, from just before the spawn to the reaping."""
    started_s = time.perf_counter()
    pid = os.posix_spawn(argv[0], argv, environ)
    _, status = os.waitpid(pid, 0)
    elapsed_s = time.perf_counter() - started_s
    if status != 0:
        raise RuntimeError(f"{argv} ended with wait status {status}")
    return elapsed_s
