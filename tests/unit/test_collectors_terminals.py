"""The terminal as it really is: asked from either side, it tells whether it would take output."""

from __future__ import annotations

import contextlib
import os
import pty
import termios
from collections.abc import Iterator

import pytest

from collectors.kernel import Kernel
from collectors.terminals import read_terminal
from sidecar.core.evidence import Context, Descriptor, Look, Process, Socket, Terminal, Thread
from sidecar.core.verdict import judge

_TTY_DEVICE = 136 << 8


@pytest.fixture
def sides() -> Iterator[tuple[int, int]]:
    ours, the_commands = pty.openpty()
    yield ours, the_commands
    os.close(ours)
    os.close(the_commands)


@pytest.mark.parametrize("side", [0, 1], ids=["ours", "the command's"])
def test_a_terminal_takes_output_until_it_is_stopped(sides: tuple[int, int], side: int) -> None:
    assert _takes_output(sides[side]) is True
    termios.tcflow(sides[1], termios.TCOOFF)
    assert _takes_output(sides[side]) is False
    termios.tcflow(sides[1], termios.TCOON)
    assert _takes_output(sides[side]) is True


@pytest.mark.parametrize("side", [0, 1], ids=["ours", "the command's"])
def test_a_terminal_that_nobody_reads_takes_output_until_it_is_full(sides: tuple[int, int], side: int) -> None:
    # The kernel moves on in its own time what was written, and there is room again: until there is none left.
    os.set_blocking(sides[1], False)
    for _ in range(10_000):
        if not _takes_output(sides[side]):
            return
        with contextlib.suppress(BlockingIOError):
            os.write(sides[1], b"x" * 4096)
    pytest.fail("40 MB were taken, or said to be")


def test_asking_does_not_hang_up(sides: tuple[int, int]) -> None:
    _takes_output(sides[0])
    os.write(sides[1], b"still there\n")
    said = b""
    while not said.endswith(b"\n"):  # the kernel may pass it on in two pieces
        said += os.read(sides[0], 100)
    assert said == b"still there\r\n"


def _takes_output(descriptor: int) -> bool | None:
    terminal = read_terminal(Kernel(), descriptor, [])
    assert terminal is not None
    return terminal.takes_output


@pytest.mark.parametrize(
    ("takes_output", "verdict"), [(True, "awaiting_input"), (False, "output_blocked"), (None, "unknown")]
)
def test_without_its_system_call_a_wait_on_the_only_terminal_is_told_by_what_the_terminal_takes(
    takes_output: bool | None, verdict: str
) -> None:
    assert _verdict(Terminal("/dev/pts/0", takes_output=takes_output), {}) == verdict


@pytest.mark.parametrize("protocol", ["tcp", ""])
def test_with_a_connection_or_a_socket_that_cannot_be_read_it_cannot_be_told(protocol: str) -> None:
    sockets = {5: Socket(5, protocol, "ESTABLISHED")} if protocol else {}
    assert _verdict(Terminal("/dev/pts/0", takes_output=True), sockets, has_socket=True) == "unknown"


def test_another_terminal_than_the_commands_cannot_be_told() -> None:
    assert _verdict(Terminal("/dev/pts/7", takes_output=True), {}) == "unknown"


def _verdict(terminal: Terminal, sockets: dict[int, Socket], *, has_socket: bool = False) -> str:
    """Of a process in the foreground of /dev/pts/0, blocked in wait_woken, whose system call is not readable."""
    before, after = (_look(moment, terminal, sockets, has_socket) for moment in (0, 1_000_000_000))
    return judge(before, after, Context()).name


def _look(moment_ns: int, terminal: Terminal, sockets: dict[int, Socket], has_socket: bool) -> Look:
    thread = Thread(10, "S", cpu_ns=0, run_delay_ns=0, runs=1, wait_channel="wait_woken")
    process = Process(10, 1, "cat", "S", group=10, terminal=_TTY_DEVICE, foreground_group=10, threads={10: thread})
    process.descriptors = {0: Descriptor(0, "/dev/pts/0", "terminal")}
    if has_socket:
        process.descriptors[3] = Descriptor(3, "socket:[5]", "socket", inode=5)
    process.all_descriptors = True
    return Look(moment_ns, 10, {10: process}, sockets=sockets, terminal=terminal, is_detailed=True)
