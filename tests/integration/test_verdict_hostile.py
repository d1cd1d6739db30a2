"""Trees that change while they are looked at: forks, execs, changed users, hostile names. No crash, no wrong hang."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from collectors import Kernel, Looker, observe
from sidecar.core.rules.movement import measure
from sidecar.core.verdict import judge

STORM = """
import ctypes, os, random, threading, time
libc = ctypes.CDLL(None)
names = [b"a) R 1 (b", b"x\\ny) S", b"))))", b"((((", b"\\xff\\xfe", b"", b" ", b"sh) Z 0 0 0"]
def rename(): libc.prctl(15, random.choice(names), 0, 0, 0)
def child(depth):
    random.seed(os.getpid())  # else all do the same
    rename()
    what = random.random()
    if what < .3: os.execv("/bin/true", ["true"])
    if what < .4 and os.geteuid() == 0: os.setresuid(65534, 65534, 65534)
    if what < .6 and depth: spawn(depth - 1)
    if what < .7: os.setsid()
    if what < .8: threading.Thread(target=time.sleep, args=(.02,)).start()
    time.sleep(random.random() / 50)
    os._exit(0)
def spawn(depth):
    for _ in range(3):
        if os.fork() == 0: child(depth)
rename()
print("storm", flush=True)
while True:
    spawn(2)
    try:
        while os.waitpid(-1, os.WNOHANG)[0]: pass
    except ChildProcessError: pass
    time.sleep(.005)
"""


@pytest.fixture
def storm() -> "Iterator[subprocess.Popen[bytes]]":
    process = subprocess.Popen([sys.executable, "-c", STORM], stdout=subprocess.PIPE, start_new_session=True)
    assert process.stdout is not None
    process.stdout.readline()
    yield process
    # Its children are in sessions of their own for a moment, and end by themselves.
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()


def test_a_storm_of_processes_is_never_a_hang(storm: "subprocess.Popen[bytes]") -> None:
    lookers = [
        Looker(storm.pid),
        Looker(storm.pid, kernel=Kernel(denied=frozenset({"syscall", "mem"}))),
        Looker(storm.pid, kernel=Kernel(denied=frozenset({"children", "schedstat", "fd", "wchan", "syscall"}))),
    ]
    for number in range(12):
        verdict = judge(*observe(lookers[number % 3], seconds=0.4, samples=4))
        assert verdict.group != "may_be_hung", verdict
        assert verdict.alive
        assert verdict.progress


def test_a_reused_pid_is_another_process() -> None:
    """Two commands that take turns under one pid cannot be staged; two looks at different ones with one pid can."""
    first = subprocess.Popen(["sleep", "60"])
    second = subprocess.Popen(["sleep", "60"])
    try:
        before, after = Looker(first.pid).look(), Looker(second.pid).look()
        process = after.processes.pop(second.pid)
        process.pid = first.pid
        process.started_ticks += 1
        after.processes[first.pid] = process
        movement = measure(before, after)
        assert movement.born == movement.gone == {first.pid}
        assert judge(before, after).group != "may_be_hung"
    finally:
        for one in (first, second):
            one.kill()
            one.wait()
