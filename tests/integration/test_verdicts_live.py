"""Why a supervised command is silent: seen by a subscriber, in heartbeats and in `ps --json`, on real processes.

Which verdict a state earns is the business of the tests of the rules; here it is that the supervisor sees it, in time.
"""

import json
import os
import pty
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from supervised import WAIT_S, Installation, on_linux, until
from verdict_watch import Record, Watched, watched

from sidecar.daemon import client

pytestmark = on_linux
# With a look of its own, after two seconds of silence; not with the first beat, after ten.
PROMPT_MS = 9000


@pytest.fixture
def held_pipe() -> Iterator[int]:
    """The read end of a pipe whose only writer is the test, as an agent's stdin is."""
    reader, writer = os.pipe()
    yield reader
    os.close(reader)
    os.close(writer)


@pytest.fixture
def agent_terminal() -> Iterator[int]:
    """The terminal that an agent gives a command."""
    master, slave = pty.openpty()
    yield slave
    os.close(slave)
    os.close(master)


def is_whole(record: Record) -> bool:
    return record.keys() >= {"verdict", "group", "confidence", "sinceMs", "alive", "progress", "leaf", "evidence"}


def test_a_read_of_a_stdin_that_only_the_agent_can_fill(sidecar: Installation, held_pipe: int) -> None:
    with watched(sidecar, "bash", "-c", "read -r x; echo done", stdin=held_pipe) as command:
        found = command.verdict("awaiting_input")
        assert (found["verdict"], found["group"]) == ("awaiting_input", "needs_someone")
        assert found["elapsedMs"] < PROMPT_MS
        assert is_whole(found)
        assert found["leaf"]["program"] == "bash"
        listed = command.listed()
        assert is_whole(listed)
        assert (listed["verdict"], listed["leaf"]) == (found["verdict"], found["leaf"])
        assert listed["sinceMs"] >= found["sinceMs"]


@pytest.mark.parametrize(
    ("program", "evidence"),
    [("read -r -p 'Proceed? ' x", "a line"), ("read -r -s -p 'Password: ' x", "echo off"), ("exec cat", "a line")],
)
def test_a_prompt_on_a_terminal(sidecar: Installation, agent_terminal: int, program: str, evidence: str) -> None:
    streams = {"stdin": agent_terminal, "stdout": agent_terminal, "stderr": agent_terminal}
    with watched(sidecar, "bash", "-c", program, **streams) as command:
        found = command.verdict("awaiting_input")
        assert found["elapsedMs"] < PROMPT_MS
        assert evidence in found["evidence"][0]


def test_getpass_is_a_secret_prompt(sidecar: Installation, agent_terminal: int) -> None:
    streams = {"stdin": agent_terminal, "stdout": agent_terminal, "stderr": agent_terminal}
    with watched(sidecar, sys.executable, "-c", "import getpass; getpass.getpass()", **streams) as command:
        found = command.verdict("awaiting_input")
        assert "secret" in found["evidence"][0]


def test_a_sleep_in_frames_beats_and_the_list(sidecar: Installation) -> None:
    with watched(sidecar, "sleep", "300", flags=("--heartbeat-interval", "5s")) as command:
        first = command.verdict("sleeping")
        assert (first["verdict"], first["group"], first["confidence"]) == ("sleeping", "waiting", "measured")
        assert (first["alive"], first["progress"]) == (True, False)
        beats = [command.beat(), command.beat()]
        assert [beat["verdict"] for beat in beats] == ["sleeping", "sleeping"]
        assert all(is_whole(beat) for beat in beats)
        assert beats[1]["sinceMs"] - beats[0]["sinceMs"] > 1000
        assert sum(frame.get("verdict") == "sleeping" for frame in command.frames) == 1, "what goes on is not repeated"
        assert command.listed()["evidence"] == beats[1]["evidence"]


def test_work_two_levels_down_behind_a_pipe(sidecar: Installation) -> None:
    line = f"timeout 60 {sys.executable} -c 'while 1: pass' 2>&1 | tail -200"
    with watched(sidecar, "bash", "-c", line) as command:
        found = command.verdict("computing")
        assert found["group"] == "working"
        assert found["progress"] is True
        assert found["leaf"]["program"].startswith("python")


def test_stopped_and_resumed_are_told_at_once(sidecar: Installation) -> None:
    with watched(sidecar, "bash", "-c", "kill -STOP $$; exec sleep 60", flags=("--verdict-after", "20s")) as command:
        found = command.verdict("stopped")
        assert (found["verdict"], found["group"]) == ("stopped", "needs_someone")
        assert "STOP" in found["evidence"][0]
        assert found["elapsedMs"] < 15_000, "the kernel says so, no silence need be waited for"
        os.kill(found["leaf"]["pid"], signal.SIGCONT)
        assert command.verdict("sleeping")["elapsedMs"] > found["elapsedMs"]


def test_a_fifo_that_nobody_opens(sidecar: Installation, tmp_path: Path) -> None:
    fifo = tmp_path / "f"
    os.mkfifo(fifo)
    with watched(sidecar, "cat", str(fifo)) as command:
        found = command.verdict("fifo_wait")
        assert (found["verdict"], found["group"]) == ("fifo_wait", "needs_someone")
        assert str(fifo) in found["evidence"][0]


def test_a_lock_that_its_owner_waits_for(sidecar: Installation) -> None:
    code = "import threading as t; l = t.Lock(); l.acquire(); l.acquire()"
    with watched(sidecar, sys.executable, "-c", code) as command:
        found = command.verdict("deadlock_suspected")
        assert (found["verdict"], found["group"]) == ("deadlock_suspected", "may_be_hung")
        assert (found["alive"], found["progress"]) == (True, False)


def test_a_service_that_listens(sidecar: Installation) -> None:
    code = "import socket; s = socket.create_server(('127.0.0.1', 0)); s.accept()"
    with watched(sidecar, sys.executable, "-c", code) as command:
        found = command.verdict("listening")
        assert (found["verdict"], found["group"]) == ("listening", "waiting")


def test_a_connect_that_nobody_answers(sidecar: Installation) -> None:
    code = (
        "import socket\n"
        "s = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen(0)\n"
        "k = [socket.create_connection(s.getsockname()) for _ in range(9)]\n"
    )
    with watched(sidecar, sys.executable, "-c", code) as command:
        command.verdict("network_wait")
        found = command.verdict("network_connecting", within_s=90)
        assert found["group"] == "may_be_hung"
        assert found["elapsedMs"] > 10_000
        assert "127.0.0.1" in found["evidence"][0]


def test_output_ends_a_verdict_and_the_next_silence_has_its_own(sidecar: Installation, held_pipe: int) -> None:
    code = "read -r x; while ! read -t 0.2 -r x; do echo thanks; done; read -r x"
    reader, writer = os.pipe()
    with watched(sidecar, "bash", "-c", code, stdin=reader) as command:
        first = command.verdict("awaiting_input")
        os.write(writer, b"yes\n")
        until(lambda: "verdict" not in command.listed())
        os.write(writer, b"enough\n")
        second = command.verdict("awaiting_input")
        assert second["elapsedMs"] > first["elapsedMs"] + 2000
    os.close(reader)
    os.close(writer)


def test_a_silence_is_told_from_its_first_moment_to_its_last(sidecar: Installation, tmp_path: Path) -> None:
    talk = "for i in 1 2 3 4 5; do echo $i; sleep 0.2; done"
    script = f"{talk}; sleep 4; {talk}; sleep 5; while :; do echo on; sleep 0.2; done"
    flags = ("--heartbeat-interval", "60s", "--verdict-after", "2s")
    with watched(sidecar, "bash", "-c", script, flags=flags) as command:
        command.verdict("sleeping")
        command.verdict("sleeping")
        until(lambda: "verdict" not in command.listed())
        silences = command.silences()
    # Not from its verdict on, two seconds later.
    assert [pytest.approx(end - begin, abs=1500) for begin, end, _ in silences] == [4200, 5200]
    assert silences[0][0] == pytest.approx(800, abs=1500)


def test_output_that_nobody_takes(sidecar: Installation) -> None:
    with watched(sidecar, "sh", "-c", "exec yes", stdout=subprocess.PIPE) as command:
        found = command.verdict("output_blocked")
        assert found["group"] == "needs_someone"


def test_a_command_of_less_than_two_seconds_is_not_looked_at(sidecar: Installation) -> None:
    with watched(sidecar, "sleep", "0.5") as command:
        command.process.wait()
        time.sleep(0)
        command.until(lambda record: record.get("type") == "command_settled")
        assert not any(frame.get("type") == "verdict" for frame in command.frames)


def test_with_no_verdicts_nobody_looks(sidecar: Installation) -> None:
    with watched(sidecar, "sleep", "60", flags=("--no-verdicts", "--heartbeat-interval", "4s")) as command:
        assert "verdict" not in command.beat()
        descriptors = os.listdir(f"/proc/{command.process.pid}/task")
        assert len(descriptors) == 1, "no thread either"


def test_a_hostile_name_is_shown_for_what_it_is(sidecar: Installation, tmp_path: Path) -> None:
    code = "open('/proc/self/comm', 'wb').write(b'a) R 1\\n\\x1b[2J\\xff'); import time; time.sleep(99)"
    with watched(sidecar, sys.executable, "-c", code) as command:
        found = command.verdict("sleeping")
        assert found["leaf"]["program"].isprintable()
        assert found["leaf"]["program"].startswith("a) R 1\\n\\x1b[2J")


def test_explain_says_why_with_figures_and_what_to_do(sidecar: Installation, held_pipe: int) -> None:
    with watched(sidecar, "bash", "-c", "read -r x", stdin=held_pipe) as command:
        found = command.verdict("awaiting_input")
        words = [str(sidecar.script), "explain", found["commandId"][:13]]
        said = subprocess.run(words, env=sidecar.environ, capture_output=True, text=True, check=True).stdout
        assert f"bash (pid {found['leaf']['pid']}) waits for somebody to type, or to send it input." in said
        assert "It goes on only when somebody acts." in said
        assert found["evidence"][0] in said
        assert "\nnext " in said


def test_why_looks_at_a_process_that_nobody_supervises(sidecar: Installation, tmp_path: Path) -> None:
    fifo = tmp_path / "f"
    os.mkfifo(fifo)
    with sidecar.started("sh", "-c", f"cat {fifo}; true", bare=True) as process:
        words = [str(sidecar.script), "why", str(process.pid), "--json"]

        def said_now() -> Record:
            said: Record = json.loads(
                subprocess.run(words, env=sidecar.environ, capture_output=True, check=True).stdout
            )
            return said if said["verdict"] == "fifo_wait" else {}

        said = until(said_now)  # once the shell has started it
        assert (said["verdict"], said["leaf"]["program"], said["confirmed"]) == ("fifo_wait", "cat", True)
        assert str(fifo) in said["evidence"][0]


def test_a_prompt_that_nobody_answers_is_cancelled_and_the_receipt_says_why(
    sidecar: Installation, held_pipe: int
) -> None:
    flags = ("--on-verdict", "awaiting_input:2s=report", "--on-verdict", "needs_someone:3s=cancel")
    with watched(sidecar, "bash", "-c", "read -r x", stdin=held_pipe, flags=flags) as command:
        settled = command.until(lambda record: record.get("type") == "command_settled")
        assert settled["reason"] == "cancelled"
        receipt = settled["stop"]
        assert receipt["askedBy"] == "verdict"
        assert re.match(r"awaiting_input for \d+ s \(needs_someone:3s=cancel\): reads stdin", receipt["evidence"])
        assert receipt["atMs"] < 9500, "with a look of its own, not with the next beat"
        limits = [frame["limit"] for frame in command.frames if "limit" in frame]
        assert limits == ["awaiting_input:2s=report", "needs_someone:3s=cancel"]
        assert command.process.wait() == -signal.SIGTERM


def test_a_server_that_answers_late_is_waited_for_whatever_rules_there_are_for_prompts_and_hangs(
    sidecar: Installation,
) -> None:
    """A SQL probe: silent for three times as long as either rule allows, and then it has its answer."""
    client_code = (
        "import socket, sys\ns = socket.create_connection(('127.0.0.1', int(sys.argv[1])))\ns.send(b'q'); s.recv(9)\n"
    )
    flags = ("--on-verdict", "may_be_hung:2s=cancel", "--on-verdict", "needs_someone:2s=cancel")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        with watched(sidecar, sys.executable, "-c", client_code, port, flags=flags) as command:
            peer, _ = server.accept()
            with peer:
                found = command.verdict("network_wait")
                assert (found["verdict"], found["group"]) == ("network_wait", "waiting")
                assert command.beat()["verdict"] == "network_wait"
                peer.send(b"answer")
                settled = command.until(lambda record: record.get("type") == "command_settled")
        assert (settled["reason"], settled["exitCode"]) == ("exited", 0)
        assert "stop" not in settled


def test_a_rule_that_is_none_is_one_line_and_nothing_is_started(sidecar: Installation) -> None:
    ended = sidecar.run("touch", "/nonexistent/x", flags=("--on-verdict", "prompt:60s=cancel"))
    assert (ended.status, ended.stdout) == (125, b"")
    assert ended.stderr.count(b"\n") == 1
    assert b"awaiting_input:60s=cancel" in ended.stderr


def test_output_into_a_device_is_said_not_to_be_seen(sidecar: Installation) -> None:
    """What talks there all the time looks silent: nobody is to take that for a fact about the command."""
    with watched(sidecar, "sh", "-c", "while :; do echo x; sleep 0.1; done", stdout=subprocess.DEVNULL) as command:
        (unseen,) = command.verdict()["unseen"]
        assert unseen.startswith("what it writes to stdout (/dev/null): ")
        told = subprocess.run(
            [str(sidecar.script), "explain", str(command.listed()["commandId"])], env=sidecar.environ,
            capture_output=True, text=True, check=True, timeout=WAIT_S,
        ).stdout  # fmt: skip
        assert "no output was seen for" in told.partition("\n")[0]
        assert f"not seen    {unseen}" in told


@pytest.mark.parametrize("closing", ["", ">&-"])
def test_a_closed_stream_is_no_device(sidecar: Installation, closing: str) -> None:
    """There is a plug of ours in its place."""
    call = f"exec {sidecar.script} run --tool-call-id closed -- sleep 300 {closing}"
    with (
        client.subscribe(sidecar.environ["SIDECAR_SOCKET"], {"toolCallId": "closed"}) as subscription,
        sidecar.started("/bin/sh", "-c", call, bare=True) as process,
    ):
        found = Watched(sidecar, process, subscription, "closed").verdict("sleeping")
        assert "unseen" not in found
