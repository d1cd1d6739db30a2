"""`sidecar spool`, with a daemon and without: what it shows, sends and throws away, and what it says of trouble."""

import json
import os
import re
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from exporting import Exporting, exporting
from supervised import Installation, alive, closed_port, until

from sidecar.core import frame as wire
from sidecar.daemon import client
from sidecar.telemetry.leftovers import leave
from sidecar.testing import FakeClock
from sidecar.testing.otlp import OtlpReceiver
from sidecar.testing.scripted import ScriptedCommand


@pytest.fixture
def port() -> Iterator[int]:
    with closed_port() as kept:
        yield kept


@pytest.fixture
def rig(sidecar: Installation, tmp_path: Path, port: int) -> Iterator[Exporting]:
    with exporting(sidecar, tmp_path, f"http://127.0.0.1:{port}", "http/protobuf") as made:
        yield made


def spooled(rig: Exporting, *, running: bool) -> None:
    """Two spans and two log records wait; a daemon runs, or it has gone."""
    rig.start_daemon()
    assert rig.run("true").status == 0
    until(lambda: rig.spool_status()["records"] == 4)
    if not running:
        rig.stop_daemon()


def test_nothing_was_ever_spooled(rig: Exporting) -> None:
    for verb in ("status", "flush", "clear"):
        done = rig.cli("spool", verb)
        assert (done.returncode, done.stderr) == (0, "")
        assert "nothing waits" in done.stdout
    assert not rig.state.exists()
    assert rig.spool_status()["records"] == 0


RUNBOOK = (Path(__file__).parents[2] / "dashboards" / "runbooks" / "SpoolFilling.md").read_text(encoding="utf-8")
(RUNBOOK_OUTPUT,) = re.findall(r"^```text\n(.*?)^```", RUNBOOK, re.MULTILINE | re.DOTALL)


def _shape(shown: str) -> str:
    """Without what is another on each machine: the folder, the address, how much and for how long."""
    shown = re.sub(r"^/\S+/", "FOLDER/", re.sub(r"http://[^/]+/", "ENDPOINT/", shown))
    return re.sub(r"the oldest for [0-9hms]+", "the oldest", re.sub(r"[0-9.]+ (?:[KM]i)?B|\b[0-9]+ ", "N ", shown))


@pytest.mark.parametrize("running", [True, False], ids=["daemon", "no daemon"])
def test_what_waits_is_shown_then_sent_once(rig: Exporting, port: int, running: bool) -> None:
    spooled(rig, running=running)
    if running:
        until(lambda: len(rig.spool_status()["reasons"]) == 2)
    found = rig.spool_status()
    assert (found["records"], found["daemon"] is not None) == (4, running)
    assert {each["destination"] for each in found["waiting"]} <= set(found["destinations"])
    shown = rig.cli("spool", "status").stdout
    if running:
        assert _shape(shown) == _shape(RUNBOOK_OUTPUT)
    assert "2 spans" in shown
    assert "2 log records" in shown
    assert ("Connection refused" in shown) is running
    refused = rig.cli("spool", "flush")
    assert refused.returncode == 1
    assert refused.stdout == ""
    assert refused.stderr.count("\n") == 1
    assert "Connection refused" in refused.stderr
    in_json = rig.cli("spool", "flush", "--json")
    assert in_json.returncode == 1
    assert json.loads(in_json.stdout).keys() == {"gone", "left", "reasons"}
    assert json.loads(in_json.stdout)["left"] == 4
    with OtlpReceiver(http_port=port) as receiver:
        sent = rig.cli("spool", "flush")
        assert (sent.returncode, sent.stderr) == (0, "")
        assert sent.stdout.startswith("sent: 2 spans and 2 log records")
        assert len(receiver.spans) == len(receiver.logs) == 2
        assert "nothing waits" in rig.cli("spool", "flush").stdout
        assert rig.spool_status()["records"] == 0


def test_the_daemon_says_what_its_last_try_got_and_the_doctor_tries_its_endpoint(rig: Exporting, port: int) -> None:
    """Not that of the shell which asks: who is on call may have another environment than the agents."""

    def last_tries() -> list[str | None]:
        signals = client.status(rig.socket)["telemetry"]["signals"]
        assert all(signals[signal]["endpoint"] == f"{endpoint}/v1/{signal}" for signal in signals)
        tried = [signals[signal] for signal in ("traces", "logs") if "tried_ms_ago" in signals[signal]]
        return [each.get("problem") for each in tried]

    endpoint = f"http://127.0.0.1:{port}"
    spooled(rig, running=True)
    until(lambda: last_tries() == ["Connection refused"] * 2)
    asked = rig.cli("doctor", SIDECAR_OTLP_ENDPOINT="http://127.0.0.1:1").stdout
    assert f"the daemon sends traces, metrics, logs to {endpoint}, which cannot be reached: Connection ref" in asked
    assert "a daemon started from this shell would send traces, metrics, logs to http://127.0.0.1:1, which can" in asked
    with OtlpReceiver(http_port=port):
        assert rig.cli("spool", "flush").returncode == 0
        assert last_tries() == [None, None]


@pytest.mark.parametrize("running", [True, False], ids=["daemon", "no daemon"])
def test_what_waits_is_thrown_away(rig: Exporting, port: int, running: bool) -> None:
    spooled(rig, running=running)
    cleared = rig.cli("spool", "clear")
    assert cleared.stdout.startswith("thrown away: 2 spans and 2 log records")
    assert rig.spool_status()["records"] == 0
    with OtlpReceiver(http_port=port) as receiver:
        assert rig.cli("spool", "flush").returncode == 0
        assert receiver.spans == []
    assert json.loads(rig.cli("spool", "clear", "--json").stdout) == {"records": 0, "commandsAsFrames": 0}


def test_another_collector_gets_it_only_with_all(rig: Exporting) -> None:
    spooled(rig, running=False)
    with OtlpReceiver() as other:
        elsewhere = {"SIDECAR_OTLP_ENDPOINT": other.http_endpoint}
        kept = rig.cli("spool", "flush", **elsewhere)
        assert kept.returncode == 1
        assert "--all" in kept.stderr
        assert other.spans == []
        assert rig.cli("spool", "flush", "--all", **elsewhere).returncode == 0
        assert len(other.spans) == 2


def test_a_collector_that_refuses_for_good_is_no_success(rig: Exporting, port: int) -> None:
    spooled(rig, running=False)
    with OtlpReceiver(http_port=port) as receiver:
        receiver.http_status = 400
        done = rig.cli("spool", "flush")
        assert done.returncode == 1
        assert "HTTP status 400" in done.stderr
        assert done.stderr.count("\n") == 1
    assert rig.spool_status()["records"] == 0


def test_trouble_is_one_line(rig: Exporting) -> None:
    assert rig.cli("spool", "flush", "--timeout", "soon").returncode == 125
    rig.spool.parent.mkdir(parents=True, mode=0o700)
    rig.spool.write_bytes(b"no database" * 500)
    for verb in ("status", "flush", "clear"):
        done = rig.cli("spool", verb)
        assert done.returncode == 125
        assert done.stderr.count("\n") == 1
        assert str(rig.spool) in done.stderr
    rig.spool.unlink()
    rig.spool.symlink_to("/etc/passwd")
    done = rig.cli("spool", "clear")
    assert done.returncode == 125
    assert done.stderr.count("\n") == 1


def test_killed_it_leaves_what_it_had_to_the_next_daemon(rig: Exporting, port: int) -> None:
    spooled(rig, running=True)
    pid = rig.start_daemon()
    os.kill(pid, signal.SIGKILL)
    until(lambda: not alive(pid))
    with OtlpReceiver(http_port=port) as receiver:
        assert rig.start_daemon() != pid
        until(lambda: len(receiver.spans) == 2)
        until(lambda: rig.spool_status()["records"] == 0)
        assert len(receiver.logs) == 2


def left(rig: Exporting) -> None:
    """The frames of one command, as an inline command leaves them that has no time to do more."""
    script = ScriptedCommand(FakeClock(), "make")
    frames = [script.start().identity, script.settle()]
    assert leave(str(rig.spool), [wire.encode(frame) for frame in frames])


def test_frames_that_were_left_are_shown_sent_and_thrown_away(rig: Exporting, port: int) -> None:
    left(rig)
    assert "1 command as frames" in rig.cli("spool", "status").stdout
    assert rig.spool_status()["commandsAsFrames"] == 1
    assert "1 command" in rig.cli("spool", "clear").stdout
    left(rig)
    with OtlpReceiver(http_port=port) as receiver:
        assert rig.cli("spool", "flush").returncode == 0
        assert [span.name for span in receiver.spans] == ["sidecar.started", "make"]
        assert rig.spool_status()["commandsAsFrames"] == 0


def test_a_daemon_takes_frames_that_were_left(rig: Exporting, port: int) -> None:
    with OtlpReceiver(http_port=port) as receiver:
        rig.start_daemon()
        left(rig)
        assert receiver.wait_for_span(lambda span: span.name == "make")
        until(lambda: rig.spool_status()["commandsAsFrames"] == 0)  # once it is safe


def test_two_daemons_on_one_spool_send_each_thing_once(rig: Exporting, port: int) -> None:
    other = f"{rig.socket}.other"
    commands = 5
    rig.start_daemon()
    assert rig.cli("daemon", "start", SIDECAR_SOCKET=other).returncode == 0
    try:
        for _ in range(commands):
            assert rig.run("true").status == 0
            assert rig.cli("run", "--", "true", SIDECAR_SOCKET=other).returncode == 0
        until(lambda: rig.spool_status()["records"] == 4 * 2 * commands)
        with OtlpReceiver(http_port=port) as receiver:
            rig.cli("spool", "flush")
            rig.cli("spool", "flush", SIDECAR_SOCKET=other)
            until(lambda: rig.spool_status()["records"] == 0)
            ids = [span.span_id for span in receiver.spans]
            assert len(ids) == len(set(ids)) == 2 * 2 * commands
    finally:
        rig.cli("daemon", "stop", SIDECAR_SOCKET=other)


def test_commands_that_no_daemon_took_are_told_of_by_the_next_one(rig: Exporting, port: int) -> None:
    # Nobody can listen there; as in the two seconds in which one that died at once is not started again.
    for _ in range(3):
        assert rig.cli("run", "--", "false", SIDECAR_SOCKET="/proc/none/s.sock").returncode == 1
    assert rig.spool_status()["commandsAsFrames"] == 3
    with OtlpReceiver(http_port=port) as receiver:
        rig.start_daemon()
        until(lambda: len([span for span in receiver.spans if span.name == "false"]) == 3)
        started = "sidecar.commands.started"
        receiver.wait_for_metric(lambda metric: metric.name == started and metric.value == 3)


def test_sigterm_ends_the_daemon_in_two_seconds_with_its_queue_on_disk(sidecar: Installation, tmp_path: Path) -> None:
    # Takes connections and never says a word: what is on its way will never be answered.
    with socket.create_server(("127.0.0.1", 0), backlog=64) as silent:
        endpoint = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with exporting(sidecar, tmp_path, endpoint, "http/protobuf") as rig:
            pid = rig.start_daemon()
            for _ in range(20):
                assert rig.run("true").status == 0
            before_s = time.monotonic()
            os.kill(pid, signal.SIGTERM)
            until(lambda: not alive(pid))
            assert time.monotonic() - before_s < 8.0, "the answer would be waited for for ten seconds"
            found = rig.spool_status()
            assert found["daemon"] is None
            assert found["records"] == 80
