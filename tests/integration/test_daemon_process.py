"""The daemon as a real process: started, raced, detached, activated, idle, told to end."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from supervised import alive, until

from sidecar import rendezvous
from sidecar.core.errors import DaemonUnavailable
from sidecar.daemon import client, listening

ROOT = str(Path(__file__).parents[2])
SIDECAR = [
    sys.executable,
    "-c",
    f"import sys; sys.path.insert(0, {ROOT!r}); from sidecar.launch import main; sys.exit(main())",
]
WAIT_S = 60.0
# The daemon's own clock, which ends it after two seconds with status 1, is put off: on a busy machine an orderly end
# may take longer, and shall be seen as one. That the clock works is a test of its own.
PATIENT = [
    sys.executable,
    "-c",
    f"import sys; sys.path.insert(0, {ROOT!r}); from sidecar.daemon import life; life.EXIT_WITHIN_S = {10 * WAIT_S}; "
    "from sidecar.launch import main; sys.exit(main())",
]


@pytest.fixture
def path(tmp_path: Path) -> Iterator[str]:
    tmp_path.chmod(0o700)
    path = str(tmp_path / "s.sock")
    yield path
    with contextlib.suppress(DaemonUnavailable):
        list(client.request(path, "stop"))


def environ(**more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SIDECAR_", "OTEL_", "XDG_"))}
    return {**kept, "SIDECAR_CONFIG": os.devnull, "OTEL_SDK_DISABLED": "true", **more}


def sidecar(*words: str, **more: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [*SIDECAR, "daemon", *words], env=environ(**more), capture_output=True, text=True, timeout=WAIT_S
    )


@contextlib.contextmanager
def running(*words: str, **options: Any) -> Iterator["subprocess.Popen[str]"]:
    """`sidecar daemon run WORDS`, ended by its pid if it is still there at the end."""
    child = subprocess.Popen(
        [*PATIENT, "daemon", "run", *words],
        env=environ(),
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )
    try:
        yield child
    finally:
        child.kill()
        child.communicate()


def answering(path: str) -> dict[str, Any]:
    """Its status, once a daemon that was only just started has its socket."""
    deadline = time.monotonic() + WAIT_S
    while True:
        try:
            return client.status(path)
        except DaemonUnavailable:
            assert time.monotonic() < deadline
            time.sleep(0.01)


def frames(command_id: str, *, ends: bool = True) -> bytes:
    identity = {
        "traceId": "a" * 32,
        "spanId": "b" * 16,
        "traceFlags": "01",
        "supervisorPid": 1,
        "pid": 2,
        "program": "make",
        "heartbeatIntervalMs": 10_000,
        "io": "pipe",
        "startUnixMs": 0,
        "startMonotonicMs": 0,
    }
    counts = dict.fromkeys(
        ("elapsedMs", "totalBytes", "totalLines", "heartbeatCount", "longestSilenceMs", "descendantsLeft"), 0
    )
    lines = [{"v": 1, "type": "command_started", "commandId": command_id, "seq": 0, **identity}]
    if ends:
        end = {"type": "command_settled", "reason": "exited"}
        lines.append({"v": 1, "commandId": command_id, "seq": 1, **end, **counts})
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def connected(path: str) -> socket.socket:
    sock = socket.socket(fileno=rendezvous.connect(path, nonblocking=False).detach())
    sock.settimeout(WAIT_S)
    return sock


# --- starting ----------------------------------------------------------------------------------------------


def test_start_status_stop(path: str) -> None:
    status = sidecar("status", "--socket", path)
    assert (status.returncode, status.stdout) == (3, f"no daemon is running on {path}\n")
    assert sidecar("stop", "--socket", path).returncode == 3

    first = sidecar("start", "--socket", path)
    pid = client.status(path)["pid"]
    assert (first.returncode, first.stdout) == (0, f"started, pid {pid}, on {path}\n")
    again = sidecar("start", "--socket", path)
    assert (again.returncode, again.stdout) == (0, f"already running, pid {pid}, on {path}\n")
    beside = sidecar("run", "--socket", path)
    assert (beside.returncode, beside.stderr) == (125, f"sidecar: already running, pid {pid}, on {path}\n")

    assert f"running, pid {pid}" in sidecar("status", "--socket", path).stdout
    as_json = json.loads(sidecar("status", "--socket", path, "--json").stdout)
    assert (as_json["pid"], as_json["running"]) == (pid, True)
    stop = sidecar("stop", "--socket", path)
    assert (stop.returncode, stop.stdout) == (0, f"stopped, pid {pid}\n")
    assert not os.path.exists(path)
    assert not alive(pid)


def test_five_times_two_daemons_race_and_one_wins(path: str) -> None:
    for _ in range(5):
        with running("--socket", path) as one, running("--socket", path) as two:
            pid = answering(path)["pid"]
            winner, loser = (one, two) if pid == one.pid else (two, one)
            assert winner.pid == pid
            assert loser.wait(WAIT_S) == 125
            assert loser.stderr is not None
            assert loser.stderr.read() == f"sidecar: already running, pid {pid}, on {path}\n"
            assert client.status(path)["pid"] == pid
            list(client.request(path, "stop"))
            assert winner.wait(WAIT_S) == 0


def test_starts_that_race_all_report_the_same_daemon(path: str) -> None:
    argv = [*SIDECAR, "daemon", "start", "--socket", path]
    children = [subprocess.Popen(argv, env=environ(), stdout=subprocess.PIPE, text=True) for _ in range(4)]
    said = [child.communicate(timeout=WAIT_S)[0] for child in children]
    pid = client.status(path)["pid"]
    assert [child.returncode for child in children] == [0] * 4
    assert sorted(said) == [f"already running, pid {pid}, on {path}\n"] * 3 + [f"started, pid {pid}, on {path}\n"]


def test_a_killed_daemon_leaves_nothing_in_the_way(path: str) -> None:
    with running("--socket", path) as child:
        answering(path)
        child.kill()
        child.wait(WAIT_S)
    assert os.path.exists(path)
    with running("--socket", path) as child:
        assert answering(path)["pid"] == child.pid


def test_a_path_longer_than_the_kernel_allows(path: str) -> None:
    path = f"{path}-{'d' * 80}/{'s' * 60}"
    assert len(path) > 107
    assert sidecar("start", "--socket", path).returncode == 0
    assert client.status(path)["socket"] == path
    assert sidecar("stop", "--socket", path).returncode == 0


def test_what_is_wrong_is_one_line(path: str) -> None:
    os.chmod(os.path.dirname(path), 0o777)
    for verb in ("run", "start"):
        result = sidecar(verb, "--socket", path)
        assert result.returncode == 125
        assert result.stderr.startswith("sidecar: others may write to the socket folder")
        assert result.stderr.count("\n") == 1
    os.chmod(os.path.dirname(path), 0o700)
    unwritable = sidecar("run", "--socket", path, "--daemon-log", "/nowhere/at/all")
    assert (unwritable.returncode, unwritable.stderr.count("\n")) == (125, 1)


# --- detached ----------------------------------------------------------------------------------------------


@pytest.mark.skipif(sys.platform != "linux", reason="SCHED_BATCH is of Linux")
def test_what_wakes_the_daemon_is_not_interrupted_by_it(path: str) -> None:
    sidecar("start", "--socket", path)
    pid = answering(path)["pid"]
    assert os.sched_getscheduler(pid) & ~os.SCHED_RESET_ON_FORK == os.SCHED_BATCH
    assert os.getpriority(os.PRIO_PROCESS, pid) == os.getpriority(os.PRIO_PROCESS, 0)


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_a_detached_daemon_has_nothing_of_its_caller(path: str, tmp_path: Path) -> None:
    log_path = str(tmp_path / "daemon.log")
    leak = os.open(tmp_path, os.O_RDONLY)
    try:
        started = subprocess.run(
            [*SIDECAR, "daemon", "start", "--socket", path, "--daemon-log", log_path],
            env=environ(SECRET_KEY="x", SIDECAR_TOOL_CALL_ID="call_1", SIDECAR_DAEMON_ENVIRONMENT="KEPT", KEPT="y"),
            pass_fds=(leak,),
            cwd=tmp_path,
            timeout=WAIT_S,
        )
    finally:
        os.close(leak)
    assert started.returncode == 0
    pid = client.status(path)["pid"]
    assert os.getsid(pid) != os.getsid(0)
    assert os.getpgid(pid) != os.getpgid(0)
    assert os.readlink(f"/proc/{pid}/cwd") == "/"
    names = {entry.partition(b"=")[0] for entry in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0") if entry}
    assert b"KEPT" in names
    assert not {b"SECRET_KEY", b"SIDECAR_TOOL_CALL_ID", b"PYTHONPATH"} & names

    def open_files() -> dict[str, str]:
        found = {}
        for fd in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(FileNotFoundError):  # closed meanwhile
                found[fd] = os.readlink(f"/proc/{pid}/fd/{fd}")
        return found

    def others() -> list[str]:
        return sorted(target.partition(":")[0] for fd, target in open_files().items() if int(fd) > 3)

    # The log, and what asyncio needs for its loop; the status connection may still be there. Once all is loaded.
    until(lambda: set(others()) <= {log_path, "anon_inode", "socket"} and len(others()) <= 5)
    targets = open_files()
    assert [targets[fd] for fd in "012"] == ["/dev/null"] * 3
    assert targets["3"].startswith("socket:")
    status = Path(f"/proc/{pid}/status").read_text()
    assert "Umask:\t0077" in status
    assert "SigBlk:\t0000000000000000" in status
    assert f"daemon {pid} serves" in Path(log_path).read_text()
    assert os.stat(log_path).st_mode & 0o777 == 0o600


# --- activation --------------------------------------------------------------------------------------------


AS_DESCRIPTOR_3 = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.environ["LISTEN_PID"] = str(os.getpid())
os.execv(sys.argv[2], sys.argv[2:])
"""


def activated(listener: socket.socket, *words: str, **more: str) -> "subprocess.Popen[bytes]":
    """`sidecar daemon run WORDS` with the listening socket as descriptor 3."""
    return subprocess.Popen(
        [sys.executable, "-ISc", AS_DESCRIPTOR_3, str(listener.fileno()), *PATIENT, "daemon", "run", *words],
        env=environ(**more),
        stdin=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=(listener.fileno(),),
    )


def test_what_came_before_the_daemon_existed_is_read(path: str) -> None:
    with listening.bind(path).sock as listener:
        for number in range(20):
            with connected(path) as gone:
                gone.sendall(frames(str(number)))
        with connected(path) as here:
            here.sendall(frames("here", ends=False))
            child = activated(listener, "--socket-fd", "3", "--socket", path)
            listener.close()
            status = client.status(path, timeout_s=WAIT_S)
            assert status["pid"] == child.pid
            assert status["framesReceived"] == 41
            assert status["commands"] == 1
            assert os.readlink(f"/proc/{child.pid}/cwd") == "/"
    list(client.request(path, "stop"))
    assert child.wait(WAIT_S) == 0
    assert not os.path.exists(path)


def test_a_socket_of_systemd_outlives_the_daemon(path: str) -> None:
    with listening.bind(path).sock as listener:
        child = activated(listener, "--socket", path, LISTEN_FDS="1")
        assert client.status(path, timeout_s=WAIT_S)["pid"] == child.pid
        list(client.request(path, "stop"))
        assert child.wait(WAIT_S) == 0
        # systemd still listens: the next connection waits for the next daemon.
        connected(path).close()


# --- ending ------------------------------------------------------------------------------------------------


def test_an_idle_daemon_ends(path: str) -> None:
    # Its first subscriber is there before it: a busy machine may take any time between the two.
    with listening.bind(path).sock as listener, client.subscribe(path) as told:
        child = activated(listener, "--socket-fd", "3", "--socket", path, "--daemon-idle-timeout", "300ms")
        listener.close()
        with connected(path) as producer:
            assert told.next_within(WAIT_S) == {"type": "snapshot", "commands": 0}
            producer.sendall(frames("c", ends=False))
            assert told.next_within(WAIT_S) is not None
            with pytest.raises(subprocess.TimeoutExpired):
                child.wait(0.8)
    # Now it has lost its subscriber, and after the grace its command.
    assert child.wait(WAIT_S) == 0
    assert not os.path.exists(path)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it(path: str, number: signal.Signals) -> None:
    with running("--socket", path) as child:
        answering(path)
        with client.subscribe(path) as told, connected(path) as producer:
            producer.sendall(frames("c", ends=False))
            assert told.next_within(WAIT_S) is not None
            assert told.next_within(WAIT_S) is not None
            child.send_signal(number)
            assert child.wait(WAIT_S) == 0
            # It runs on: its supervisor finds the next daemon. Nobody was told that it was lost.
            assert told.next_within(WAIT_S) is None
    assert not os.path.exists(path)


HANGING = """
import sys, threading, time
sys.path.insert(0, {root!r})
from sidecar.daemon import life
from sidecar.daemon.sink import NullSink

class Hanging(NullSink):
    def shutdown(self, budget_s):
        time.sleep(60)
    def loop_alive(self):
        if {stuck!r}:
            time.sleep(60)

settings = life.DaemonSettings(socket_path={path!r})
life.serve(life.acquire(settings, None), settings, Hanging)
"""


@pytest.mark.parametrize("stuck", [False, True], ids=["flush hangs", "loop is stuck"])
def test_a_hanging_exporter_does_not_hold_the_exit(path: str, stuck: bool) -> None:
    code = HANGING.format(root=ROOT, path=path, stuck=stuck)
    child = subprocess.Popen([sys.executable, "-c", code], env=environ())
    try:
        if stuck:
            while not os.path.exists(path):
                time.sleep(0.01)
            connected(path).close()
            time.sleep(0.3)  # until it is in its first call; nothing tells
        else:
            answering(path)
        sent = time.monotonic()
        child.terminate()
        child.wait(WAIT_S)
        assert time.monotonic() - sent < 20.0, "it hangs for a minute"
    finally:
        child.kill()
        child.wait()


UNREACHABLE = """
import sys
sys.path.insert(0, {root!r})
from sidecar.daemon import life

life._REACHABLE_CHECK_NS = 0
settings = life.DaemonSettings(socket_path={path!r})
life.serve(life.acquire(settings, None), settings)
"""


def test_a_daemon_whose_socket_was_removed_ends_once_nothing_runs(path: str) -> None:
    child = subprocess.Popen([sys.executable, "-c", UNREACHABLE.format(root=ROOT, path=path)], env=environ())
    try:
        answering(path)
        with connected(path) as producer, client.subscribe(path) as told:
            producer.sendall(frames("c", ends=False))
            assert told.next_within(WAIT_S) is not None
            assert told.next_within(WAIT_S) is not None
            os.unlink(path)
            with pytest.raises(subprocess.TimeoutExpired):
                child.wait(1.5)
            with listening.bind(path).sock:  # another may take the place meanwhile; its file stays
                producer.close()
                assert child.wait(WAIT_S) == 0
                assert os.path.exists(path)
    finally:
        child.kill()
        child.wait()
