"""The agent's terminal before and after the command that had one of its own: each bare, and wrapped."""

import os
import pty
import shlex
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from supervised import Installation

WAIT_S = 60.0


def _tiocsti_works() -> bool:
    """From Linux 6.2 on there is a switch, which capable(CAP_SYS_ADMIN) does not need."""
    switch = Path("/proc/sys/dev/tty/legacy_tiocsti")
    return not switch.exists() or switch.read_text().strip() == "1" or os.geteuid() == 0


TIOCSTI_WORKS = _tiocsti_works()


class Shell:
    """`sh -c SCRIPT` on a terminal of its own."""

    def __init__(self, script: str, environ: dict[str, str]) -> None:
        self.said = b""
        self._pid, self._terminal = pty.fork()
        if self._pid == 0:
            os.execve("/bin/sh", ["sh", "-c", script], environ)
        # Whatever hangs ends with the terminal's hang-up.
        self._watchdog = threading.Timer(WAIT_S, os.kill, (self._pid, 9))
        self._watchdog.start()

    def type(self, keys: bytes) -> None:
        os.write(self._terminal, keys)

    def until(self, is_so: Callable[[bytes], bool]) -> bytes:
        while not is_so(self.said):
            try:
                chunk = os.read(self._terminal, 4096)
            except OSError:
                break  # EIO: the last one has left the terminal
            if not chunk:
                break
            self.said += chunk
        return self.said

    def end(self) -> bytes:
        said = self.until(lambda _: False)
        self._watchdog.cancel()
        os.waitpid(self._pid, 0)
        os.close(self._terminal)
        return said


def _both(sidecar: Installation, of_one: Callable[[str], bytes]) -> None:
    """`of_one` gets the wrapper's words, and returns what was seen."""
    bare, wrapped = of_one(""), of_one(f"{sidecar.script} run -- ")
    assert wrapped == bare


# What the command does first, what the shell does after it, keys typed before the end and after it, what is read then.
AFTERWARDS = {
    "a line": ("", "read one; echo got=$one", b"first\n", b"", b"got=first"),
    "lines and the beginning of one": (
        "", "read a; read b; read c; echo got=$a,$b,$c", b"one\ntwo\nthr", b"ee\n", b"got=one,two,three",
    ),
    "an end of file": ("", "cat; echo end", b"first\n\x04", b"", b"first\r\nend"),
    "keys without lines": ("stty -icanon -echo; ", "dd bs=1 count=4 2>&-; stty sane", b"a\x7fbcd", b"", b"a\x7fbc"),
}  # fmt: skip


@pytest.mark.skipif(not TIOCSTI_WORKS, reason="this kernel lets nobody put keys back (dev.tty.legacy_tiocsti)")
@pytest.mark.parametrize(
    ("first", "afterwards", "before", "after", "read"), AFTERWARDS.values(), ids=AFTERWARDS.keys()
)
def test_keys_that_the_command_has_not_read_are_for_who_reads_next(
    sidecar: Installation, tmp_path: Path, first: str, afterwards: str, before: bytes, after: bytes, read: bytes
) -> None:
    def of_one(wrapper: str) -> bytes:
        os.mkfifo(tmp_path / "go")
        command = shlex.join(["sh", "-c", f"{first}echo ready; read x < {tmp_path}/go"])
        shell = Shell(f"{wrapper}{command}; echo over; {afterwards}", sidecar.environ)
        shell.until(lambda said: b"ready" in said)
        shell.type(before)
        if not first:
            shell.until(lambda said: before.rstrip(b"\n\x04").rpartition(b"\n")[2] in said)
        (tmp_path / "go").write_text("\n")
        (tmp_path / "go").unlink()
        shell.until(lambda said: b"over" in said)
        shell.type(after)
        said = shell.end()
        assert read in said
        return said

    _both(sidecar, of_one)


@pytest.mark.parametrize("after", ["", "; sleep .3"], ids=["at once", "later"])
def test_the_beginning_of_a_line_typed_ahead_is_echoed_once(sidecar: Installation, tmp_path: Path, after: str) -> None:
    def of_one(wrapper: str) -> bytes:
        os.mkfifo(tmp_path / "go")
        shell = Shell(f"echo ready; read x < {tmp_path}/go; {wrapper}sh -c 'echo runs{after}; cat'", sidecar.environ)
        shell.until(lambda said: b"ready" in said)
        shell.type(b"one\ntw")
        shell.until(lambda said: b"tw" in said)
        (tmp_path / "go").write_text("\n")
        (tmp_path / "go").unlink()
        shell.until(lambda said: said.count(b"one") == 2)
        shell.type(b"o\n\x04")
        return shell.end()

    _both(sidecar, of_one)


@pytest.mark.parametrize(
    "script",
    [
        "$W stty -echo; stty -a",
        "$W stty raw; stty -a; stty sane",
        "$W stty intr ^K erase ^H -ixon; stty -a",
        "$W stty rows 33 cols 44; stty size; stty -a",
        "$W sh -c 'stty -echo; kill -9 $$'; stty -a",
        "$W sh -c 'stty -echo <&1' </dev/null; stty -a",
        "stty -echo; $W stty echo; $W stty -a; stty -a",
    ],
)
def test_what_the_command_changes_of_its_terminal_stays_changed(sidecar: Installation, script: str) -> None:
    _both(sidecar, lambda wrapper: Shell(script.replace("$W ", wrapper), sidecar.environ).end())


def test_a_program_that_cannot_be_started_leaves_the_terminal_and_the_keys_as_they_are(
    sidecar: Installation, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "go")
    (tmp_path / "program").write_text("")
    wrapped = f"{sidecar.script} run -- {tmp_path}/program"
    shell = Shell(f"echo ready; read x < {tmp_path}/go; {wrapped}; read x; stty -a; echo got=$x", sidecar.environ)
    shell.until(lambda said: b"ready" in said)
    shell.type(b"typed\n")
    shell.until(lambda said: b"typed" in said)
    (tmp_path / "go").write_text("\n")
    shell.until(lambda said: b"icanon" in said or (b"permission" in said and not TIOCSTI_WORKS))
    said = shell.end() if TIOCSTI_WORKS else shell.said
    assert b"not executable (permission denied)\r\n" in said
    assert b"got=typed" in said or not TIOCSTI_WORKS
    assert b"-icanon" not in said


@pytest.mark.parametrize("wrapped", [False, True])
def test_without_a_terminal_as_stdin_the_commands_shows_opost_off(sidecar: Installation, wrapped: bool) -> None:
    prefix = f"{sidecar.script} run -- " if wrapped else ""
    words = Shell(f"{prefix}sh -c 'stty -a <&1' </dev/null", sidecar.environ).end().split()
    assert (b"opost" in words, b"-opost" in words) == ((False, True) if wrapped else (True, False))


@pytest.mark.parametrize("wrapped", [False, True])
def test_a_supervisor_that_is_killed_leaves_the_terminal_raw(sidecar: Installation, wrapped: bool) -> None:
    """A shell with job control would set its own again; this one does not."""
    killing = f"{sidecar.script} run -- sh -c 'sleep 1; kill -9 $PPID'" if wrapped else "sh -c 'kill -9 $$'"
    assert (b"-icanon" in Shell(f"{killing}; stty -a; stty sane", sidecar.environ).end().split()) == wrapped
