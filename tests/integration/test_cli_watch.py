"""`sidecar watch` as a process of its own, against a daemon of a few lines."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

HOUSE = str(Path(__file__).parents[2])


class FakeDaemon:
    """Accepts subscribers one after the other; the test says what they get."""

    def __init__(self, path):
        self.path = path
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(path)
        os.chmod(path, 0o600)
        self.listener.listen()
        self.listener.settimeout(60)
        self.connection = None

    def accept(self):
        """The next subscriber's request."""
        self.connection, _ = self.listener.accept()
        self.connection.settimeout(60)
        line = self.connection.makefile("rb").readline()
        return json.loads(line)

    def send(self, *records):
        # At once: the other side may leave as soon as it has read enough.
        self.connection.sendall(b"".join(json.dumps(record).encode() + b"\n" for record in records))

    def hang_up(self):
        self.connection.shutdown(socket.SHUT_RDWR)
        self.connection.close()

    def close(self):
        if self.connection is not None:
            self.connection.close()
        self.listener.close()
        os.unlink(self.path)


@pytest.fixture
def path(tmp_path):
    tmp_path.chmod(0o700)
    return str(tmp_path / "s")


@pytest.fixture
def daemon(path):
    fake = FakeDaemon(path)
    yield fake
    fake.close()


@pytest.fixture
def watch(path, tmp_path):
    """Start `sidecar watch` with further arguments."""
    started = []

    def start(*arguments):
        environ = {**os.environ, "HOME": str(tmp_path), "SIDECAR_SOCKET": path, "PYTHONPATH": HOUSE}
        process = subprocess.Popen(
            [sys.executable, "-m", "sidecar", "watch", *arguments],
            cwd="/",
            env=environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


def line_of(stream):
    """The next line; the test's own timeout bounds the wait."""
    return stream.readline().decode()


BEAT = {"toolCallId": "call_1", "status": "in_progress", "_meta": {"x": "é"}}


def test_records_come_at_once_and_the_snapshot_line_does_not(daemon, watch):
    process = watch("--tool-call-id", "call_1", "--session-id", "s")
    wanted = daemon.accept()["subscribe"]
    assert wanted == {"format": "ndjson", "toolCallId": "call_1", "sessionId": "s"}
    daemon.send({"type": "snapshot", "commands": 1}, {"type": "command_started", "snapshot": True})
    assert json.loads(line_of(process.stdout)) == {"type": "command_started", "snapshot": True}
    daemon.send(BEAT)
    assert line_of(process.stdout) == '{"toolCallId":"call_1","status":"in_progress","_meta":{"x":"é"}}\n'
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130
    assert process.communicate() == (b"", b"")


def test_it_waits_for_a_daemon_and_for_the_next(watch, path):
    process = watch()
    assert line_of(process.stderr) == f"sidecar: no daemon is running on {path}; waiting for one\n"
    for number in range(2):
        daemon = FakeDaemon(path)
        assert daemon.accept() == {"subscribe": {"format": "ndjson"}}
        daemon.send({"type": "snapshot", "commands": 0}, {**BEAT, "n": number})
        assert json.loads(line_of(process.stdout))["n"] == number
        daemon.close()
        assert "has ended; waiting for the next" in line_of(process.stderr)


def test_once_ends_with_the_daemon(daemon, watch):
    process = watch("--once")
    daemon.accept()
    daemon.send({"type": "snapshot", "commands": 0}, BEAT)
    daemon.hang_up()
    out, err = process.communicate(timeout=60)
    assert json.loads(out) == BEAT
    assert err == b"sidecar: the daemon has ended\n"
    assert process.returncode == 0


def test_once_without_a_daemon(watch, path):
    process = watch("--once")
    assert process.communicate(timeout=60) == (b"", f"sidecar: no daemon is running on {path}\n".encode())
    assert process.returncode == 125


def test_lagging_is_told_and_a_new_subscription_made(daemon, watch):
    process = watch()
    daemon.accept()
    daemon.send({"type": "lagged"})
    daemon.hang_up()
    assert "too slow, and some records are missing" in line_of(process.stderr)
    assert daemon.accept() == {"subscribe": {"format": "ndjson"}}


def test_count_ends_after_so_many_lines(daemon, watch):
    process = watch("--count", "2")
    daemon.accept()
    daemon.send(BEAT, BEAT, BEAT)
    out, err = process.communicate(timeout=60)
    assert len(out.splitlines()) == 2
    assert (err, process.returncode) == (b"", 0)


def test_a_reader_that_goes_away_ends_it_though_nothing_is_written(daemon, watch):
    process = watch()
    daemon.accept()
    process.stdout.close()
    assert process.wait(60) == 141
    assert process.stderr.read() == b""
    process.stdout = None


def test_a_reader_that_goes_away_ends_the_wait_for_a_daemon(watch):
    process = watch()
    assert "waiting" in line_of(process.stderr)
    process.stdout.close()
    assert process.wait(60) == 141
    assert process.stderr.read() == b""
    process.stdout = None


def test_ps_against_the_same_socket(daemon, path, tmp_path):
    done = []

    def run():
        environ = {**os.environ, "HOME": str(tmp_path), "SIDECAR_SOCKET": path, "PYTHONPATH": HOUSE}
        argv = [sys.executable, "-m", "sidecar", "ps", "--json"]
        done.append(subprocess.run(argv, cwd="/", env=environ, capture_output=True, check=True, timeout=60))

    thread = threading.Thread(target=run)
    thread.start()
    assert daemon.accept() == {"request": "list"}
    daemon.send({"type": "command", "program": "x", "elapsedMs": 1}, {"type": "end", "count": 1})
    thread.join()
    assert json.loads(done[0].stdout) == [{"type": "command", "program": "x", "elapsedMs": 1}]
