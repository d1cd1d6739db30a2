"""Ends that are not the usual ones: killed from outside, unkillable, stopped in between, with a core, not read."""

import contextlib
import ctypes
import os
import signal
import struct
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from supervised import WAIT_S, Installation, alive, cores, on_linux, pid_in, state_of, until
from test_cli_cancel import Record, ready, watched
from test_supervisor_terminal import screen

pytestmark = on_linux


def children(pid: int) -> list[int]:
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


@pytest.mark.parametrize("flags", [("--no-pty",), ("--pty",)], ids=["pipe", "pty"])
@pytest.mark.parametrize("whole_group", [False, True], ids=["pid", "group"])
def test_killed_with_the_supervisor_goes_what_bare_would_go(
    sidecar: Installation, flags: tuple[str, ...], whole_group: bool, tmp_path: Path
) -> None:
    """Of the pid: the command, as bare. Of the group: its children too."""
    script = f"sleep 60 & echo $! >{tmp_path}/other; echo $$ >{tmp_path}/pid; wait"
    with sidecar.started("bash", "-c", script, flags=flags) as child:
        command, other = pid_in(tmp_path / "pid"), pid_in(tmp_path / "other")
        until(lambda: len(children(child.pid)) > 1)  # the canary is there
        helpers = children(child.pid)
        (os.killpg if whole_group else os.kill)(child.pid, signal.SIGKILL)
        assert child.wait(WAIT_S) == -signal.SIGKILL
        until(lambda: not any(map(alive, [command, *helpers])))
        if whole_group or flags == ("--pty",):  # a terminal that is gone hangs up on who is left
            until(lambda: not alive(other))
        else:
            assert alive(other)
            os.kill(other, signal.SIGKILL)


def test_the_helpers_of_job_control_go_with_a_killed_supervisor_and_at_the_end(sidecar: Installation) -> None:
    words = ("bash", "-ic", "sidecar run -- sh -c 'echo pid=$$.; read x'; :")
    for kill in (True, False):
        with screen(sidecar, *words, bare=True) as shown:
            command = int(shown.read_until(b".\r\n").rpartition(b"pid=")[2].partition(b".")[0])
            supervisor = int(Path(f"/proc/{command}/stat").read_text().rpartition(")")[2].split()[1])
            (holder,) = until(lambda of=supervisor: [pid for pid in children(of) if children(pid)])
            members = children(holder)
            assert [os.getpgid(pid) for pid in members] == [command]
            if kill:
                os.kill(supervisor, signal.SIGKILL)
            else:
                shown.type(b"\n")
            until(lambda pids=(command, holder, *members): not any(map(alive, pids)))


def test_ctrl_c_for_the_group_reaches_all_of_the_commands_group_in_a_terminal(sidecar: Installation) -> None:
    script = "echo ready; bash -c 'trap \"echo inner; exit\" INT; echo ready; while :; do sleep .05; done'; echo outer"
    with sidecar.started("bash", "-c", f"trap 'echo trapped' INT; {script}", flags=("--pty",)) as child:
        assert child.stdout is not None
        assert [child.stdout.readline() for _ in range(2)] == [b"ready\r\n"] * 2
        until(lambda: len(children(child.pid)) > 1)
        os.killpg(child.pid, signal.SIGINT)
        assert sorted(child.stdout.read().split()) == [b"inner", b"outer", b"trapped"]


def test_several_signals_to_the_group_at_once_are_each_heard_once(sidecar: Installation) -> None:
    script = (
        "import os, signal\n"
        "for number in (1, 2, 10, 12): signal.signal(number, lambda n, _: os.write(1, b'%d\\n' % n))\n"
        "signal.signal(40, lambda *_: os._exit(4))\n"
        "os.write(1, b'ready\\n')\n"
        "while True: signal.pause()\n"
    )
    with sidecar.started("python3", "-S", "-c", script) as child:
        ready(child)
        until(lambda: len(children(child.pid)) > 1)
        os.kill(child.pid, signal.SIGSTOP)  # so that it finds them all at once
        until(lambda: state_of(child.pid) == "T")
        for number in (1, 2, 10, 12):
            os.killpg(child.pid, number)
        os.kill(child.pid, signal.SIGCONT)
        os.kill(child.pid, 40)
        assert child.stdout is not None
        assert sorted(child.stdout.read().split()) == [b"1", b"10", b"12", b"2"]
        assert child.wait(WAIT_S) == 4


def test_the_core_is_the_commands_alone(sidecar: Installation, tmp_path: Path) -> None:
    found = cores(sidecar, tmp_path)
    assert found == [1, 1] if found[0] else found == [0, 0]


def test_a_timeout_does_not_count_the_time_for_which_all_were_stopped(sidecar: Installation) -> None:
    flags = ("--timeout", "3s")
    with sidecar.started("sh", "-c", "echo ready; read x; exit 3", flags=flags, stdin=subprocess.PIPE) as child:
        ready(child)
        os.killpg(child.pid, signal.SIGSTOP)
        until(lambda: state_of(child.pid) == "T")
        time.sleep(3.1)
        os.killpg(child.pid, signal.SIGCONT)
        assert child.stdin is not None
        time.sleep(0.2)
        child.stdin.close()
        assert child.wait(WAIT_S) == 3


def test_a_timeout_counts_the_time_for_which_the_command_ran_on(sidecar: Installation) -> None:
    flags = ("--timeout", "700ms")
    with sidecar.started("sh", "-c", "echo ready; exec sleep 60", flags=flags) as child:
        ready(child)
        os.kill(child.pid, signal.SIGSTOP)
        until(lambda: state_of(child.pid) == "T")
        time.sleep(0.8)
        os.kill(child.pid, signal.SIGCONT)
        assert child.wait(WAIT_S) == 124


def test_an_agent_that_does_not_read_is_told_as_such_and_not_as_silence(sidecar: Installation) -> None:
    flags = ("--heartbeat-interval", "500ms")
    # The shell writes it all itself, so that nothing that has to be started comes between the first byte and the last.
    script = "echo ready; printf %0300000d 0; echo done; sleep .8; exit 3"
    with watched(sidecar) as watch, sidecar.started("sh", "-c", script, flags=flags) as child:
        assert child.stdout is not None
        command_id = watch.id_of(child.pid)
        seen: list[Record] = []
        while not seen or seen[-1].get("type") != "command_settled":
            record = watch.records.next_within(WAIT_S)
            assert record is not None
            own = record.get("_meta", {}).get("sidecar", record)
            if own.get("commandId") != command_id:
                continue
            seen.append(record)
            if record.get("type") == "verdict":
                assert record["verdict"] == "output_blocked"
                assert len(seen) == 1, "no beat before it"
                assert len(child.stdout.read()) == 300000 + len(b"ready\ndone\n")
        kinds = [record.get("type", "beat") for record in seen]
        assert kinds[0] == "verdict"
        assert "beat" in kinds, "behind it the command was silent for 0.8 s"
        assert seen[-1]["exitCode"] == 3
        assert seen[-1]["longestSilenceMs"] < 2000


class HangingFileSystem:
    """A FUSE file system on `folder` whose server answers the mount and then nothing: what asks it waits in D."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.device = os.open("/dev/fuse", os.O_RDWR)
        libc = ctypes.CDLL(None, use_errno=True)
        options = f"fd={self.device},rootmode=40000,user_id=0,group_id=0".encode()
        if libc.mount(b"hang", os.fsencode(folder), b"fuse.hang", 0, options) != 0:
            os.close(self.device)
            raise OSError(ctypes.get_errno(), "mount")
        self.asked = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                request = os.read(self.device, 1 << 17)
            except OSError:
                return
            _length, opcode, unique = struct.unpack_from("IIQ", request)
            if opcode == 26:  # FUSE_INIT: protocol 7.31
                body = struct.pack("IIIIHHIIHHI7I", 7, 31, 0, 0, 0, 0, 4096, 0, 0, 0, 0, *(0,) * 7)
                os.write(self.device, struct.pack("IiQ", 16 + len(body), 0, unique) + body)
            else:
                self.asked.set()

    def close(self) -> None:
        libc = ctypes.CDLL(None)
        libc.umount2(os.fsencode(self.folder), 1)  # MNT_FORCE: all that wait get an error
        libc.umount2(os.fsencode(self.folder), 2)  # MNT_DETACH
        os.close(self.device)
        self._thread.join(WAIT_S)


@pytest.fixture
def hanging(tmp_path: Path) -> Iterator[HangingFileSystem]:
    folder = tmp_path / "hang"
    folder.mkdir()
    try:
        made = HangingFileSystem(folder)
    except OSError as error:
        pytest.skip(f"no file system that hangs can be mounted here: {error}")
    yield made
    made.close()


def test_a_process_that_cannot_die_is_named_and_not_waited_for(
    sidecar: Installation, hanging: HangingFileSystem
) -> None:
    flags = ("--timeout", "1500ms", "--kill-after", "200ms")
    words = ("sh", "-c", f"echo ready; cat {hanging.folder}/x; :")
    with watched(sidecar) as watch, sidecar.started(*words, flags=flags) as child:
        ready(child)
        command_id = watch.id_of(child.pid)
        assert hanging.asked.wait(WAIT_S)
        assert child.wait(WAIT_S) == 124
        record = watch.end_of(command_id)
        assert record["reason"] == "timeout"
        receipt = record["stop"]
        assert [sent["signal"] for sent in receipt["sent"]] == ["SIGTERM", "SIGKILL"]
        assert receipt["survivorCount"] == record["descendantsLeft"] == 1
        pid, rest = receipt["survivors"][0].split(" ", 1)
        assert rest == "cat (D, uninterruptible)"
        with contextlib.suppress(ProcessLookupError):
            assert state_of(int(pid)) == "D"


def test_the_command_itself_cannot_die(sidecar: Installation, hanging: HangingFileSystem) -> None:
    flags = ("--timeout", "1500ms", "--kill-after", "200ms")
    with watched(sidecar) as watch, sidecar.started("cat", f"{hanging.folder}/x", flags=flags) as child:
        command_id = watch.id_of(child.pid)
        assert hanging.asked.wait(WAIT_S)
        assert child.wait(WAIT_S) == 124
        record = watch.end_of(command_id)
        assert record["stop"]["survivorCount"] == 1
        assert "exitCode" not in record
        assert "signal" not in record


def test_double_control_c_is_two(sidecar: Installation) -> None:
    for flags in ((), ("--no-pty",)):
        script = (
            "import os, signal\n"
            "heard = []\n"
            "signal.signal(2, lambda *_: (os.write(1, b'INT\\n'), heard.append(1), len(heard) > 1 and os._exit(3)))\n"
            "os.write(1, b'ready\\n')\n"
            "while True: signal.pause()\n"
        )
        with screen(sidecar, "python3", "-S", "-c", script, flags=flags) as shown:
            shown.read_until(b"ready")
            shown.type(b"\x03")
            shown.read_until(b"INT\r\n")
            shown.seen = b""
            shown.type(b"\x03")
            assert shown.end() == 3
            assert shown.seen.count(b"INT\r\n") == 1


def test_supervised_by_timeout_1_the_command_has_its_grace(sidecar: Installation) -> None:
    """coreutils' timeout says TERM to our pid and to the group in one breath: one request, not two."""
    script = "trap 'sleep .4; echo cleaned; exit 7' TERM; echo ready; while :; do sleep .02; done"
    words = ["timeout", "--preserve-status", "3", *sidecar.words("bash", "-c", script)]

    def run(_: int) -> "subprocess.CompletedProcess[bytes]":
        return subprocess.run(words, env=sidecar.environ, capture_output=True, timeout=WAIT_S, stdin=subprocess.DEVNULL)

    with ThreadPoolExecutor(3) as pool:
        for done in pool.map(run, range(3)):
            assert (done.returncode, done.stdout) == (7, b"ready\ncleaned\n")
