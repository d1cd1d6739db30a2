"""A request to cancel: which command is meant, what its supervisor hears, what whoever asked is told."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from daemon_support import WAIT_S, Daemon, Frame, Producer, kinds, settled, started, take

from sidecar.daemon import client

ONE = "01890a5d-ac96-774b-bcce-b302099a8057"
TWO = "01890a5d-ac96-774b-bcce-b302099a8058"


def heard(producer: Producer) -> Frame:
    """The next line that the supervisor gets."""
    data = b""
    while not data.endswith(b"\n"):
        data += producer.socket.recv(1)
    line: Frame = json.loads(data)
    return line


def asked(daemon: Daemon, command_id: str) -> client.Subscription:
    return client.cancel(daemon.path, command_id, "a test")


def test_the_supervisor_hears_it_and_the_end_comes_back(tmp_path: Path) -> None:
    with Daemon(tmp_path) as daemon:
        producer = daemon.producer(started(ONE))
        with asked(daemon, "01890A5D") as answers:
            assert take(answers, 1)[0] == {
                "type": "cancelling",
                "commandId": ONE,
                "program": "make",
                "pid": 11,
                "supervisorPid": 10,
            }
            assert heard(producer) == {"request": "cancel", "commandId": ONE, "askedBy": "cancel", "evidence": "a test"}
            assert answers.next_within(0.05) is None
            assert not answers.ended
            producer.send(settled(ONE, reason="cancelled", signal="SIGTERM"))
            assert take(answers, 1)[0]["signal"] == "SIGTERM"
            assert answers.next_within(WAIT_S) is None
            assert answers.ended
        producer.close()


def test_a_supervisor_that_dies_of_it_is_told_as_lost(tmp_path: Path) -> None:
    with Daemon(tmp_path) as daemon:
        producer = daemon.producer(started(ONE))
        with asked(daemon, ONE) as answers:
            take(answers, 1)
            producer.close()
            assert take(answers, 1)[0]["reason"] == "lost"


def test_one_who_does_not_wait_is_forgotten(tmp_path: Path) -> None:
    with Daemon(tmp_path) as daemon:
        producer = daemon.producer(started(ONE))
        answers = asked(daemon, ONE)
        take(answers, 1)
        answers.close()
        while daemon.status()["connections"] > 2:  # the producer, and the one that asks
            continue
        assert not daemon.server.cancels._waiting
        producer.close()


@pytest.mark.parametrize(
    ("command_id", "message"),
    [
        ("0189ffff", "no command 0189ffff is running; `sidecar ps` shows"),
        ("01890a5d-ac96", f"the beginning of 2 commands: {ONE} (make), {TWO} (make); give more of the id"),
        ("018", "at least 4 characters"),
        ("deadbeef-over", "the command deadbeef-over has ended already"),
        ("deadbeef", "the command deadbeef-over has ended already"),
    ],
)
def test_an_id_that_does_not_say_which_is_an_error(tmp_path: Path, command_id: str, message: str) -> None:
    with Daemon(tmp_path) as daemon:
        over = daemon.producer(started("deadbeef-over"), settled("deadbeef-over"))
        producers = [daemon.producer(started(one)) for one in (ONE, TWO)]
        while daemon.status()["commands"] != 2 or not daemon.server.registry.ended:
            continue
        with asked(daemon, command_id) as answers:
            records = take(answers, 1)
            assert kinds(records) == ["error"]
            assert message in records[0]["message"]
            assert answers.next_within(WAIT_S) is None
            assert answers.ended
        for producer in (*producers, over):
            producer.close()


@pytest.mark.parametrize("reason", ["exited", "cancelled"])
def test_one_that_runs_is_not_taken_for_one_that_has_ended(tmp_path: Path, reason: str) -> None:
    with Daemon(tmp_path) as daemon:
        over = daemon.producer(started(ONE), settled(ONE, reason=reason))
        producer = daemon.producer(started(TWO))
        while daemon.status()["commands"] != 1 or not daemon.server.registry.ended:
            continue
        with asked(daemon, ONE[:13]) as answers:
            (refused,) = take(answers, 1)
            assert f"of 2 commands: {ONE} (make, ended), {TWO} (make); give" in refused["message"]
        with asked(daemon, TWO) as answers:
            take(answers, 1)
            assert heard(producer)["commandId"] == TWO
        over.close()
        producer.close()


def test_a_supervisor_that_is_not_connected_cannot_be_asked(tmp_path: Path) -> None:
    with Daemon(tmp_path, grace_s=WAIT_S) as daemon:
        daemon.producer(started(ONE)).close()
        while daemon.status()["connections"] > 1 or not daemon.status()["commands"]:
            continue
        with asked(daemon, ONE) as answers:
            assert "is not connected just now" in take(answers, 1)[0]["message"]


@pytest.mark.skipif(sys.platform != "linux", reason="the state of a process is read from /proc")
def test_a_stopped_supervisor_is_continued(tmp_path: Path) -> None:
    with Daemon(tmp_path) as daemon:
        frame = json.dumps(started(ONE))
        script = (
            "import json, os, signal, socket, sys\n"
            f"s = socket.socket(socket.AF_UNIX); s.connect({daemon.path!r})\n"
            f"frame = json.loads({frame!r}); frame['supervisorPid'] = os.getpid()\n"
            "s.sendall(json.dumps(frame).encode() + b'\\n')\n"
            "os.kill(os.getpid(), signal.SIGSTOP)\n"
            "print(s.makefile().readline(), flush=True)\n"
        )
        with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as process:
            os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
            try:
                with asked(daemon, ONE) as answers:
                    assert take(answers, 1)[0]["continued"] is True
                    assert process.stdout is not None
                    assert json.loads(process.stdout.readline())["request"] == "cancel"
            finally:
                process.send_signal(signal.SIGCONT)
                process.wait(WAIT_S)
