"""Writing to the agent's streams: never blocking, and their own open files left as they are."""

import fcntl
import os
import select
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from sidecar.supervisor import sink as sink_module
from sidecar.supervisor.sink import Sink

BLOCK = b"x" * 65536
Pair = tuple[int, int]


def fill(sink: Sink) -> int:
    """Write until there is no room. Ends at all only where no write blocks."""
    total = 0
    for _ in range(1000):
        taken = sink.write(BLOCK)
        if taken == 0:
            return total
        total += taken
    raise AssertionError("there was room for ever")


def drained(reader: int, size: int) -> bytes:
    data = b""
    while len(data) < size:
        data += os.read(reader, size - len(data))
    return data


def a_pipe(_: Path) -> Pair:
    return os.pipe()


def a_fifo(folder: Path) -> Pair:
    os.mkfifo(folder / "fifo")
    reader = os.open(folder / "fifo", os.O_RDONLY | os.O_NONBLOCK)
    writer = os.open(folder / "fifo", os.O_WRONLY)
    os.set_blocking(reader, True)
    return reader, writer


def a_socketpair(_: Path) -> Pair:
    ours, theirs = socket.socketpair()
    return ours.detach(), theirs.detach()


def a_terminal(_: Path) -> Pair:
    import tty

    master, slave = os.openpty()
    tty.setraw(slave)
    return master, slave


KINDS: dict[str, Callable[[Path], Pair]] = {
    "pipe": a_pipe,
    "fifo": a_fifo,
    "socketpair": a_socketpair,
    "terminal": a_terminal,
}


def close_sink(sink: Sink, agent: int) -> None:
    if sink.descriptor != agent:
        os.close(sink.descriptor)


@pytest.mark.parametrize("kind", KINDS)
def test_a_full_stream_takes_nothing_and_goes_on_when_there_is_room(kind: str, tmp_path: Path) -> None:
    reader, agent = KINDS[kind](tmp_path)
    flags = fcntl.fcntl(agent, fcntl.F_GETFL)
    assert not flags & os.O_NONBLOCK
    sink = Sink(agent)
    assert sink.pollable
    total = fill(sink)
    assert total > 0
    # The kernel passes a terminal's bytes on in its own time, so that room may come up again by itself.
    total += (again := sink.write(b"x"))
    assert again == 0 or kind == "terminal"
    assert fcntl.fcntl(agent, fcntl.F_GETFL) == flags
    assert drained(reader, total) == b"x" * total
    poll = select.poll()
    poll.register(sink.descriptor, select.POLLOUT)
    assert poll.poll(60_000)
    assert sink.write(memoryview(b"more")) == 4
    assert drained(reader, 4) == b"more"
    assert fcntl.fcntl(agent, fcntl.F_GETFL) == flags
    assert not os.get_inheritable(sink.descriptor) or sink.descriptor == agent
    close_sink(sink, agent)
    os.close(reader)
    os.close(agent)


@pytest.mark.parametrize("kind", ["pipe", "fifo", "socketpair"])
def test_a_reader_that_has_gone_is_an_error(kind: str, tmp_path: Path) -> None:
    reader, agent = KINDS[kind](tmp_path)
    sink = Sink(agent)
    os.close(reader)
    with pytest.raises(OSError, match=r"Broken pipe|reset"):
        sink.write(b"x")
    close_sink(sink, agent)
    os.close(agent)


def test_a_pipe_whose_reader_had_gone_before_is_an_error_at_the_first_write() -> None:
    reader, agent = os.pipe()
    os.close(reader)
    sink = Sink(agent)
    with pytest.raises(BrokenPipeError):
        sink.write(b"x")
    os.close(agent)


@pytest.mark.parametrize("append", [0, os.O_APPEND])
def test_a_regular_file_shares_its_offset_with_the_agent(append: int, tmp_path: Path) -> None:
    agent = os.open(tmp_path / "log", os.O_WRONLY | os.O_CREAT | append, 0o600)
    flags = fcntl.fcntl(agent, fcntl.F_GETFL)
    os.write(agent, b"before ")
    sink = Sink(agent)
    assert not sink.pollable
    assert sink.write(b"ours ") == 5
    os.write(agent, b"after")
    assert fcntl.fcntl(agent, fcntl.F_GETFL) == flags
    os.close(agent)
    assert (tmp_path / "log").read_bytes() == b"before ours after"


def test_a_file_opened_for_appending_goes_to_the_end_even_when_somebody_else_wrote(tmp_path: Path) -> None:
    agent = os.open(tmp_path / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    sink = Sink(agent)
    sink.write(b"one ")
    with (tmp_path / "log").open("ab") as other:
        other.write(b"two ")
    sink.write(b"three")
    os.close(agent)
    assert (tmp_path / "log").read_bytes() == b"one two three"


def test_the_null_device_takes_everything() -> None:
    agent = os.open(os.devnull, os.O_WRONLY)
    assert Sink(agent).write(BLOCK) == len(BLOCK)
    os.close(agent)


def test_a_stream_that_the_agent_made_non_blocking_stays_so() -> None:
    reader, agent = os.pipe()
    os.set_blocking(agent, False)
    flags = fcntl.fcntl(agent, fcntl.F_GETFL)
    sink = Sink(agent)
    fill(sink)
    assert fcntl.fcntl(agent, fcntl.F_GETFL) == flags
    close_sink(sink, agent)
    os.close(reader)
    os.close(agent)


def test_without_proc_a_full_pipe_still_takes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, agent = os.pipe()

    def refused(*_: object) -> int:
        raise PermissionError(13, "no /proc")

    with monkeypatch.context() as patched:
        patched.setattr(sink_module.posix, "open", refused)
        sink = Sink(agent)
    assert sink.descriptor == agent
    total = fill(sink)
    assert total == fcntl.fcntl(agent, fcntl.F_GETPIPE_SZ)
    assert drained(reader, total) == b"x" * total
    assert sink.write(BLOCK) == 4096
    os.close(reader)
    with pytest.raises(BrokenPipeError):
        sink.write(b"x")
    os.close(agent)
