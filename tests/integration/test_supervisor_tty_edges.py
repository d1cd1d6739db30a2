"""The terminal before and beside the command's own descriptors: what was typed ahead, and /dev/tty opened late."""

import fcntl
import os
import pty
import select
import subprocess
import termios

from supervised import WAIT_S, Installation


def typed_first(installation: Installation, typed: bytes, *command: str) -> tuple[int, bytes]:
    """Run under a terminal in which `typed` waits already. Returns (status, what the terminal showed)."""
    master, slave = pty.openpty()
    settings = termios.tcgetattr(slave)
    settings[3] &= ~termios.ECHO
    termios.tcsetattr(slave, termios.TCSANOW, settings)
    os.write(master, typed)
    # The line discipline works off what was written on its own time; an end of file is ready but has no length.
    assert select.select([slave], [], [], WAIT_S)[0]
    with subprocess.Popen(
        command,
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env=installation.environ,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    ) as process:
        os.close(slave)
        shown = b""
        while select.select([master], [], [], WAIT_S)[0]:
            try:
                shown += os.read(master, 4096)
            except OSError:
                break
        status = process.wait(WAIT_S)
    os.close(master)
    return status, shown


def test_an_end_of_file_typed_ahead_is_one_and_no_byte(sidecar: Installation) -> None:
    bare = typed_first(sidecar, b"\x04", "cat")
    assert typed_first(sidecar, b"\x04", *sidecar.words("cat")) == bare == (0, b"")


def test_a_line_typed_ahead_arrives(sidecar: Installation) -> None:
    bare = typed_first(sidecar, b"one\n\x04", "cat")
    assert typed_first(sidecar, b"one\n\x04", *sidecar.words("cat")) == bare == (0, b"one\r\n")


def test_a_command_that_closed_its_terminal_lives_on_and_may_open_it_again(sidecar: Installation) -> None:
    script = "exec 0<&- 1>&- 2>&-; sleep 0.3; echo late >/dev/tty; exit 7"
    assert typed_first(sidecar, b"x\n", *sidecar.words("sh", "-c", script)) == (7, b"late\r\n")
