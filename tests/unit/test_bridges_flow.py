"""One direction of a bridge: every byte as it came, every line shown once, ours between whole lines only."""

import os
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.bridges import flow as module
from sidecar.bridges.flow import Flow

OURS = b"<ours>\n"


class Taker:
    """Takes as many bytes as `room` says, for each write; then none."""

    descriptor = -1
    pollable = True

    def __init__(self, room: list[int]) -> None:
        self.room = room
        self.taken = b""
        self.gone = False

    def write(self, data: bytes | memoryview) -> int:
        if self.gone:
            raise BrokenPipeError
        size = min(self.room.pop(0) if self.room else 1 << 20, len(data))
        self.taken += bytes(data[:size])
        return size


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    os.set_blocking(ends[0], False)
    yield ends
    for end in ends:
        try:
            os.close(end)
        except OSError:
            pass


@given(
    pieces=st.lists(st.binary(max_size=12) | st.sampled_from([b"\n", b"a\n", b"\n\nb"]), max_size=12),
    room=st.lists(st.integers(0, 5), max_size=20),
    inserts=st.sets(st.integers(0, 11)),
)
def test_bytes_in_are_bytes_out(pieces: list[bytes], room: list[int], inserts: set[int]) -> None:
    source, writer = os.pipe()
    os.set_blocking(source, False)
    shown: list[bytes | None] = []
    taker = Taker(room)
    flow = Flow(source, taker, shown.append)
    inserted = 0
    try:
        for number, piece in enumerate(pieces):
            os.write(writer, piece)
            while flow.read():
                pass
            if number in inserts:
                inserted += flow.insert(OURS)
        os.close(writer)
        flow.read()
        while flow.waits:
            flow.write()
    finally:
        os.close(source)
    everything = b"".join(pieces)
    assert flow.done
    assert flow.ended
    assert taker.taken.count(OURS) == inserted + everything.count(OURS)
    assert taker.taken.replace(OURS, b"") == everything.replace(OURS, b"")
    at = -1
    while (at := taker.taken.find(OURS, at + 1)) >= 0:
        assert at == 0 or taker.taken[at - 1 : at] == b"\n"
    assert b"".join(line or b"" for line in shown) == everything[: everything.rfind(b"\n") + 1]
    assert all(line is not None and line.endswith(b"\n") and line.count(b"\n") == 1 for line in shown)


@given(
    pieces=st.lists(
        st.sampled_from([b"\n", b"one ", b"two ", b"o", b"ne ", b"x\n", b"one two\n", b"\n\n"]), max_size=30
    )
)
def test_exactly_the_lines_with_a_word_are_shown(pieces: list[bytes]) -> None:
    source, writer = os.pipe()
    os.set_blocking(source, False)
    shown: list[bytes | None] = []
    words = (b"one", b"two")
    flow = Flow(source, Taker([]), shown.append, lambda: words)
    try:
        for piece in pieces:
            os.write(writer, piece)
            flow.read()
    finally:
        os.close(writer)
        os.close(source)
    everything = b"".join(pieces)
    lines = everything[: everything.rfind(b"\n") + 1].splitlines(keepends=True)
    assert shown == [line for line in lines if any(word in line for word in words)]


def test_a_slow_reader_slows_the_writer_and_gets_nothing_of_ours(pipe: tuple[int, int]) -> None:
    taker = Taker([0] * 1000)
    flow = Flow(pipe[0], taker, lambda line: None)
    rounds = 0
    while flow.wants_read:
        os.write(pipe[1], b"x" * 4095 + b"\n")
        flow.read()
        rounds += 1
    assert rounds == module.MAX_WAITING_BYTES // 4096
    assert not flow.insert(OURS)


def test_a_reader_that_has_gone(pipe: tuple[int, int]) -> None:
    taker = Taker([])
    taker.gone = True
    flow = Flow(pipe[0], taker, lambda line: None)
    os.write(pipe[1], b"x\n")
    flow.read()
    assert flow.broken
    assert flow.done
    assert not flow.wants_read
    assert not flow.insert(OURS)


def test_a_line_too_long_is_passed_and_not_shown(pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_LINE_BYTES", 10)
    shown: list[bytes | None] = []
    taker = Taker([])
    flow = Flow(pipe[0], taker, shown.append)
    for piece in (b"short\n", b"0123456", b"789abc", b"def\nnext\n"):
        os.write(pipe[1], piece)
        flow.read()
        assert flow.insert(OURS) == piece.endswith(b"\n")
    assert shown == [b"short\n", None, b"next\n"]
    assert taker.taken.replace(OURS, b"") == b"short\n0123456789abcdef\nnext\n"
