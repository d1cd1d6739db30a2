"""Under a terminal: the command has one of its own, of the agent's size; keys and bytes go through; it is put back."""

import contextlib
import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Iterator

import pytest
from supervised import WAIT_S, Installation, on_linux

pytestmark = on_linux
END = b"\0the end\0"


class Screen:
    """The agent's side of a terminal on which `words` run in a session of their own."""

    def __init__(self, words: list[str], environ: dict[str, str], size: tuple[int, int] = (47, 203)) -> None:
        self.master, slave = pty.openpty()
        self.resize(size)
        self.before = termios.tcgetattr(slave)
        self.slave = slave
        self.seen = b""
        self.child = subprocess.Popen(
            ["setsid", "-c", "-w", *words], stdin=slave, stdout=slave, stderr=slave, env=environ
        )

    def resize(self, size: tuple[int, int]) -> None:
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))

    def type(self, keys: bytes) -> None:
        os.write(self.master, keys)

    def read_until(self, text: bytes) -> bytes:
        deadline_s = time.monotonic() + WAIT_S
        while text not in self.seen:
            assert time.monotonic() < deadline_s, self.seen
            self._read(0.1)
        return self.seen

    def end(self) -> int:
        """The status, all output read."""
        deadline_s = time.monotonic() + WAIT_S
        while self.child.poll() is None:
            assert time.monotonic() < deadline_s, self.seen
            self._read(0.05)
        while self._read(0.05):
            continue
        # The kernel hands on what was written when it comes to it: what is written now comes behind all of that.
        os.write(self.slave, END)
        self.seen = self.read_until(END).removesuffix(END)
        return self.child.returncode

    def _read(self, wait_s: float) -> bool:
        if not select.select([self.master], [], [], wait_s)[0]:
            return False
        self.seen += os.read(self.master, 65536)
        return True


@contextlib.contextmanager
def screen(sidecar: Installation, *command: str, flags: tuple[str, ...] = (), bare: bool = False) -> Iterator[Screen]:
    shown = Screen(list(command) if bare else sidecar.words(*command, flags=flags), sidecar.environ)
    try:
        yield shown
    finally:
        os.close(shown.slave)
        os.close(shown.master)  # hangs up on whoever is left
        if shown.child.poll() is None:
            shown.child.kill()
        shown.child.wait(WAIT_S)


def test_it_is_a_terminal_of_the_agents_size(sidecar: Installation) -> None:
    script = "for n in 0 1 2; do test -t $n && printf y || printf n; done; stty size; exit 5"
    with screen(sidecar, "bash", "-c", script) as shown:
        assert shown.end() == 5
        assert shown.seen == b"yyy47 203\r\n"


def test_a_resize_reaches_the_command(sidecar: Installation) -> None:
    script = "trap 'stty size; exit 4' WINCH; echo ready; while :; do sleep .05; done"
    with screen(sidecar, "bash", "-c", script) as shown:
        shown.read_until(b"ready")
        shown.resize((11, 22))
        assert shown.end() == 4
        assert b"11 22" in shown.seen


def test_bytes_are_those_of_the_bare_command(sidecar: Installation) -> None:
    seen = []
    for bare in (True, False):
        script = "printf 'a\\nb\\r\\033[1mx\\n\\303\\251\\377'; echo err >&2; seq 3000"
        with screen(sidecar, "bash", "-c", script, bare=bare) as shown:
            assert shown.end() == 0
            seen.append(shown.seen)
    assert seen[1] == seen[0]


@pytest.mark.parametrize("flags", [(), ("--no-pty",)])
def test_control_c_comes_once(sidecar: Installation, flags: tuple[str, ...]) -> None:
    script = "trap 'echo INT; n=1' INT; echo ready; until [ \"$n\" ]; do sleep .05; done; sleep .3; echo end; exit 3"
    with screen(sidecar, "bash", "-c", script, flags=flags) as shown:
        shown.read_until(b"ready")
        shown.type(b"\x03")
        assert shown.end() == 3
        assert shown.seen.count(b"INT\r\n") == 1


def test_control_d_ends_the_input_and_settings_are_put_back(sidecar: Installation) -> None:
    with screen(sidecar, "bash", "-c", "echo ready; cat; exit 6") as shown:
        shown.read_until(b"ready")
        shown.type(b"typed\n\x04")
        assert shown.end() == 6
        assert shown.seen.count(b"typed\r\n") == 2  # the echo, and cat
        assert termios.tcgetattr(shown.slave) == shown.before


def test_without_a_pty_the_command_has_pipes(sidecar: Installation) -> None:
    script = "test -t 0 && printf y; test -t 1 || printf n; exit 2"
    with screen(sidecar, "bash", "-c", script, flags=("--no-pty",)) as shown:
        assert shown.end() == 2
        assert shown.seen == b"yn"


def test_a_pty_where_the_agent_has_none(sidecar: Installation) -> None:
    ended = sidecar.run("bash", "-c", "test -t 1 && stty size <&1; exit 9", flags=("--pty",))
    assert (ended.status, ended.stdout) == (9, b"24 80\r\n")


def test_control_z_does_not_hang(sidecar: Installation) -> None:
    with screen(sidecar, "bash", "-c", "echo ready; sleep .5; echo end") as shown:
        shown.read_until(b"ready")
        shown.type(b"\x1a")
        assert shown.end() == 0
        assert b"end" in shown.seen


def test_a_hang_up_ends_the_command(sidecar: Installation) -> None:
    with screen(sidecar, "bash", "-c", "echo pid=$$.; exec sleep 60") as shown:
        pid = int(shown.read_until(b".\r\n").rpartition(b"pid=")[2].partition(b".")[0])
    deadline_s = time.monotonic() + WAIT_S
    with contextlib.suppress(ProcessLookupError):
        while time.monotonic() < deadline_s:
            os.kill(pid, 0)
            time.sleep(0.02)
        os.kill(pid, signal.SIGKILL)
        pytest.fail("still there")
