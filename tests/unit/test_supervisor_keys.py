"""Keys that a terminal makes signals of, and of stops and SIGCONT the one that counts."""

import os
import signal
import termios
from typing import Any

import pytest

from sidecar.supervisor.child import Child
from sidecar.supervisor.keys import signals_of
from sidecar.supervisor.reactions import _not_voided
from sidecar.supervisor.signals import Received

INT, QUIT = int(signal.SIGINT), int(signal.SIGQUIT)
TSTP, TTIN, CONT, USR1 = int(signal.SIGTSTP), int(signal.SIGTTIN), int(signal.SIGCONT), int(signal.SIGUSR1)


def _settings(flags: int) -> list[Any]:
    special = [b"\0"] * 32
    special[termios.VINTR], special[termios.VQUIT], special[termios.VLNEXT] = b"\x03", b"\x1c", b"\x16"
    return [0, 0, 0, flags, 0, 0, special]


COOKED = termios.ISIG | termios.ICANON | termios.IEXTEN


@pytest.mark.parametrize(
    ("keys", "flags", "expected"),
    [
        (b"make\r", COOKED, []),
        (b"\x03", COOKED, [INT]),
        (b"ab\x1ccd\x03", COOKED, [QUIT, INT]),
        (b"\x03", termios.ICANON | termios.IEXTEN, []),
        (b"\x16\x03", COOKED, []),
        (b"\x16\x16\x03", COOKED, [INT]),
        (b"\x16\x03", termios.ISIG, [INT]),
        (b"\0\0", COOKED, []),
        (b"", COOKED, []),
    ],
)
def test_keys_that_are_signals(keys: bytes, flags: int, expected: list[int]) -> None:
    assert signals_of(keys, _settings(flags), False)[0] == expected
    one_by_one: list[int] = []
    is_literal = False
    for key in keys:
        meant, is_literal = signals_of(bytes((key,)), _settings(flags), is_literal)
        one_by_one += meant
    assert one_by_one == expected


@pytest.mark.parametrize(
    ("came", "left"),
    [
        ([TSTP], [TSTP]),
        ([TSTP, CONT], [CONT]),
        ([CONT, TSTP], [TSTP]),
        ([TSTP, TTIN, USR1, CONT, USR1], [USR1, CONT, USR1]),
        ([CONT, CONT, TTIN, CONT], [CONT]),
        ([TSTP, TTIN], [TSTP, TTIN]),
    ],
)
def test_of_stops_and_cont_the_later_counts(came: list[int], left: list[int]) -> None:
    assert [one.number for one in _not_voided([Received(number, 0, 1) for number in came])] == left


def test_a_child_that_was_continued_is_known_before_it_is_reaped() -> None:
    pid = os.fork()
    if pid == 0:
        os.kill(os.getpid(), signal.SIGSTOP)
        signal.pause()
    child = Child(pid)
    try:
        os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOWAIT)
        assert not child.goes_on()
        child.reap()
        assert child.stopped_by == signal.SIGSTOP
        assert not child.goes_on()
        os.kill(pid, signal.SIGCONT)
        os.waitid(os.P_PID, pid, os.WCONTINUED | os.WNOWAIT)
        assert child.goes_on()
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        assert child.goes_on()
        os.waitpid(pid, 0)
