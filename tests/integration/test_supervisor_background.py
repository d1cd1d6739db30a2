"""A command that leaves something behind: its agent gets the end at once, and what is left lives on."""

import os
import signal
import time
from pathlib import Path

import pytest
from listening import FrameListener
from supervised import WAIT_S, Installation, alive, on_linux, pid_in, until

pytestmark = on_linux
PROMPT_S = 15.0  # who is left lives for 30 s or for ever, the grace is 0.1 s; the rest is room for a loaded machine
# Until it is what it is to be: a shell that was only forked has another name, and still has what it will give up.
LEFT = "until [ $(cat /proc/$!/comm) = sleep ]; do :; done"


@pytest.mark.parametrize("held", ["", ">/dev/null", "2>/dev/null"])
def test_the_end_does_not_wait_for_who_holds_the_pipe(sidecar: Installation, held: str, tmp_path: Path) -> None:
    begin_s = time.monotonic()
    ended = sidecar.run("bash", "-c", f"sleep 30 {held} & echo $! >{tmp_path}/pid; echo done; exit 3")
    assert time.monotonic() - begin_s < PROMPT_S
    assert ended == (3, b"done\n", b"")
    survivor = pid_in(tmp_path / "pid")
    assert alive(survivor)
    os.kill(survivor, signal.SIGKILL)


def test_one_that_goes_on_writing_does_not_renew_the_grace_and_lives_on(sidecar: Installation, tmp_path: Path) -> None:
    count = tmp_path / "count"
    writer = f"for ((i=0;;i++)); do echo tick || exit; echo $i >{count}; sleep .02; done"
    begin_s = time.monotonic()
    ended = sidecar.run("bash", "-c", f"{writer} & echo $! >{tmp_path}/pid; sleep .3; echo fg-done")
    assert time.monotonic() - begin_s < PROMPT_S
    assert ended.status == 0
    assert b"fg-done\n" in ended.stdout
    survivor = pid_in(tmp_path / "pid")
    try:
        # It writes into a pipe that somebody goes on reading: neither SIGPIPE nor a full pipe stops it.
        until(count.exists)
        seen = int(count.read_text() or 0)
        until(lambda: int(count.read_text() or 0) > seen + 10)
        assert alive(survivor)
    finally:
        os.kill(survivor, signal.SIGKILL)


def test_a_flood_from_behind_is_bounded_and_not_stopped(sidecar: Installation, tmp_path: Path) -> None:
    begin_s = time.monotonic()
    ended = sidecar.run("bash", "-c", f"yes & echo $! >{tmp_path}/pid; sleep .1; echo fg-done >&2")
    assert time.monotonic() - begin_s < PROMPT_S
    assert ended.stderr == b"fg-done\n"
    survivor = pid_in(tmp_path / "pid")
    try:
        assert alive(survivor)
        until(lambda: _cpu_ticks(survivor) > 20)
    finally:
        os.kill(survivor, signal.SIGKILL)


def test_who_reads_on_for_the_survivors_ends_with_them_and_holds_nothing(sidecar: Installation, tmp_path: Path) -> None:
    reader, writer = os.pipe()
    try:
        sidecar.run("bash", "-c", f"sleep 30 & echo $! >{tmp_path}/pid", stdout=writer, stderr=writer)
        survivor = pid_in(tmp_path / "pid")
        inode = os.stat(f"/proc/{survivor}/fd/1").st_ino

        def drainers() -> list[int]:
            return [pid for pid in _pids() if pid != survivor and inode in _pipes(pid)]

        (drainer,) = until(lambda: len(found := drainers()) == 1 and found)
        assert until(lambda: len(_open(drainer)) == 4)  # /dev/null three times, and the pipe
        assert os.readlink(f"/proc/{drainer}/cwd") == "/"
        os.kill(survivor, signal.SIGKILL)
        until(lambda: not alive(drainer))
    finally:
        os.close(reader)
        os.close(writer)


def test_what_was_written_before_the_end_arrives_whoever_holds_the_pipe(sidecar: Installation, tmp_path: Path) -> None:
    script = f"sleep 30 & echo $! >{tmp_path}/pid; head -c 60000 /dev/zero"
    assert len(sidecar.run("bash", "-c", script).stdout) == 60000
    os.kill(pid_in(tmp_path / "pid"), signal.SIGKILL)


@pytest.mark.parametrize("reader_sleeps_s", [0, 0.5])
def test_a_flood_before_the_end_with_somebody_silent_left_behind(
    sidecar: Installation, reader_sleeps_s: float, tmp_path: Path
) -> None:
    """The flood's larger steps must see that the pipe is empty, and must not wait for one that never closes."""
    size = 100_000_000
    with sidecar.started("bash", "-c", f"sleep 30 & echo $! >{tmp_path}/pid; head -c {size} /dev/zero") as child:
        assert child.stdout is not None
        received = 0
        while chunk := os.read(child.stdout.fileno(), 1 << 20):
            received += len(chunk)
            if size // 2 < received < size // 2 + len(chunk) + 1:
                time.sleep(reader_sleeps_s)
        assert received == size
        assert child.wait(WAIT_S) == 0
        os.kill(pid_in(tmp_path / "pid"), signal.SIGKILL)


def test_a_proper_daemon_stays(sidecar: Installation, tmp_path: Path) -> None:
    script = f"setsid nohup sleep 30 >/dev/null 2>&1 </dev/null & echo $! >{tmp_path}/pid; echo started"
    begin_s = time.monotonic()
    assert sidecar.run("bash", "-c", script) == (0, b"started\n", b"")
    assert time.monotonic() - begin_s < PROMPT_S
    survivor = pid_in(tmp_path / "pid")
    assert alive(survivor)
    os.kill(survivor, signal.SIGKILL)


@pytest.mark.parametrize(
    ("redirection", "held"), [("", "stdout, stderr"), (">/dev/null", "stderr"), ("2>/dev/null", "stdout")]
)
def test_who_is_left_and_what_it_holds_is_reported(
    sidecar: Installation, redirection: str, held: str, tmp_path: Path
) -> None:
    with FrameListener(tmp_path) as listener:
        sidecar.run(
            "bash", "-c", f"sleep 30 {redirection} & echo $! >{tmp_path}/pid; {LEFT}",
            env=listener.environ(sidecar.environ),
        )  # fmt: skip
        survivor = pid_in(tmp_path / "pid")
        try:
            settled = listener.settled()
        finally:
            os.kill(survivor, signal.SIGKILL)
    assert settled["descendantsLeft"] == 1
    assert settled["outputHeldBy"] == [f"{survivor} sleep: {held}"]


def test_one_that_holds_nothing_is_counted_and_not_named(sidecar: Installation, tmp_path: Path) -> None:
    script = f"sleep 30 >/dev/null 2>&1 & echo $! >{tmp_path}/pid; {LEFT}"
    with FrameListener(tmp_path) as listener:
        sidecar.run("bash", "-c", script, env=listener.environ(sidecar.environ))
        os.kill(pid_in(tmp_path / "pid"), signal.SIGKILL)
        settled = listener.settled()
    assert settled["descendantsLeft"] == 1
    assert "outputHeldBy" not in settled


@pytest.mark.parametrize("grace", ["50ms", "600ms"])
def test_how_long_it_reads_on_is_an_option(sidecar: Installation, grace: str, tmp_path: Path) -> None:
    with FrameListener(tmp_path) as listener:
        sidecar.run(
            "bash", "-c", f"sleep 30 & echo $! >{tmp_path}/pid",
            flags=("--drain-grace", grace), env=listener.environ(sidecar.environ),
        )  # fmt: skip
        os.kill(pid_in(tmp_path / "pid"), signal.SIGKILL)
        elapsed_ms = listener.settled()["elapsedMs"]
    assert elapsed_ms >= int(grace[:-2])
    assert elapsed_ms < 1000 * PROMPT_S


def test_a_terminal_that_is_held_is_named_too(sidecar: Installation, tmp_path: Path) -> None:
    script = f"trap '' HUP; sleep 30 & echo $! >{tmp_path}/pid; {LEFT}"
    with FrameListener(tmp_path) as listener:
        sidecar.run("bash", "-c", script, flags=("--pty",), env=listener.environ(sidecar.environ))
        survivor = pid_in(tmp_path / "pid")
        try:
            assert listener.settled()["outputHeldBy"] == [f"{survivor} sleep: terminal, stderr"]
            assert alive(survivor)
        finally:
            os.kill(survivor, signal.SIGKILL)


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _open(pid: int) -> list[str]:
    try:
        return os.listdir(f"/proc/{pid}/fd")
    except OSError:
        return []


def _pipes(pid: int) -> set[int]:
    found = set()
    for name in _open(pid):
        try:
            found.add(os.stat(f"/proc/{pid}/fd/{name}").st_ino)
        except OSError:
            continue
    return found


def _cpu_ticks(pid: int) -> int:
    with open(f"/proc/{pid}/stat", "rb") as file:
        fields = file.read().rpartition(b")")[2].split()
    return int(fields[11]) + int(fields[12])
