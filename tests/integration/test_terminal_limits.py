"""What a terminal of the command's own cannot do, as docs/supervision.md says it: each bare, and wrapped."""

import os
import pty
import shlex
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from supervised import Installation

WAIT_S = 20.0


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


@pytest.mark.parametrize("wrapped", [False, True])
def test_keys_for_the_shell_that_were_typed_meanwhile_are_gone(
    sidecar: Installation, tmp_path: Path, wrapped: bool
) -> None:
    os.mkfifo(tmp_path / "go")
    command = shlex.join(["sh", "-c", f"echo ready; read x < {tmp_path}/go"])
    prefix = f"{sidecar.script} run -- " if wrapped else ""
    shell = Shell(f"{prefix}{command}; echo over; read line; echo got=$line", sidecar.environ)
    shell.until(lambda said: b"ready" in said)
    shell.type(b"first\n")
    shell.until(lambda said: b"first" in said)
    (tmp_path / "go").write_text("\n")
    shell.until(lambda said: b"over" in said)
    shell.type(b"second\n")
    assert (b"got=second" if wrapped else b"got=first") in shell.end()


@pytest.mark.parametrize("wrapped", [False, True])
def test_a_change_of_the_terminals_settings_ends_with_the_command(sidecar: Installation, wrapped: bool) -> None:
    prefix = f"{sidecar.script} run -- " if wrapped else ""
    shell = Shell(f"{prefix}stty -echo; stty -a", sidecar.environ)
    words = shell.end().split()
    assert (b"echo" in words, b"-echo" in words) == ((True, False) if wrapped else (False, True))
