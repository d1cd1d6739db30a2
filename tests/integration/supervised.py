"""A test aid: the same command bare and under `sidecar run`, with an installation and a daemon of the tests' own.

The installation is a copy of the package laid out as in a virtual environment, so that what runs is the script
that is installed (`bin/sidecar`), not this checkout by way of `python -m`.
"""

import contextlib
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from sidecar.core.errors import DaemonUnavailable
from sidecar.daemon import client

ROOT = Path(__file__).parents[2]
WAIT_S = 60.0
SITE_PACKAGES = f"lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"
on_linux = pytest.mark.skipif(sys.platform != "linux", reason="what the kernel tells is read from /proc")


class Ended(NamedTuple):
    """What the agent sees of a command. `status` as subprocess has it: -N for death by signal N."""

    status: int
    stdout: bytes
    stderr: bytes


class Installation:
    """A `sidecar` under `prefix`, and the environment in which the tests run it."""

    def __init__(self, prefix: Path, runtime: Path) -> None:
        self.prefix = prefix
        self.script = prefix / "bin" / "sidecar"
        self.shell = prefix / "bin" / "sidecar-sh"
        self.package = prefix / SITE_PACKAGES / "sidecar"
        self.socket = str(runtime / "s.sock")
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("SIDECAR_", "OTEL_", "XDG_", "TRACE", "PYTHON", "AI_AGENT"))
        }
        self.environ = {
            **kept,
            "PATH": f"{prefix}/bin:{os.environ.get('PATH', os.defpath)}",
            "SIDECAR_SOCKET": self.socket,
            "XDG_CONFIG_HOME": str(runtime / "config"),
            "XDG_STATE_HOME": str(runtime / "state"),
            "OTEL_SDK_DISABLED": "true",
        }

    def words(self, *command: str, flags: tuple[str, ...] = ()) -> list[str]:
        return [str(self.script), "run", *flags, "--", *command]

    def run(self, *command: str, flags: tuple[str, ...] = (), bare: bool = False, **options: Any) -> Ended:
        """Run to the end; stdin is empty unless `input` or `stdin` is given."""
        words = list(command) if bare else self.words(*command, flags=flags)
        if "input" not in options:
            options.setdefault("stdin", subprocess.DEVNULL)
        if not options.keys() & {"stdout", "stderr"}:
            options["capture_output"] = True
        options.setdefault("env", self.environ)
        done = subprocess.run(words, timeout=options.pop("timeout", WAIT_S), **options)
        return Ended(done.returncode, done.stdout or b"", done.stderr or b"")

    def both(self, *command: str, **options: Any) -> tuple[Ended, Ended]:
        """(bare, wrapped)"""
        return self.run(*command, bare=True, **options), self.run(*command, **options)

    @contextlib.contextmanager
    def started(
        self, *command: str, flags: tuple[str, ...] = (), bare: bool = False, **options: Any
    ) -> Iterator["subprocess.Popen[bytes]"]:
        """Running, with pipes for stdout and stderr; its whole tree is gone at the end whatever the test did."""
        words = list(command) if bare else self.words(*command, flags=flags)
        options = {
            "stdin": subprocess.DEVNULL,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.PIPE,
            "env": self.environ,
            "start_new_session": True,
            **options,
        }
        child = subprocess.Popen(words, **options)
        try:
            yield child
        finally:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait(WAIT_S)
            for stream in (child.stdin, child.stdout, child.stderr):
                if stream is not None:
                    stream.close()


def install(prefix: Path) -> None:
    """Lay the package out under `prefix` as an installer would; its dependencies are those of the tests."""
    packages = prefix / SITE_PACKAGES
    (prefix / "bin").mkdir(parents=True)
    packages.mkdir(parents=True)
    for name in ("sidecar", "sidecar-sh"):
        shutil.copy(ROOT / "bin" / name, prefix / "bin" / name)
        (prefix / "bin" / name).chmod(0o755)
    for name in ("sidecar", "collectors"):
        shutil.copytree(ROOT / name, packages / name, ignore=shutil.ignore_patterns("__pycache__"))
    (prefix / "bin" / "python3").symlink_to(os.path.realpath(sys.executable))
    (prefix / "pyvenv.cfg").write_text(f"home = {Path(os.path.realpath(sys.executable)).parent}\n")
    others = [path for path in sys.path if path.endswith("site-packages")]
    (packages / "others.pth").write_text("".join(f"{path}\n" for path in others))


def stop_daemon(socket_path: str) -> None:
    """End the daemon that a supervisor may have started, and wait until it is gone."""
    try:
        pid = int(client.status(socket_path)["pid"])
        list(client.request(socket_path, "stop"))
    except DaemonUnavailable:
        return  # none ever came up: its interpreter may lack what a daemon needs
    # Its socket goes first: until it has gone itself, it sends and writes what it has.
    until(lambda: not alive(pid) and not os.path.exists(socket_path))


@contextlib.contextmanager
def closed_port() -> Iterator[int]:
    """A port of 127.0.0.1 where nobody listens, that the kernel gives to nobody else; a server may take it meanwhile.

    It is bound, and not listened at: beside that may bind who sets SO_REUSEADDR, as servers do.
    """
    with socket.socket() as kept:
        kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        kept.bind(("127.0.0.1", 0))
        yield int(kept.getsockname()[1])


def until(condition: Callable[[], Any], within_s: float = WAIT_S) -> Any:
    """Wait for what the kernel does not announce. Returns the condition's value, fails the test without one."""
    deadline_s = time.monotonic() + within_s
    while not (value := condition()):
        if time.monotonic() > deadline_s:
            pytest.fail(f"did not happen within {within_s} s: {condition}")
        time.sleep(0.01)
    return value


def alive(pid: int) -> bool:
    """Whether `pid` runs; one that only waits to be reaped does not."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] not in (b"Z", b"X")
    except OSError:
        return False


def state_of(pid: int) -> str:
    """The one letter of proc(5): R, S, D, T ..."""
    with open(f"/proc/{pid}/stat", "rb") as file:
        return file.read().rpartition(b")")[2].split()[0].decode()


def pid_in(path: Path) -> int:
    """The pid that a command wrote into a file, once it has."""
    return int(until(lambda: path.exists() and path.read_text().strip()))


def cores(sidecar: Installation, folder: Path) -> list[int]:
    """How many core dumps a command leaves that may leave one and dies of SIGSEGV: bare, and wrapped."""
    pattern = Path("/proc/sys/kernel/core_pattern").read_text().strip()
    if "/" in pattern or pattern.startswith("|"):
        pytest.skip("cores go elsewhere here")

    def may_dump() -> None:
        resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))

    left = []
    for bare in (True, False):
        place = folder / f"bare {bare}"
        place.mkdir()
        ended = sidecar.run("sh", "-c", "kill -SEGV $$", bare=bare, cwd=place, preexec_fn=may_dump)
        assert ended.status == -signal.SIGSEGV
        left.append(len(list(place.iterdir())))
    with sidecar.started("sh", "-c", "kill -SEGV $$", cwd=folder, preexec_fn=may_dump) as child:
        _, status = os.waitpid(child.pid, 0)
        child.returncode = -os.WTERMSIG(status)
        # Both may be called `core`, and then only one is left: the kernel says whether it was ours.
        assert (os.WTERMSIG(status), os.WCOREDUMP(status)) == (signal.SIGSEGV, False)
    return left
