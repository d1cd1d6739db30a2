"""The terminal before and beside the command's own descriptors: what was typed ahead, and /dev/tty opened late."""

import fcntl
import os
import pty
import select
import subprocess
import termios

from supervised import WAIT_S, Installation


def typed_first(installation: Installation, typed: bytes, *command: str, echo: bool = False) -> tuple[int, bytes]:
    """Run under a terminal in which `typed` waits already. Returns (status, what the terminal showed)."""
    master, slave = pty.openpty()
    settings = termios.tcgetattr(slave)
    if not echo:
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


def test_what_was_typed_ahead_is_echoed_once_as_it_was_typed(sidecar: Installation) -> None:
    bare = typed_first(sidecar, b"one\ntwo\n\x04", "cat", echo=True)
    assert typed_first(sidecar, b"one\ntwo\n\x04", *sidecar.words("cat"), echo=True) == bare
    assert bare == (0, b"one\r\ntwo\r\none\r\ntwo\r\n")


def test_echo_is_on_behind_what_was_typed_ahead(sidecar: Installation) -> None:
    script = "read x; stty -a | grep -o ' -*echo '; exit 2"
    bare = typed_first(sidecar, b"one\n", "sh", "-c", script, echo=True)
    assert typed_first(sidecar, b"one\n", *sidecar.words("sh", "-c", script), echo=True) == bare
    assert bare == (2, b"one\r\n echo \r\n")


def test_output_is_processed_once_where_only_the_output_is_a_terminal(sidecar: Installation) -> None:
    seen = []
    for words in (["echo", "x"], sidecar.words("echo", "x")):
        master, slave = pty.openpty()
        with subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=slave, env=sidecar.environ) as process:
            assert process.wait(WAIT_S) == 0
        os.close(slave)
        seen.append(os.read(master, 100))
        os.close(master)
    assert seen == [b"x\r\n", b"x\r\n"]


def test_keys_of_a_terminal_that_is_not_the_sessions_own_arrive(sidecar: Installation) -> None:
    """An agent may hand a terminal to its child without making it the child's controlling one."""
    master, slave = pty.openpty()
    words = sidecar.words("head", "-n", "1")
    with subprocess.Popen(words, stdin=slave, stdout=slave, env=sidecar.environ, start_new_session=True) as process:
        os.close(slave)
        os.write(master, b"typed\n")
        assert process.wait(WAIT_S) == 0
    seen = b""
    while select.select([master], [], [], WAIT_S)[0]:
        try:
            seen += os.read(master, 100)
        except OSError:
            break
    os.close(master)
    assert seen == b"typed\r\n" * 2


def test_a_command_that_closed_its_terminal_lives_on_and_may_open_it_again(sidecar: Installation) -> None:
    script = "exec 0<&- 1>&- 2>&-; sleep 0.3; echo late >/dev/tty; exit 7"
    assert typed_first(sidecar, b"x\n", *sidecar.words("sh", "-c", script)) == (7, b"late\r\n")
