"""The senses and the rules together, on real processes: a few states that every machine can stage."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest

from collectors import Kernel, Looker, observe
from sidecar.core.finding import Verdict
from sidecar.core.verdict import judge

Start = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts a command in its own session; at the end its whole group is killed."""
    started: list[subprocess.Popen[bytes]] = []

    def starter(*argv: str, stdin: int = subprocess.DEVNULL) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(argv, stdin=stdin, stdout=subprocess.PIPE, start_new_session=True)
        started.append(process)
        return process

    yield starter
    for process in started:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                stream.close()


def verdict_of(pid: int, *denied: str) -> Verdict:
    looker = Looker(pid, kernel=Kernel(denied=frozenset(denied)))
    return judge(*observe(looker, seconds=0.5))


def settled(pid: int, name: str | None, *denied: str, is_still: bool = False) -> Verdict:
    """The verdict once the command has got where it is going: looked at until it is `name` (any: None), at most 60 s.

    `is_still`: and until nothing of it moves, for a command that has just started up.
    """
    end = time.monotonic() + 60
    while time.monotonic() < end:
        verdict = verdict_of(pid, *denied)
        if name in (None, verdict.name) and not (is_still and verdict.progress):
            break
    return verdict


def test_a_pipe_that_waits_for_a_sleeper_sleeps(start: Start) -> None:
    command = start("sh", "-c", "sleep 60 | cat")
    verdict = settled(command.pid, "sleeping", is_still=True)
    assert (verdict.name, verdict.group, verdict.confidence) == ("sleeping", "waiting", "measured")
    assert verdict.leaf is not None
    assert verdict.leaf.program == "sleep"
    assert "60 s" in verdict.evidence[0]
    assert verdict.alive
    assert not verdict.progress


def test_a_loop_computes_and_makes_progress(start: Start) -> None:
    command = start("sh", "-c", f"{sys.executable} -c 'while 1: pass' | tail -200")
    verdict = settled(command.pid, "computing", "cpu_starved")
    assert verdict.progress
    assert verdict.name in ("computing", "cpu_starved")  # the latter is as true on a machine that others load


def test_a_reader_of_stdin_waits_for_input(start: Start) -> None:
    command = start("cat", stdin=subprocess.PIPE)
    verdict = settled(command.pid, "awaiting_input")
    assert (verdict.name, verdict.group) == ("awaiting_input", "needs_someone")


def test_a_lock_taken_twice_may_be_hung(start: Start) -> None:
    command = start(sys.executable, "-c", "import threading as t; l=t.Lock(); l.acquire(); l.acquire()")
    verdict = settled(command.pid, "deadlock_suspected")
    assert (verdict.name, verdict.group) == ("deadlock_suspected", "may_be_hung")


def test_a_stopped_command_is_stopped_and_says_by_which_signal(start: Start) -> None:
    command = start("sleep", "60")
    os.kill(command.pid, signal.SIGSTOP)
    verdict = settled(command.pid, "stopped")
    assert verdict.name == "stopped"
    assert "SIGSTOP" in verdict.evidence[0]


def test_a_server_listens(start: Start) -> None:
    program = "import socket; s=socket.create_server(('127.0.0.1', 0)); s.accept()"
    verdict = settled(start(sys.executable, "-c", program).pid, "listening")
    assert (verdict.name, verdict.group) == ("listening", "waiting")
    assert "127.0.0.1:" in verdict.evidence[0]


def test_a_client_of_a_silent_server_waits_for_the_network(start: Start) -> None:
    program = (
        "import socket; s=socket.create_server(('127.0.0.1', 0)); "
        "c=socket.create_connection(s.getsockname()); c.recv(1)"
    )
    verdict = settled(start(sys.executable, "-c", program).pid, "network_wait")
    assert (verdict.name, verdict.confidence) == ("network_wait", "measured")
    assert "last data in" in verdict.evidence[0]


def test_a_command_that_has_gone_is_no_hang() -> None:
    process = subprocess.Popen(["true"])
    process.wait()
    verdict = verdict_of(process.pid)
    assert (verdict.name, verdict.alive) == ("unknown", False)


@pytest.mark.parametrize(
    "kernel", [Kernel("/nonexistent"), Kernel(denied=frozenset({"stat"}))], ids=["no proc", "hidden"]
)
def test_a_command_that_proc_does_not_show_lives_and_is_unknown(start: Start, kernel: Kernel) -> None:
    looker = Looker(start("sleep", "60").pid, kernel=kernel)
    verdict = judge(*observe(looker, seconds=0.1))
    assert (verdict.name, verdict.confidence, verdict.alive) == ("unknown", "unknown", True)
    assert "hidepid" in verdict.unseen[0]


@pytest.mark.parametrize("denied", [("syscall", "mem"), ("syscall", "mem", "wchan", "netlink", "fdinfo")])
def test_less_evidence_never_makes_a_hang(start: Start, denied: tuple[str, ...]) -> None:
    for argv in (
        ["sleep", "60"],
        [sys.executable, "-c", "import threading as t; l=t.Lock(); l.acquire(); l.acquire()"],
    ):
        verdict = settled(start(*argv).pid, None, *denied, is_still=True)
        assert verdict.group != "may_be_hung"
        assert verdict.unseen
