"""Without anything: no descriptors, no processes, no file system to write to, no /proc, no terminals, no /dev ...

The command runs, its agent sees what it would have seen, and what the sidecar could not do is in SIDECAR_LOG only.
Namespaces and other uids are root's: those tests skip elsewhere.
"""

import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from listening import FrameListener
from supervised import WAIT_S, Ended, Installation, alive, install, on_linux, pid_in, until

pytestmark = on_linux
SCRIPT = "echo out; echo err >&2; exit 3"
AS_BARE = Ended(3, b"out\n", b"err\n")
_UID = 54321
"""Of nobody, so that the processes of other tests do not count against its limit."""


def _may_unshare() -> bool:
    if os.getuid() != 0 or shutil.which("unshare") is None:
        return False
    return subprocess.run(["unshare", "--mount", "--pid", "--fork", "true"], capture_output=True).returncode == 0


in_a_namespace = pytest.mark.skipif(not _may_unshare(), reason="namespaces need root, and util-linux")


def unshared(sidecar: Installation, before: str, *options: str, flags: str = "", script: str = SCRIPT) -> Ended:
    """`sidecar run` of the script in namespaces of its own, after the shell commands `before`."""
    environ = {**sidecar.environ, "SCRIPT": script}
    words = f'{before}\nexec {sidecar.script} run {flags} -- /bin/sh -c "$SCRIPT"'
    done = subprocess.run(
        ["unshare", *(options or ("--mount",)), "bash", "-c", words],
        env=environ, stdin=subprocess.DEVNULL, capture_output=True, timeout=WAIT_S,
    )  # fmt: skip
    return Ended(done.returncode, done.stdout, done.stderr)


def limited(what: int, number: int) -> Callable[[], None]:
    return lambda: resource.setrlimit(what, (number, number))


@pytest.mark.parametrize("limit", [4, 5, 6, 7, 8, 9, 10, 11, 13, 15])
def test_hardly_any_descriptors(sidecar: Installation, limit: int, tmp_path: Path) -> None:
    log = tmp_path / "log"
    bare, wrapped = sidecar.both(
        "/bin/echo", "on", preexec_fn=limited(resource.RLIMIT_NOFILE, limit),
        env={**sidecar.environ, "SIDECAR_LOG": str(log)},
    )  # fmt: skip
    assert wrapped == bare == (0, b"on\n", b"")
    if limit == 5:  # with 4 there is none for the note either
        assert "echo runs unsupervised: no descriptor is free" in log.read_text()


@pytest.fixture(scope="module")
def everybodys(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """An installation that any user can run, on an interpreter that any user can run."""
    python = "/usr/bin/python3"
    check = f"import sys; sys.exit(sys.version_info[:2] != {sys.version_info[:2]})"
    if os.getuid() != 0 or subprocess.run([python, "-c", check], capture_output=True).returncode:
        pytest.skip("needs root, to become another user, and a system interpreter of this version")
    folder = Path(tempfile.mkdtemp(prefix="sidecar-everybody."))
    folder.chmod(0o755)
    install(folder / "prefix")
    (folder / "prefix" / "bin" / "python3").unlink()
    (folder / "prefix" / "bin" / "python3").symlink_to(python)
    (folder / "run").mkdir(mode=0o700)
    os.chown(folder / "run", _UID, _UID)
    yield Installation(folder / "prefix", folder / "run")
    shutil.rmtree(folder)


@pytest.mark.parametrize("limit", [1, 2, 40])
def test_no_more_processes(everybodys: Installation, limit: int) -> None:
    """With a limit of 1 there is no room for a supervisor beside the command; with 2 none for a daemon."""
    run = Path(everybodys.socket).parent
    log = run / f"log{limit}"

    def become() -> None:
        os.setgroups([])
        os.setgid(_UID)
        resource.setrlimit(resource.RLIMIT_NPROC, (limit, limit))
        os.setuid(_UID)

    words = [str(everybodys.script), "run", "--", "/bin/echo", "on"]
    environ = {**everybodys.environ, "SIDECAR_LOG": str(log), "HOME": str(run), "SIDECAR_SOCKET": f"{run}/{limit}.sock"}
    done = subprocess.run(
        words, env=environ, capture_output=True, timeout=WAIT_S, preexec_fn=become, cwd="/", stdin=subprocess.DEVNULL
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"on\n", b"")
    if limit == 1:
        assert "echo runs unsupervised: cannot fork" in log.read_text()
    if limit == 2:
        assert "no daemon" in log.read_text()


@in_a_namespace
@pytest.mark.parametrize(
    ("before", "flags"),
    [
        ("mount -o remount,bind,ro /; unset SIDECAR_SOCKET XDG_RUNTIME_DIR", ""),
        ("mount -t tmpfs none /proc", ""),
        ("mount -t tmpfs none /proc", "--timeout 20s --heartbeat-interval 100ms"),
        ("mount -t tmpfs none /dev/pts; mount --bind /dev/null /dev/ptmx", "--pty"),
        ("mount -t tmpfs none /dev", ""),
        ("mount -t tmpfs none /dev", "--pty"),
        ("mount -t tmpfs none /sys; unset HOME PATH USER", ""),
    ],
    ids=[
        "read-only",
        "no /proc",
        "no /proc, beating",
        "no /dev/ptmx",
        "no /dev",
        "no /dev, a terminal",
        "no HOME, no PATH",
    ],
)
def test_a_poor_machine(sidecar: Installation, before: str, flags: str) -> None:
    assert unshared(sidecar, before, flags=flags) == AS_BARE


@in_a_namespace
def test_without_proc_a_timeout_still_ends_the_command(sidecar: Installation) -> None:
    begin_s = time.monotonic()
    ended = unshared(sidecar, "mount -t tmpfs none /proc", flags="--timeout 300ms", script="exec sleep 30")
    assert ended.status == 124
    assert time.monotonic() - begin_s < 15


@in_a_namespace
def test_without_proc_who_writes_on_is_not_killed_by_our_end(sidecar: Installation, tmp_path: Path) -> None:
    script = f"(sleep 2; echo late; echo survived >{tmp_path}/after) & echo done"
    assert unshared(sidecar, "mount -t tmpfs none /proc", script=script) == (0, b"done\n", b"")
    until(lambda: (tmp_path / "after").exists())


@in_a_namespace
def test_a_full_disk_under_everything_of_ours(sidecar: Installation, tmp_path: Path) -> None:
    before = f"""
    mount -t tmpfs -o size=16k none {tmp_path}; head -c 100000 /dev/zero >{tmp_path}/fill 2>/dev/null
    unset SIDECAR_SOCKET; export XDG_RUNTIME_DIR={tmp_path} TMPDIR={tmp_path} HOME={tmp_path} SIDECAR_LOG={tmp_path}/log
    """
    assert unshared(sidecar, before) == AS_BARE


@in_a_namespace
@pytest.mark.parametrize(
    ("script", "status"),
    [
        ("exit 3", 3),
        ("kill -TERM $$", 128 + 15),
        ("kill -KILL $$", 128 + 9),
        ("(setsid sleep .1 &); (exit 1) & exit 4", 4),
    ],
)
def test_process_1_of_a_container(sidecar: Installation, script: str, status: int) -> None:
    """It cannot die of a signal that it sends itself (pid_namespaces(7)), so a code tells of it; orphans are reaped."""
    ended = unshared(sidecar, "", "--mount", "--pid", "--fork", "--mount-proc", script=f"echo $PPID; {script}")
    assert ended.stdout == b"1\n"
    assert ended.status == status


@in_a_namespace
def test_process_1_reaps_what_others_left_behind(sidecar: Installation) -> None:
    script = "for i in 1 2 3 4; do (sh -c 'sleep .05' &); done; sleep .4; " + (
        "for i in $(seq 100); do n=$(ps -e -o stat= | grep -c Z); [ $n = 0 ] && break; sleep .1; done; echo $n"
    )
    assert unshared(sidecar, "", "--mount", "--pid", "--fork", "--mount-proc", script=script).stdout == b"0\n"


@in_a_namespace
def test_another_clock(sidecar: Installation) -> None:
    """A monotonic clock that starts days later, as in a container that was moved."""
    ended = unshared(sidecar, "", "--time", "--monotonic", "200000", "--boottime", "300000", "--fork")
    assert ended == AS_BARE


def test_nothing_in_the_environment(sidecar: Installation) -> None:
    env = {"SIDECAR_SOCKET": sidecar.socket}
    assert sidecar.run("/bin/sh", "-c", SCRIPT, env=env) == AS_BARE


def test_a_storm_of_signals_interrupts_nothing(sidecar: Installation) -> None:
    """Every system call of the supervisor is interrupted again and again; no byte is lost and no signal is made up."""
    script = "trap '' USR1 USR2 WINCH CONT ALRM; echo; head -c 3000000 /dev/zero; echo end >&2; exit 5"
    with sidecar.started("bash", "-c", script, flags=("--heartbeat-interval", "20ms")) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        received = len(os.read(child.stdout.fileno(), 1))
        over = threading.Event()

        def storm() -> None:
            numbers = (signal.SIGUSR1, signal.SIGUSR2, signal.SIGWINCH, signal.SIGCONT, signal.SIGALRM)
            while not over.is_set():
                for number in numbers:
                    if child.poll() is None:
                        os.kill(child.pid, number)
                over.wait(0.001)

        thread = threading.Thread(target=storm)
        thread.start()
        while chunk := os.read(child.stdout.fileno(), 10_000):
            received += len(chunk)
            time.sleep(0.001)
        over.set()
        thread.join()
        assert (child.stderr.read(), child.wait(WAIT_S), received) == (b"end\n", 5, 3_000_001)


def test_a_log_that_cannot_be_written_is_nobodys_problem(sidecar: Installation) -> None:
    for log in ("/no/such/folder/log", "/dev/full", "/"):
        env = {**sidecar.environ, "SIDECAR_LOG": log, "SIDECAR_SOCKET": "/proc/none/s.sock"}
        assert sidecar.run("/bin/sh", "-c", SCRIPT, env=env) == AS_BARE


def test_no_heartbeat_is_made_up_for_a_supervisor_that_was_stopped(sidecar: Installation, tmp_path: Path) -> None:
    """SIGSTOP and CONT of the supervisor are, to its clocks, a machine that was suspended: one beat, not many."""
    with FrameListener(tmp_path) as listener:
        words = ("bash", "-c", f"echo $$ >{tmp_path}/pid; exec sleep 30")
        environ = listener.environ(sidecar.environ)
        with sidecar.started(*words, flags=("--heartbeat-interval", "200ms"), env=environ) as child:
            command = pid_in(tmp_path / "pid")
            listener.until("shell_progress")
            os.kill(child.pid, signal.SIGSTOP)
            time.sleep(1.2)
            before = len(listener.of_type("shell_progress"))
            os.kill(child.pid, signal.SIGCONT)
            until(lambda: len(listener.of_type("shell_progress")) > before)
            listener.until("shell_progress", lambda frame: frame["shellProgress"]["elapsedMs"] > 2000)
            beats_ms = [frame["shellProgress"]["elapsedMs"] for frame in listener.of_type("shell_progress")[before:]]
            # However long this test took to look: at once, and not in time with the interval, are those made up.
            assert len([at_ms for at_ms in beats_ms if at_ms < beats_ms[0] + 150]) <= 2
            assert alive(command)
