"""`sidecar cancel` against running commands; silence timeouts; the receipt of each kind of stop."""

import contextlib
import json
import os
import signal
import subprocess
import time
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from supervised import WAIT_S, Installation, alive, on_linux, state_of, until

from sidecar.core.receipt import is_receipt
from sidecar.daemon import client
from sidecar.history.store import History, default_path
from sidecar.supervisor.stopping import AGAIN_NS

pytestmark = on_linux
Record = dict[str, Any]
SECOND_ASKING_S = 1.2 * AGAIN_NS / 1e9
"""What comes sooner is taken for the same request."""


class Watched:
    """Records of the daemon, by the pid of the supervisor."""

    def __init__(self, sidecar: Installation) -> None:
        self._sidecar = sidecar
        self.records = client.subscribe(sidecar.socket)

    def id_of(self, supervisor: int) -> str:
        while True:
            record = self.records.next_within(WAIT_S)
            assert record is not None
            if record.get("supervisorPid") == supervisor:
                return str(record["commandId"])

    def end_of(self, command_id: str) -> Record:
        while True:
            record = self.records.next_within(WAIT_S)
            assert record is not None
            if record.get("type") == "command_settled" and record["commandId"] == command_id:
                return record


@contextlib.contextmanager
def watched(sidecar: Installation) -> Iterator[Watched]:
    watch = Watched(sidecar)
    with watch.records:
        yield watch


def cancel(sidecar: Installation, *words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sidecar.script, "cancel", *words], env=sidecar.environ, capture_output=True, text=True, timeout=WAIT_S
    )


STUBBORN = "trap '' TERM; echo ready; while :; do sleep .05; done"


def ready(child: "subprocess.Popen[bytes]") -> None:
    assert child.stdout is not None
    assert child.stdout.readline() == b"ready\n"


def test_cancel_stops_the_tree_and_says_what_came_of_it(sidecar: Installation) -> None:
    with watched(sidecar) as watch, sidecar.started("sh", "-c", "sleep 60 & echo ready; wait") as child:
        ready(child)
        command_id = watch.id_of(child.pid)
        done = cancel(sidecar, command_id, "--json")
        assert (done.returncode, done.stderr) == (0, "")
        record = json.loads(done.stdout)
        assert (record["reason"], record["signal"]) == ("cancelled", "SIGTERM")
        receipt = record["stop"]
        assert is_receipt(receipt)
        assert receipt["askedBy"] == "cancel"
        assert receipt["evidence"].startswith("sidecar cancel, pid ")
        assert [(sent["signal"], sent["processes"]) for sent in receipt["sent"]] == [("SIGTERM", 2)]
        assert receipt["survivorCount"] == 0
        assert child.wait(WAIT_S) == -signal.SIGTERM
        again = cancel(sidecar, command_id, "--json")
        assert (again.returncode, again.stderr) == (0, "")
        assert json.loads(again.stdout) == record, "who asks a moment too late is told the same"


def test_a_command_that_ended_by_itself_cannot_be_cancelled_any_more(sidecar: Installation) -> None:
    with watched(sidecar) as watch, sidecar.started("sh", "-c", "read x; exit 3", stdin=subprocess.PIPE) as child:
        command_id = watch.id_of(child.pid)
        child.communicate(b"\n", WAIT_S)
        watch.end_of(command_id)
        done = cancel(sidecar, command_id)
        assert (done.returncode, done.stdout) == (125, "")
        assert done.stderr == f"sidecar: the command {command_id} has ended already\n"


def test_one_is_not_taken_for_one_that_ended_before_the_daemon_began(sidecar: Installation) -> None:
    with watched(sidecar) as watch, sidecar.started("sh", "-c", "echo ready; exec sleep 60") as child:
        ready(child)
        command_id = watch.id_of(child.pid)
        other = f"{command_id[:14]}{'8' if command_id[14] == '7' else '7'}{command_id[15:]}"
        path = default_path(sidecar.environ)
        assert path is not None
        store = History(path, 10_000)
        store.add([(1, {"commandId": other, "program": "true", "elapsedMs": 1, "reason": "exited", "exitCode": 0})])
        store.close()
        refused = cancel(sidecar, command_id[:13])
        assert (refused.returncode, refused.stdout, refused.stderr.count("\n")) == (125, "", 1)
        assert f"of 2 commands: {command_id} (sh), {other} (true, ended); give more of the id" in refused.stderr
        listed = {verb: listed_ids(sidecar, verb) for verb in ("ps", "history")}
        assert command_id[:15] in listed["ps"]
        assert other[:15] in listed["history"]
        done = cancel(sidecar, command_id[:15])
        assert (done.returncode, done.stderr) == (0, "")
        assert child.wait(WAIT_S) == -signal.SIGTERM


def test_by_the_trace_of_an_alert(sidecar: Installation) -> None:
    """From the trace to its command in one step; of several, none is stopped."""
    trace = uuid.uuid4().hex
    environ = {**sidecar.environ, "TRACEPARENT": f"00-{trace}-00f067aa0ba902b7-01"}
    one, other = (sidecar.started("sh", "-c", "echo ready; exec sleep 60", env=environ) for _ in range(2))
    with watched(sidecar) as watch, one as first:
        ready(first)
        first_id = watch.id_of(first.pid)
        explained = verb(sidecar, "explain", trace)
        assert (explained.returncode, explained.stderr) == (0, "")
        assert explained.stdout.startswith("sh (pid ")
        with other as second:
            ready(second)
            second_id = watch.id_of(second.pid)
            refused = cancel(sidecar, trace)
            assert (refused.returncode, refused.stdout, refused.stderr.count("\n")) == (125, "", 1)
            assert f"{first_id} (sh), {second_id} (sh); give the id of one" in refused.stderr
            listed = verb(sidecar, "explain", trace)
            assert listed.returncode == 125
            assert len(listed.stdout.splitlines()) == 3
            assert cancel(sidecar, second_id).returncode == 0
            assert second.wait(WAIT_S) == -signal.SIGTERM
        until(lambda: "1 has ended" in verb(sidecar, "explain", trace).stderr)
        assert cancel(sidecar, trace).returncode == 125, "the other may have been meant"
        assert cancel(sidecar, first_id).returncode == 0
        assert first.wait(WAIT_S) == -signal.SIGTERM
    until(lambda: "2 commands of this trace have ended" in verb(sidecar, "explain", trace).stderr)
    refused = cancel(sidecar, trace)
    assert (refused.returncode, refused.stdout) == (125, "")
    assert f"nothing of trace {trace} runs; its 2 commands have ended: `sidecar history --filter" in refused.stderr
    history = verb(sidecar, "history", "--filter", trace, "--json")
    assert [one["commandId"] for one in json.loads(history.stdout)] == [first_id, second_id]


def verb(sidecar: Installation, *words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sidecar.script, *words], env=sidecar.environ, capture_output=True, text=True, timeout=WAIT_S, check=False
    )


def listed_ids(sidecar: Installation, verb: str) -> list[str]:
    words = [sidecar.script, verb]
    done = subprocess.run(words, env=sidecar.environ, capture_output=True, text=True, timeout=WAIT_S)
    assert done.returncode == 0
    return [word for line in done.stdout.splitlines() for word in line.split()]


def test_several_at_once_on_a_stopped_supervisor_are_told_the_same(sidecar: Installation) -> None:
    with watched(sidecar) as watch, sidecar.started("sh", "-c", "echo ready; exec sleep 60") as child:
        ready(child)
        command_id = watch.id_of(child.pid)
        os.killpg(child.pid, signal.SIGSTOP)
        until(lambda: state_of(child.pid) == "T")
        words = [sidecar.script, "cancel", command_id, "--json"]
        options = {"env": sidecar.environ, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        asking = [subprocess.Popen(words, **options) for _ in range(3)]  # type: ignore[call-overload]
        told = [(process.communicate(timeout=WAIT_S)[0], process.returncode) for process in asking]
        assert [status for _, status in told] == [0, 0, 0]
        assert len({text for text, _ in told}) == 1


def test_a_second_cancel_kills_at_once(sidecar: Installation) -> None:
    flags = ("--kill-after", "60s")
    script = STUBBORN.replace("''", "'echo term'", 1)
    with watched(sidecar) as watch, sidecar.started("sh", "-c", script, flags=flags) as child:
        ready(child)
        command_id = watch.id_of(child.pid)
        first = cancel(sidecar, command_id, "--wait", "600ms")
        assert first.returncode == 124
        assert "has not settled within 600ms" in first.stderr
        assert child.stdout is not None
        assert child.stdout.readline() == b"term\n"
        time.sleep(SECOND_ASKING_S)
        second = cancel(sidecar, command_id)
        assert second.returncode == 0
        assert "SIGKILL to " in second.stdout
        assert child.wait(WAIT_S) == -signal.SIGKILL


def test_a_command_whose_supervisor_is_stopped_is_continued_and_cancelled(sidecar: Installation) -> None:
    with watched(sidecar) as watch, sidecar.started("sh", "-c", "echo ready; exec sleep 60") as child:
        ready(child)
        command_id = watch.id_of(child.pid)
        os.killpg(child.pid, signal.SIGSTOP)
        until(lambda: state_of(child.pid) == "T")
        done = cancel(sidecar, command_id)
        assert done.returncode == 0
        assert done.stderr == f"sidecar: its supervisor, pid {child.pid}, was stopped; it was continued\n"
        assert child.wait(WAIT_S) == -signal.SIGTERM


def test_too_little_of_an_id_is_told_in_the_users_words(sidecar: Installation) -> None:
    done = cancel(sidecar, "018")
    assert done.returncode == 125
    assert done.stderr == "sidecar: give at least 4 characters of the command's id; `sidecar ps` shows it\n"


def test_a_wrong_wait_is_one_line(sidecar: Installation) -> None:
    done = cancel(sidecar, "0189", "--wait", "soon")
    assert done.returncode == 125
    assert done.stderr.startswith('sidecar: --wait: "soon" is not allowed; use a duration')


@pytest.mark.parametrize("interval", ["0", "10s"])
def test_silence_for_too_long_stops_it_and_output_does_not(sidecar: Installation, interval: str) -> None:
    flags = ("--silence-timeout", "1500ms", "--heartbeat-interval", interval)
    script = "for i in 1 2 3 4; do echo $i; sleep .4; done; echo $$; exec sleep 60"
    with watched(sidecar) as watch, sidecar.started("sh", "-c", script, flags=flags) as child:
        command_id = watch.id_of(child.pid)
        assert child.stdout is not None
        assert child.stdout.read().split()[:4] == [b"1", b"2", b"3", b"4"]
        assert child.wait(WAIT_S) == 124
        record = watch.end_of(command_id)
        assert record["reason"] == "silence_timeout"
        assert record["stop"]["askedBy"] == "silence_timeout"
        assert record["longestSilenceMs"] >= 1500
        assert record["elapsedMs"] >= 3100


def test_who_asked_by_signal_and_what_was_killed(sidecar: Installation) -> None:
    flags = ("--kill-after", "300ms")
    with watched(sidecar) as watch, sidecar.started("sh", "-c", STUBBORN, flags=flags) as child:
        ready(child)
        command_id = watch.id_of(child.pid)
        os.kill(child.pid, signal.SIGTERM)
        assert child.wait(WAIT_S) == -signal.SIGKILL
        receipt = watch.end_of(command_id)["stop"]
        assert receipt["askedBy"] == "signal"
        assert receipt["evidence"].startswith(f"SIGTERM from pid {os.getpid()} (")
        assert [sent["signal"] for sent in receipt["sent"]] == ["SIGTERM", "SIGKILL"]
        assert 300 <= receipt["sent"][1]["atMs"] - receipt["sent"][0]["atMs"] < 30_000


def test_a_second_term_in_the_grace_kills_at_once(sidecar: Installation) -> None:
    flags = ("--kill-after", "60s")
    with sidecar.started("sh", "-c", f"setsid sleep 60 & echo $! >&2; {STUBBORN}", flags=flags) as child:
        assert child.stderr is not None
        away = int(child.stderr.readline())
        ready(child)
        os.kill(child.pid, signal.SIGTERM)
        until(lambda: not alive(away))
        time.sleep(SECOND_ASKING_S)
        os.kill(child.pid, signal.SIGTERM)
        assert child.wait(WAIT_S) == -signal.SIGKILL


def test_term_once_the_command_has_exited_does_not_make_it_cancelled(sidecar: Installation) -> None:
    with watched(sidecar) as watch:
        # A reader that does not read holds up the settle; the command itself is over.
        with sidecar.started("sh", "-c", "echo $$ >&2; exec head -c 130000 /dev/zero") as child:
            assert child.stderr is not None
            command = int(child.stderr.readline())
            command_id = watch.id_of(child.pid)
            until(lambda: not os.path.exists(f"/proc/{command}"))
            os.kill(child.pid, signal.SIGTERM)
            assert child.wait(WAIT_S) == 0
        record = watch.end_of(command_id)
        assert (record["reason"], record["exitCode"]) == ("exited", 0)
        assert "stop" not in record
