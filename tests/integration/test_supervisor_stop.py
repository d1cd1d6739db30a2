"""Signals to the supervisor, deadlines, and an agent that kills: what of the tree is left, and how often it heard."""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from supervised import WAIT_S, Installation, alive, on_linux, pid_in, state_of, until

pytestmark = on_linux
COUNTING = (
    "import os, signal, sys\n"
    "def heard(number, _):\n"
    "    os.write(1, b'got %d\\n' % number)\n"
    "    if number == signal.SIGTERM: sys.exit(7)\n"
    "for number in (1, 2, 10, 12, 15): signal.signal(number, heard)\n"
    "os.write(1, b'ready\\n')\n"
    "while True: signal.pause()\n"
)


def first_line(child: "subprocess.Popen[bytes]") -> bytes:
    assert child.stdout is not None
    return child.stdout.readline()


def test_a_timeout_terminates_then_kills_the_whole_tree(sidecar: Installation, tmp_path: Path) -> None:
    script = (
        f"trap '' TERM; (trap '' TERM; while :; do sleep .1; done) & echo $! >{tmp_path}/child;"
        f"setsid bash -c 'trap \"\" TERM; echo $$ >{tmp_path}/away; while :; do sleep .1; done' & "
        "trap 'echo heard' TERM; echo ready; while :; do sleep .1; done"
    )
    begin_s = time.monotonic()
    ended = sidecar.run("bash", "-c", script, flags=("--timeout", "2s", "--kill-after", "1s"))
    assert 3 <= time.monotonic() - begin_s < 15
    assert (ended.status, ended.stdout) == (124, b"ready\nheard\n")
    assert not alive(pid_in(tmp_path / "child"))
    assert not alive(pid_in(tmp_path / "away"))


def test_a_timeout_of_one_that_obeys_does_not_wait_for_the_kill(sidecar: Installation) -> None:
    begin_s = time.monotonic()
    assert sidecar.run("sleep", "30", flags=("--timeout", "300ms", "--kill-after", "30s")).status == 124
    assert time.monotonic() - begin_s < 15


def test_a_timeout_reaches_one_that_is_stopped(sidecar: Installation) -> None:
    begin_s = time.monotonic()
    ended = sidecar.run("bash", "-c", "kill -STOP $$", flags=("--timeout", "300ms", "--kill-after", "30s"))
    assert ended.status == 124
    assert time.monotonic() - begin_s < 15


def test_a_command_that_is_in_time_has_its_own_status(sidecar: Installation) -> None:
    assert sidecar.run("sh", "-c", "exit 3", flags=("--timeout", "20s")).status == 3


@pytest.mark.parametrize("detached", ["", "setsid "])
def test_term_to_the_supervisor_leaves_nothing(sidecar: Installation, detached: str, tmp_path: Path) -> None:
    with sidecar.started("bash", "-c", f"{detached}sleep 60 & echo $! >{tmp_path}/pid; wait") as child:
        other = pid_in(tmp_path / "pid")
        os.kill(child.pid, signal.SIGTERM)
        assert child.wait(WAIT_S) == -signal.SIGTERM
        assert not alive(other)


@pytest.mark.parametrize("name", ["USR1", "USR2", "HUP", "TERM", "INT"])
def test_a_signal_to_the_supervisor_reaches_the_command_once(sidecar: Installation, name: str) -> None:
    script = f"trap 'echo got-{name}' {name}; echo ready; for i in 1 2 3 4; do sleep .2; done; exit 5"
    with sidecar.started("bash", "-c", script) as child:
        assert first_line(child) == b"ready\n"
        os.kill(child.pid, getattr(signal, f"SIG{name}"))
        assert child.stdout is not None
        assert child.stdout.read() == f"got-{name}\n".encode()
        assert child.wait(WAIT_S) == 5


def test_a_signal_that_ends_the_command_ends_the_supervisor_likewise(sidecar: Installation) -> None:
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGUSR1, signal.SIGRTMIN + 2):
        with sidecar.started("sh", "-c", "echo ready; exec sleep 30") as child:
            assert first_line(child) == b"ready\n"
            os.kill(child.pid, number)
            assert child.wait(WAIT_S) == -number


def test_the_commands_own_clean_up_finishes_within_the_grace(sidecar: Installation) -> None:
    script = "trap 'sleep .5; echo cleaned; exit 7' TERM; echo ready; while :; do sleep .05; done"
    with sidecar.started("bash", "-c", script) as child:
        assert first_line(child) == b"ready\n"
        os.kill(child.pid, signal.SIGTERM)
        # An agent that says it twice must not take the clean-up's time away.
        time.sleep(0.2)
        os.kill(child.pid, signal.SIGTERM)
        assert child.stdout is not None
        assert child.stdout.read() == b"cleaned\n"
        assert child.wait(WAIT_S) == 7


@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGINT, signal.SIGHUP])
def test_a_signal_to_the_group_reaches_the_command_once(sidecar: Installation, number: int) -> None:
    with sidecar.started("python3", "-c", COUNTING) as child:
        assert first_line(child) == b"ready\n"
        _wait_for_canary(child.pid)
        for _ in range(3):
            os.killpg(child.pid, number)
            assert first_line(child) == b"got %d\n" % number
            # ... and one to the pid between them is forwarded.
            os.kill(child.pid, signal.SIGUSR2)
            assert first_line(child) == b"got %d\n" % signal.SIGUSR2
            _wait_for_canary(child.pid)
        os.kill(child.pid, signal.SIGTERM)
        assert first_line(child) == b"got 15\n"
        assert child.wait(WAIT_S) == 7
        assert first_line(child) == b""


def test_term_to_the_group_reaches_each_member_once(sidecar: Installation, tmp_path: Path) -> None:
    away = "import os, signal; signal.signal(15, lambda *_: (os.write(1, b'away\\n'), os._exit(0)))"
    script = (
        f"setsid python3 -c \"{away}; open('{tmp_path}/pid', 'w').write(str(os.getpid())); signal.pause()\" & "
        "trap 'echo heard; n=1' TERM; echo ready; while [ -z \"$n\" ]; do sleep .05; done; sleep .3; wait; exit 6"
    )
    with sidecar.started("bash", "-c", script) as child:
        assert first_line(child) == b"ready\n"
        pid_in(tmp_path / "pid")
        _wait_for_canary(child.pid)
        os.killpg(child.pid, signal.SIGTERM)
        assert child.stdout is not None
        assert sorted(child.stdout.read().split()) == [b"away", b"heard"]
        assert child.wait(WAIT_S) == 6


def test_the_canary_is_gone_at_the_end_and_counts_for_nothing(sidecar: Installation) -> None:
    with sidecar.started("sh", "-c", "echo ready; read x; exit 3", stdin=subprocess.PIPE) as child:
        assert first_line(child) == b"ready\n"
        canary = _wait_for_canary(child.pid)
        assert os.listdir(f"/proc/{canary}/fd") == []
        assert child.stdin is not None
        child.stdin.close()
        assert child.wait(WAIT_S) == 3
        assert not alive(canary)


def test_kill_of_the_supervisor_kills_the_command(sidecar: Installation, tmp_path: Path) -> None:
    with sidecar.started("sh", "-c", f"echo $$ >{tmp_path}/pid; exec sleep 60") as child:
        command = pid_in(tmp_path / "pid")
        canary = _wait_for_canary(child.pid)
        os.kill(child.pid, signal.SIGKILL)
        assert child.wait(WAIT_S) == -signal.SIGKILL
        until(lambda: not alive(command) and not alive(canary))


def test_kill_of_the_group_kills_all(sidecar: Installation, tmp_path: Path) -> None:
    with sidecar.started("bash", "-c", f"echo $$ >{tmp_path}/pid; sleep 60; :") as child:
        command = pid_in(tmp_path / "pid")
        os.killpg(child.pid, signal.SIGKILL)
        child.wait(WAIT_S)
        until(lambda: not alive(command))


def test_a_stopped_and_continued_supervisor_loses_nothing(sidecar: Installation) -> None:
    with sidecar.started("sh", "-c", "echo ready; read x; head -c 200000 /dev/zero", stdin=subprocess.PIPE) as child:
        assert first_line(child) == b"ready\n"
        os.kill(child.pid, signal.SIGSTOP)
        until(lambda: state_of(child.pid) == "T")
        assert child.stdin is not None
        child.stdin.write(b"\n")
        child.stdin.close()
        os.kill(child.pid, signal.SIGCONT)
        assert child.stdout is not None
        assert len(child.stdout.read()) == 200000
        assert child.wait(WAIT_S) == 0


def test_a_job_control_stop_stops_both_and_continues_both(sidecar: Installation, tmp_path: Path) -> None:
    # Not a session's leader: the kernel does not stop an orphaned process group by SIGTSTP.
    with sidecar.started(
        "sh", "-c", f"echo $$ >{tmp_path}/pid; echo ready; read x; exit 3",
        stdin=subprocess.PIPE, start_new_session=False, process_group=0,
    ) as child:  # fmt: skip
        command = pid_in(tmp_path / "pid")
        assert first_line(child) == b"ready\n"
        os.kill(child.pid, signal.SIGTSTP)
        until(lambda: state_of(child.pid) == "T" and state_of(command) == "T")
        os.killpg(child.pid, signal.SIGCONT)
        assert child.stdin is not None
        child.stdin.close()
        assert child.wait(WAIT_S) == 3


def test_an_ignored_term_stays_ignored(sidecar: Installation) -> None:
    with sidecar.started(
        "sh", "-c", "echo ready; sleep .5; exit 3", preexec_fn=lambda: signal.signal(signal.SIGTERM, signal.SIG_IGN)
    ) as child:
        assert first_line(child) == b"ready\n"
        os.kill(child.pid, signal.SIGTERM)
        assert child.wait(WAIT_S) == 3


def test_the_end_is_not_held_by_a_reader_that_sleeps_once_it_is_asked_for(sidecar: Installation) -> None:
    with sidecar.started("sh", "-c", "echo $$ >&2; exec head -c 130000 /dev/zero") as child:
        assert child.stderr is not None
        command = int(child.stderr.readline())
        until(lambda: not os.path.exists(f"/proc/{command}"))
        assert child.poll() is None
        os.kill(child.pid, signal.SIGINT)
        assert child.wait(WAIT_S) == 0


def _wait_for_canary(supervisor: int) -> int:
    """The pid of the process that blocks every signal, once it is there and nothing is pending in it."""

    def find() -> int:
        try:
            with open(f"/proc/{supervisor}/task/{supervisor}/children") as file:
                children = [int(word) for word in file.read().split()]
            for pid in children:
                with open(f"/proc/{pid}/status") as file:
                    fields = dict(line.split(":", 1) for line in file)
                blocked, pending = int(fields["SigBlk"], 16), int(fields["ShdPnd"], 16)
                if blocked >> 62 & 1 and blocked & 1 << 14 and not pending and not os.listdir(f"/proc/{pid}/fd"):
                    return pid
        except OSError:
            pass
        return 0

    return int(until(find))
