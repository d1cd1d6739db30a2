"""Closing what a process was given, in a child of its own each time."""

import os
import posix
from collections.abc import Callable

import pytest

from sidecar import detach


def still_open(close: Callable[[], None], among: list[int]) -> list[int]:
    """Which of `among` a child has open after `close`; it has opened them all before, on /dev/null."""
    reader, writer = os.pipe()
    report = 200
    pid = os.fork()
    if pid == 0:
        os.dup2(writer, report)
        for number in among:
            os.dup2(os.open(os.devnull, os.O_RDWR), number)
        close()
        found = []
        for number in among:
            try:
                os.fstat(number)
                found.append(number)
            except OSError:
                continue
        os.write(report, bytes(found))
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as file:
        found = list(file.read())
    os.waitpid(pid, 0)
    return found


@pytest.mark.parametrize("kept", [(), (0,), (0, 1, 2), (2, 1, 0), (0, 1, 2, 3), (0, 1, 2, 9), (7, 7), (5, 9, 4)])
def test_only_what_is_kept_stays_open(kept: tuple[int, ...]) -> None:
    assert still_open(lambda: detach.close_all_but((*kept, 200)), list(range(12))) == sorted(set(kept))


@pytest.mark.parametrize("limit", [-1, 2**31 - 1])
def test_no_limit_still_closes(monkeypatch: pytest.MonkeyPatch, limit: int) -> None:
    monkeypatch.setattr(posix, "sysconf", lambda _: limit)
    assert still_open(lambda: detach.close_all_but((0, 1, 2, 200)), [0, 1, 2, 9, 201]) == [0, 1, 2]


@pytest.mark.parametrize("keep", [None, 3, 8])
def test_settling_in_keeps_the_standard_streams_and_the_listener(keep: int | None) -> None:
    # The report goes through stdout here: it is the one descriptor of ours that survives.
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.dup2(writer, 1)
        for number in (3, 5, 8):
            os.dup2(os.open(os.devnull, os.O_RDWR), number)
        detach.settle_in(keep)
        found = [number for number in (3, 5, 8) if os.path.exists(f"/dev/fd/{number}")]
        os.write(1, f"{found} {os.getcwd()}".encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as file:
        said = file.read()
    os.waitpid(pid, 0)
    assert said == f"{[] if keep is None else [keep]} /"
