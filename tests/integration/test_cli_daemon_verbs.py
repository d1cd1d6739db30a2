"""`sidecar watch` and `sidecar ps` against the real daemon and a real command."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

HOUSE = str(Path(__file__).parents[2])


@pytest.fixture
def sidecar(tmp_path):
    """Start `sidecar` with arguments, in a home and with a daemon of its own."""
    tmp_path.chmod(0o700)
    environ = {name: text for name, text in os.environ.items() if not name.startswith(("SIDECAR_", "XDG_"))}
    environ |= {"HOME": str(tmp_path), "SIDECAR_SOCKET": str(tmp_path / "s"), "PYTHONPATH": HOUSE}
    # Nothing listens there: telemetry must not leave the test.
    environ["SIDECAR_OTLP_ENDPOINT"] = "http://127.0.0.1:9"
    started = []

    def start(*arguments):
        process = subprocess.Popen(
            [sys.executable, "-m", "sidecar", *arguments],
            cwd="/",
            env=environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        started.append(process)
        return process

    yield start
    start("daemon", "stop").communicate(timeout=60)
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


def test_a_command_is_seen_while_it_runs_and_settles(sidecar):
    assert sidecar("daemon", "start").wait(60) == 0
    mine = sidecar("watch", "--tool-call-id", "call_1")
    command = sidecar("run", "--tool-call-id", "call_1", "--session-id", "s", "--timeout", "2m", "--", "cat")

    started = json.loads(mine.stdout.readline())
    assert (started["type"], started["toolCallId"], started["program"]) == ("command_started", "call_1", "cat")

    # Of another tool call nothing may show up here, between the two records of this one.
    assert sidecar("run", "--tool-call-id", "call_2", "--", "true").wait(60) == 0

    listed = json.loads(sidecar("ps", "--json").communicate(timeout=60)[0])
    assert [(row["program"], row["sessionId"], row["timeoutMs"]) for row in listed] == [("cat", "s", 120_000)]
    head, row = sidecar("ps").communicate(timeout=60)[0].decode().splitlines()
    assert head.split()[:5] == ["PROGRAM", "PID", "RUNS", "SILENT", "TIMEOUT"]
    assert row.split()[:2] == ["cat", str(started["pid"])]

    assert command.communicate(b"x", timeout=60) == (b"x", b"")
    settled = json.loads(mine.stdout.readline())
    assert (settled["type"], settled["reason"], settled["totalBytes"]) == ("command_settled", "exited", 1)
    assert sidecar("ps", "--json").communicate(timeout=60)[0] == b"[]\n"

    assert sidecar("daemon", "stop").wait(60) == 0
    assert mine.stderr.readline() == b"sidecar: the daemon has ended; waiting for the next\n"


def test_a_wrong_option_starts_nothing(sidecar, tmp_path):
    marker = tmp_path / "marker"
    command = sidecar("run", "--timeout", "soon", "--", "touch", str(marker))
    out, err = command.communicate(timeout=60)
    assert (out, command.returncode) == (b"", 125)
    assert err.startswith(b'sidecar: --timeout: "soon" is not allowed; use a duration like')
    assert err.count(b"\n") == 1
    assert not marker.exists()
    assert not (tmp_path / "s").exists()


def test_a_file_is_compiled_by_the_first_run_and_holds_for_the_next(sidecar, tmp_path):
    config = tmp_path / ".config" / "sidecar" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text("timeout = '50ms'\ninline = true\n")
    config.chmod(0o644)
    compiled = tmp_path / ".cache" / "sidecar" / "config-snapshot"
    for _ in range(3):
        assert sidecar("run", "--", "cat").wait(60) == 124
    assert "timeout=50ms" in compiled.read_text()


def test_a_port_of_metrics_that_is_taken_is_said_at_the_start_and_to_the_doctor(sidecar):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = str(listener.getsockname()[1])
        unserved = f"http://127.0.0.1:{port}/metrics is not served: Address already in use"
        # Started, and found running already.
        for _ in range(2):
            out, err = sidecar("daemon", "start", "--prometheus-port", port).communicate(timeout=60)
            assert b", pid " in out
            assert err.decode().startswith(f"sidecar: {unserved}; `ss -ltnp 'sport = :{port}'`")
            assert err.count(b"\n") == 1
        told = sidecar("doctor").communicate(timeout=60)[0].decode()
        assert f"PROBLEM  daemon: {unserved}\n" in told


def test_the_daemon_in_the_foreground_logs_what_its_telemetry_cannot_do(sidecar):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        daemon = sidecar("daemon", "run", "--prometheus-port", str(port))
        lines = iter(daemon.stderr.readline, b"")
        assert any(f":{port}/metrics is not served: Address already in use".encode() in line for line in lines)
