"""What `sidecar explain` says is to be done, done as it is said: the commands it gives are run as they are."""

import contextlib
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

from supervised import WAIT_S, Installation, on_linux, until
from verdict_watch import Watched, watched

pytestmark = on_linux
LOCKS = """\
import fcntl, sys, time
file = open(sys.argv[1], "w")
fcntl.flock(file, fcntl.LOCK_EX)
print("locked", flush=True)
time.sleep(999)
"""


def told(sidecar: Installation, command_id: str) -> str:
    """What is to be done, as it is printed."""
    words = [str(sidecar.script), "explain", command_id]
    said = subprocess.run(words, env=sidecar.environ, capture_output=True, text=True, check=True).stdout
    return said.partition("\nnext ")[2].partition("\nnot seen ")[0]


def run(sidecar: Installation, advice: str, beginning: str) -> None:
    """The command in `advice` that begins so."""
    command = next(one for one in re.findall(r"`([^`]+)`", advice) if one.startswith(beginning))
    subprocess.run(["sh", "-c", command], env=sidecar.environ, check=True, stdout=subprocess.DEVNULL, timeout=WAIT_S)


def ended(command: Watched) -> tuple[int, bytes]:
    out = command.process.communicate(timeout=WAIT_S)[0]
    return command.process.returncode, out


def test_a_stopped_command_goes_on(sidecar: Installation) -> None:
    with watched(sidecar, "sh", "-c", "kill -STOP $$; echo went on", stdout=subprocess.PIPE) as command:
        found = command.verdict("stopped")
        run(sidecar, told(sidecar, found["commandId"]), f"kill -CONT {found['leaf']['pid']}")
        assert ended(command) == (0, b"went on\n")


def test_the_holder_of_a_lock_is_named_and_its_end_lets_the_command_go_on(
    sidecar: Installation, tmp_path: Path
) -> None:
    lock = tmp_path / "a lock"
    with subprocess.Popen([sys.executable, "-c", LOCKS, lock], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        try:
            assert holder.stdout.readline() == b"locked\n"
            with watched(sidecar, "flock", str(lock), "echo", "mine", stdout=subprocess.PIPE) as command:
                advice = told(sidecar, command.verdict("lock_wait")["commandId"])
                assert str(lock) in advice
                run(sidecar, advice, f"sidecar why {holder.pid}")
                run(sidecar, advice, f"kill {holder.pid}")
                assert ended(command) == (0, b"mine\n")
        finally:
            holder.kill()


def test_a_lock_outlives_who_took_it_and_no_command_has_the_pid_of_the_dead(
    sidecar: Installation, tmp_path: Path
) -> None:
    lock = tmp_path / "lock"
    taker = subprocess.Popen(
        ["flock", lock, "sh", "-c", "echo $$; exec sleep 999"], stdout=subprocess.PIPE, text=True
    )  # fmt: skip
    assert taker.stdout is not None
    heir = int(taker.stdout.readline())
    try:
        taker.kill()
        taker.wait(WAIT_S)
        with watched(sidecar, "flock", str(lock), "echo", "mine", stdout=subprocess.PIPE) as command:
            advice = told(sidecar, command.verdict("lock_wait")["commandId"])
            assert f"`fuser -v {lock}`" in advice
            pasted = re.findall(r"`([^`]+)`", advice)
            assert not [one for one in pasted if str(taker.pid) in one.split()]
            os.kill(heir, signal.SIGKILL)
            assert ended(command) == (0, b"mine\n")
    finally:
        taker.stdout.close()
        with contextlib.suppress(ProcessLookupError):
            os.kill(heir, signal.SIGKILL)


def test_what_nobody_needs_is_ended_as_it_says(sidecar: Installation) -> None:
    with watched(sidecar, "sleep", "999") as command:
        found = command.verdict("sleeping")
        run(sidecar, told(sidecar, found["commandId"]), f"sidecar cancel {found['commandId']}")
        command.process.wait(WAIT_S)
        words = [str(sidecar.script), "explain", found["commandId"]]

        def explained() -> bytes:
            return subprocess.run(words, env=sidecar.environ, capture_output=True, check=False).stdout

        until(lambda: b"Ask whoever stopped it, if that was not meant." in explained())


def test_output_that_the_agent_does_not_take_names_the_supervisor_whose_reader_it_is(sidecar: Installation) -> None:
    with watched(sidecar, "sh", "-c", "yes | head -c 1000000", stdout=subprocess.PIPE) as command:
        found = command.verdict("output_blocked")
        assert f"-p {command.process.pid}`" in told(sidecar, found["commandId"])
        assert len(ended(command)[1]) == 1000000
