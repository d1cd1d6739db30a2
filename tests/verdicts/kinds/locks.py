"""Locks, FIFOs, and other processes' answers."""

from __future__ import annotations

import os

from tests.verdicts.scenario import scenario
from tests.verdicts.stage import Stage


def _held(stage: Stage, kind: str) -> None:
    holder = stage.helper(*stage.python("hold_lock.py", kind, stage.scratch / "lock"))
    holder.expect("held")


@scenario("lock_wait", needs=["flock"])
def lock_flock(stage: Stage) -> None:
    _held(stage, "flock")
    stage.run("flock", "lock", "true")
    stage.rest()


@scenario("lock_wait", needs=["flock"])
def lock_flock_below_a_shell(stage: Stage) -> None:
    _held(stage, "flock")
    stage.run("sh", "-c", "flock lock echo got it | cat; true")
    stage.member("flock")
    stage.rest()


@scenario("lock_wait", needs=["flock"])
def lock_flock_with_a_timeout(stage: Stage) -> None:
    _held(stage, "flock")
    stage.run("flock", "-w", "300", "lock", "true")
    stage.rest()


@scenario("lock_wait", "sleeping", needs=["flock"])
def lock_held_by_a_sibling(stage: Stage) -> None:
    # The holder is of the tree, and sleeps.
    stage.run("sh", "-c", "flock lock sleep 300 & while [ ! -e lock ]; do :; done; sleep 0.3; exec flock lock true")
    stage.member("sleep")
    stage.until(lambda: _name(stage.pid) == "flock", "does not become flock")
    stage.rest()


def _name(pid: int) -> str:
    with open(f"/proc/{pid}/comm") as file:
        return file.read().strip()


@scenario("lock_wait")
def lock_fcntl(stage: Stage) -> None:
    _held(stage, "fcntl")
    stage.run(*stage.python("import fcntl; fcntl.lockf(open('lock', 'r+'), fcntl.LOCK_EX)"))
    stage.rest()


@scenario("lock_wait")
def lock_ofd(stage: Stage) -> None:
    # An open file description's lock has no process in /proc/locks.
    _held(stage, "ofd")
    stage.run(
        *stage.python(
            "import fcntl, struct; fcntl.fcntl(open('lock', 'r+'), 38, struct.pack('hhqqi4x', "
            "fcntl.F_WRLCK, 0, 0, 0, 0))"
        )
    )
    stage.rest()


@scenario("lock_wait", "polling")
def lock_sqlite_with_patience(stage: Stage) -> None:
    # It tries again and again, with sleeps: both are true.
    _held(stage, "sqlite")
    stage.run(*stage.python("import sqlite3; sqlite3.connect('lock', timeout=300).execute('insert into t values (1)')"))
    stage.rest(0)
    stage.until(
        lambda: any("lock" in os.path.basename(target) for target in _files(stage.pid)), "has not opened the base"
    )


def _files(pid: int) -> list[str]:
    found = []
    for name in os.listdir(f"/proc/{pid}/fd"):
        try:
            found.append(os.readlink(f"/proc/{pid}/fd/{name}"))
        except OSError:
            continue
    return found


@scenario("lock_wait", needs=["sqlite3"])
def lock_in_python_with_flock_in_a_thread(stage: Stage) -> None:
    _held(stage, "flock")
    stage.run(
        *stage.python(
            "import fcntl, threading\ndef take(): fcntl.flock(open('lock'), fcntl.LOCK_EX)\n"
            "t = threading.Thread(target=take); t.start(); t.join()"
        )
    )
    stage.rest()


@scenario("fifo_wait")
def fifo_without_a_writer(stage: Stage) -> None:
    os.mkfifo(stage.scratch / "fifo")
    os.chmod(stage.scratch / "fifo", 0o666)
    stage.run("cat", "fifo")
    stage.rest()


@scenario("fifo_wait")
def fifo_without_a_reader(stage: Stage) -> None:
    os.mkfifo(stage.scratch / "fifo")
    os.chmod(stage.scratch / "fifo", 0o666)
    stage.run("sh", "-c", "echo x > fifo")
    stage.rest()


@scenario("fifo_wait")
def fifo_in_python_below_a_shell(stage: Stage) -> None:
    os.mkfifo(stage.scratch / "fifo")
    os.chmod(stage.scratch / "fifo", 0o666)
    stage.run("sh", "-c", '"$@" | cat', "sh", *stage.python("open('fifo').read()"))
    stage.member("cat")
    stage.rest()


@scenario("pipe_wait")
def pipe_from_a_process_outside(stage: Stage) -> None:
    os.mkfifo(stage.scratch / "fifo")
    os.chmod(stage.scratch / "fifo", 0o666)
    writer = stage.helper("sh", "-c", "exec 3<>fifo; echo open; exec sleep 300")
    writer.expect("open")
    stage.run("cat", "fifo")
    stage.rest()


@scenario("ipc_wait")
def unix_socket_of_a_daemon(stage: Stage) -> None:
    path = str(stage.scratch / "socket")
    peer = stage.helper(*stage.python("peer.py", "unix", path))
    peer.expect("port")
    stage.run(
        *stage.python("import socket, sys; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); s.recv(1)", path)
    )
    peer.expect("accepted")
    stage.rest()


@scenario("sleeping")
def unix_socket_of_a_sleeping_child(stage: Stage) -> None:
    code = (
        "import os, socket, time\na, b = socket.socketpair()\n"
        "if os.fork() == 0: a.close(); time.sleep(300)\nb.close(); a.recv(1)"
    )
    stage.run(*stage.python(code))
    stage.until(lambda: len(stage.tree()) == 2, "no child")
    stage.rest()


@scenario("ipc_wait", needs=["gcc", "ipcrm"])
def semaphore_of_system_v(stage: Stage) -> None:
    _system_v(stage, "semop", "-s")


@scenario("ipc_wait", needs=["gcc", "ipcrm"])
def message_queue_of_system_v(stage: Stage) -> None:
    _system_v(stage, "msgrcv", "-q")


def _system_v(stage: Stage, mode: str, option: str) -> None:
    stage.run(stage.program("waits"), mode)
    number = stage.expect("ready").split()[1]
    stage.later(lambda: stage.helper("ipcrm", option, number).process.wait(10))
    stage.rest()


@scenario("ipc_wait", needs=["gcc"])
def message_queue_of_posix(stage: Stage) -> None:
    stage.run(stage.program("waits"), "mq", f"/{stage.scratch.name}")
    stage.expect("ready")
    stage.rest()


@scenario("child_wait")
def pidfd_of_a_process_outside(stage: Stage) -> None:
    other = stage.helper("sleep", "300")
    stage.run(
        *stage.python("import os, select, sys; select.select([os.pidfd_open(int(sys.argv[1]))], [], [])", other.pid)
    )
    stage.rest()


@scenario("signal_wait", needs=["gcc"])
def signal_pause(stage: Stage) -> None:
    _until_ready(stage, "pause")


@scenario("signal_wait", needs=["gcc"])
def signal_sigwait(stage: Stage) -> None:
    _until_ready(stage, "sigwait")


@scenario("signal_wait", needs=["gcc"])
def signal_sigsuspend(stage: Stage) -> None:
    _until_ready(stage, "sigsuspend")


@scenario("signal_wait")
def signal_pause_in_python(stage: Stage) -> None:
    stage.run(*stage.python("import signal; signal.pause()"))
    stage.rest()


@scenario("traced", "signal_wait", needs=["gcc"])
def traced_by_its_parent(stage: Stage) -> None:
    _until_ready(stage, "traced")


@scenario("sleeping", "traced", needs=["strace"])
def traced_sleep(stage: Stage) -> None:
    stage.run("strace", "-o", "trace", "sleep", "300")
    stage.member("sleep")
    stage.until(lambda: "clock_nanosleep" in (stage.scratch / "trace").read_text(), "strace does not see the sleep")
    stage.rest()


@scenario("sleeping", "traced", needs=["gdb"])
def traced_by_a_debugger_and_running(stage: Stage) -> None:
    stage.run("gdb", "-q", "-nx", "-batch", "-ex", "run", "--args", "sleep", "300", env={"DEBUGINFOD_URLS": ""})
    stage.member("sleep")
    stage.rest()


@scenario("computing", needs=["strace"])
def traced_computation(stage: Stage) -> None:
    stage.run("strace", "-f", "-o", "/dev/null", "sh", "-c", "while :; do :; done")
    stage.member("sh")
    stage.busy()


def _until_ready(stage: Stage, mode: str) -> None:
    stage.run(stage.program("waits"), mode)
    stage.expect("ready")
    stage.rest()
