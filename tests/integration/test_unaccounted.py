"""No command unaccounted for: whoever of those who knew of it is killed, and when."""

import contextlib
import os
import signal
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from exporting import Exporting, exporting
from supervised import WAIT_S, Installation, on_linux

from sidecar.testing.otlp import OtlpReceiver, ReceivedSpan

pytestmark = on_linux


@pytest.fixture
def receiver() -> Iterator[OtlpReceiver]:
    with OtlpReceiver() as made:
        yield made


@pytest.fixture
def site(sidecar: Installation, tmp_path: Path, receiver: OtlpReceiver) -> Iterator[Exporting]:
    with exporting(sidecar, tmp_path, receiver.http_endpoint, "http/protobuf") as made:
        yield made


def told(receiver: OtlpReceiver, call_id: str) -> list[ReceivedSpan]:
    """The command's own spans of a call; waits for the first."""
    deadline_s = time.monotonic() + WAIT_S
    while time.monotonic() < deadline_s:
        found = [
            span
            for span in receiver.spans
            if span.attributes.get("gen_ai.tool.call.id") == call_id
            and span.attributes["sidecar.span.role"] == "command"
        ]
        if found:
            return found
        time.sleep(0.05)
    return []


def wait_for_no_entry(site: Exporting) -> None:
    deadline_s = time.monotonic() + WAIT_S
    while os.listdir(f"{site.socket}.ledger") != ["lock"]:
        assert time.monotonic() < deadline_s, os.listdir(f"{site.socket}.ledger")
        time.sleep(0.05)


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    while os.path.exists(f"/proc/{pid}"):  # it is no child of ours
        time.sleep(0.01)


@pytest.mark.parametrize("status", [0, 7])
def test_a_daemon_that_is_killed_with_frames_unread(site: Exporting, receiver: OtlpReceiver, status: int) -> None:
    daemon = site.start_daemon()
    os.kill(daemon, signal.SIGSTOP)
    assert site.run("sh", "-c", f"exit {status}", flags=("--tool-call-id", "unread")).status == status
    kill(daemon)
    assert site.run("true").status == 0  # and so there is a daemon
    (span,) = told(receiver, "unread")
    assert span.attributes["process.exit.code"] == status
    assert span.attributes["sidecar.settle.reason"] == "exited"
    wait_for_no_entry(site)


def test_a_daemon_that_is_killed_while_it_starts(site: Exporting, receiver: OtlpReceiver) -> None:
    assert site.run("true", flags=("--tool-call-id", "first")).status == 0
    for pid in daemons(site):
        kill(pid)
    assert site.run("true", flags=("--tool-call-id", "second")).status == 0  # within the pause before the next start
    site.start_daemon()
    assert len(told(receiver, "first")) == len(told(receiver, "second")) == 1
    wait_for_no_entry(site)


def test_a_daemon_that_ends_while_nobody_takes_what_it_was_told(site: Exporting, receiver: OtlpReceiver) -> None:
    """The Collector refuses it, and the spool's disk is not to be written to: the ledger has it still."""
    site.start_daemon()
    assert site.run("true", flags=("--tool-call-id", "before")).status == 0
    assert told(receiver, "before")
    wait_for_no_entry(site)
    receiver.http_status = 503
    with contextlib.closing(sqlite3.connect(site.spool, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert site.run("true", flags=("--tool-call-id", "refused")).status == 0
        site.stop_daemon()
    assert len(os.listdir(f"{site.socket}.ledger")) == 2
    receiver.http_status = 200
    site.start_daemon()
    assert len(told(receiver, "refused")) == 1
    wait_for_no_entry(site)


def test_a_command_that_was_never_announced(site: Exporting, receiver: OtlpReceiver) -> None:
    """Its supervisor is killed right after the fork."""
    site.start_daemon()
    script = site.installation.script.read_text().partition("gc.disable()")
    copy = site.installation.script.with_name("dies-at-the-fork")
    copy.write_text(
        f"{script[0]}import posix\n"
        "def fork(_fork=posix.fork):\n"
        "    return _fork() and posix.kill(posix.getpid(), 9)\n"
        f"posix.fork = fork\n{script[1]}{script[2]}"
    )
    copy.chmod(0o755)
    words = [str(copy), "run", "--tool-call-id", "unannounced", "--", "sleep", "5"]
    assert subprocess.run(words, env=site.environ, stdin=subprocess.DEVNULL).returncode == -signal.SIGKILL
    (span,) = told(receiver, "unannounced")
    assert span.attributes["sidecar.settle.reason"] == "lost"
    assert "process.pid" not in span.attributes
    wait_for_no_entry(site)


def test_the_daemon_and_then_the_supervisor(site: Exporting, receiver: OtlpReceiver) -> None:
    daemon = site.start_daemon()
    words = site.installation.words("sleep", "60", flags=("--tool-call-id", "both"))
    supervisor = subprocess.Popen(words, env=site.environ, stdin=subprocess.DEVNULL)
    deadline_s = time.monotonic() + WAIT_S
    while "both" not in site.cli("ps", "--json").stdout:
        assert time.monotonic() < deadline_s
    os.kill(supervisor.pid, signal.SIGSTOP)
    kill(daemon)
    supervisor.kill()
    supervisor.wait()
    site.start_daemon()
    (span,) = told(receiver, "both")
    assert span.attributes["sidecar.settle.reason"] == "lost"
    wait_for_no_entry(site)


def test_no_command_waits_for_an_entry_that_cannot_be(site: Exporting, receiver: OtlpReceiver) -> None:
    site.start_daemon()
    ledger = Path(f"{site.socket}.ledger")
    if ledger.exists():
        (ledger / "lock").unlink(missing_ok=True)
        ledger.rmdir()
    ledger.write_text("in the way")
    assert site.run("true", flags=("--tool-call-id", "without")).status == 0
    assert len(told(receiver, "without")) == 1


def daemons(site: Exporting) -> list[int]:
    wanted = f"--socket\0{site.socket}\0".encode()
    return [
        int(name) for name in os.listdir("/proc") if name.isdigit() and wanted in read(f"/proc/{name}/cmdline")
    ]


def read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""
