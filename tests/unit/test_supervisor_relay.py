"""The relay: bytes in = bytes out, in order, one chunk at most; the end of a command; the reader that goes away."""

import errno
import os
import select
import threading
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.core.output import OutputStats
from sidecar.supervisor.relay import Channel
from sidecar.supervisor.sink import Sink

CHUNK_BYTES = 65536


class ScriptedSink:
    """Takes as many bytes as the script says: 0 is no room, -1 a reader that hung up; after the script, all."""

    descriptor = -1
    pollable = False
    is_pipe = False

    def __init__(self, script: list[int]) -> None:
        self.script = list(script)
        self.taken = bytearray()
        self.gone = False

    def write(self, data: bytes | memoryview) -> int:
        room = self.script.pop(0) if self.script else len(data)
        if room < 0 or self.gone:
            self.gone = True
            raise BrokenPipeError(errno.EPIPE, "gone")
        self.taken += data[:room]
        return min(room, len(data))


class Piped:
    """A channel whose source is a real pipe; `writer` is the command's side."""

    def __init__(self, script: list[int]) -> None:
        source, self.writer = os.pipe()
        os.set_blocking(self.writer, False)
        self.sink = ScriptedSink(script)
        self.stats = OutputStats(0)
        self.channel = Channel(source, self.sink, self.stats, 1, terminal=False)  # type: ignore[arg-type]
        self.writer_open = True

    def end_of_file(self) -> None:
        if self.writer_open:
            self.writer_open = False
            os.close(self.writer)

    def close(self) -> None:
        self.end_of_file()
        self.channel.close()

    def __enter__(self) -> "Piped":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@pytest.fixture
def piped() -> Iterator[Piped]:
    with Piped([]) as made:
        yield made


OPS = st.lists(
    st.one_of(
        st.binary(min_size=1, max_size=40),
        st.just("turn"),
        st.integers(1, 3).map(lambda size: size * 20_000),
    ),
    max_size=30,
)
ROOM = st.lists(st.sampled_from([0, 0, 1, 3, 100, 30_000]), max_size=60)


@given(ops=OPS, room=ROOM)
def test_bytes_in_are_bytes_out_whatever_the_chunks_and_the_room(ops: list[object], room: list[int]) -> None:
    sent = bytearray()
    with Piped(room) as piped:
        channel = piped.channel

        def turn(now: int) -> None:
            before = piped.stats.total_bytes
            if channel.blocked:
                channel.flush()
            if channel.wants_read:
                channel.pump(now)
            held = piped.stats.total_bytes - len(piped.sink.taken)
            assert 0 <= held <= CHUNK_BYTES
            assert channel.blocked == (held > 0)
            assert piped.stats.total_bytes - before <= CHUNK_BYTES

        for now, op in enumerate(ops):
            if op == "turn":
                turn(now)
                continue
            data = op if isinstance(op, bytes) else os.urandom(1) * int(op)  # type: ignore[call-overload]
            try:
                sent += data[: os.write(piped.writer, data)]
            except BlockingIOError:
                turn(now)
            assert sent.startswith(piped.sink.taken)
        piped.end_of_file()
        while not channel.finished:
            turn(len(ops))
        assert piped.sink.taken == sent
        assert piped.stats.total_bytes == len(sent)
        assert not channel.open


@given(before=st.lists(st.binary(min_size=1, max_size=50), max_size=10), room=ROOM)
def test_what_was_in_the_pipe_at_the_exit_arrives_however_slow_the_reader(before: list[bytes], room: list[int]) -> None:
    with Piped(room) as piped:
        for data in before:
            os.write(piped.writer, data)
        piped.channel.exit_seen()
        for now in range(len(room) + 2):
            if piped.channel.blocked:
                piped.channel.flush()
            piped.channel.drain(now)
        assert piped.channel.finished
        assert piped.channel.open, "somebody still holds the other side: it is for the drainer"
        assert piped.sink.taken == b"".join(before)


def test_an_empty_pipe_that_somebody_holds_owes_nothing_once_the_grace_is_over(piped: Piped) -> None:
    piped.channel.exit_seen()
    assert not piped.channel.finished
    piped.channel.drain(1)
    assert piped.channel.finished
    assert not piped.channel.wants_read


def test_new_data_after_the_exit_does_not_keep_the_channel_alive(piped: Piped) -> None:
    os.write(piped.writer, b"last words\n")
    piped.channel.exit_seen()
    piped.channel.drain_over = True
    piped.sink.script = [0] * 200
    written = 11
    for turn in range(1000):
        # A background process that fills the pipe whenever there is room, and a reader that is slow.
        try:
            written += os.write(piped.writer, b"y\n" * 8192)
        except BlockingIOError:
            pass
        if piped.channel.blocked:
            piped.channel.flush()
        piped.channel.drain(turn)
        if piped.channel.finished:
            break
    assert piped.channel.finished
    assert piped.sink.taken.startswith(b"last words\ny\n")
    assert len(piped.sink.taken) < CHUNK_BYTES * 2
    assert not piped.channel.wants_read


def test_after_the_end_of_file_the_pending_bytes_are_still_flushed(piped: Piped) -> None:
    os.write(piped.writer, b"tail")
    piped.end_of_file()
    piped.sink.script = [0, 0, 1]
    assert piped.channel.pump(1)
    assert piped.channel.blocked
    piped.channel.exit_seen()
    piped.channel.close()
    assert not piped.channel.finished
    for _ in range(2):
        piped.channel.flush()
        assert not piped.channel.finished
    piped.channel.flush()
    assert piped.channel.finished
    assert piped.sink.taken == b"tail"


def test_a_reader_that_hangs_up_closes_the_source_so_that_the_command_gets_sigpipe(piped: Piped) -> None:
    piped.sink.script = [2, -1]
    os.write(piped.writer, b"hello")
    assert piped.channel.pump(1)
    assert piped.channel.blocked
    piped.channel.flush()
    assert piped.sink.taken == b"he"
    assert not piped.channel.open
    assert piped.channel.finished
    with pytest.raises(BrokenPipeError):
        os.write(piped.writer, b"more")


def test_reader_gone_may_be_said_twice(piped: Piped) -> None:
    source = piped.channel.source
    piped.channel.reader_gone()
    reused = os.open(os.devnull, os.O_RDONLY)
    try:
        piped.channel.reader_gone()
        piped.channel.close()
        os.fstat(reused)
        assert reused == source, "the number was taken again, and our second close must not hit it"
    finally:
        os.close(reused)


def test_a_read_with_nothing_there_is_no_output(piped: Piped) -> None:
    assert not piped.channel.pump(5)
    assert piped.stats.last_output_ns is None
    assert piped.channel.open


def test_who_listens_and_fails_costs_no_byte(piped: Piped) -> None:
    heard: list[bytes] = []

    def fail(chunk: bytes, now_ns: int) -> None:
        heard.append(chunk)
        raise ZeroDivisionError

    piped.channel.hear = fail
    for chunk in (b"one", b"two"):
        os.write(piped.writer, chunk)
        piped.channel.pump(1)
    assert (bytes(piped.sink.taken), heard, piped.channel.hear) == (b"onetwo", [b"one"], None)


def test_a_flood_is_read_from_a_larger_pipe_and_still_whole(piped: Piped) -> None:
    block = bytes(range(256)) * 256
    turns = 40
    for now in range(turns):
        assert os.write(piped.writer, block) == len(block)
        assert piped.channel.pump(now)
    assert piped.sink.taken == block * turns
    assert not piped.channel.blocked


@pytest.mark.parametrize("pause_every", [0, 7])
def test_a_flood_from_pipe_to_pipe_is_whole_and_counted(pause_every: int) -> None:
    source, writer = os.pipe()
    reader, target = os.pipe()
    data = os.urandom(1 << 20) * 24
    received = bytearray()

    def produce() -> None:
        with open(writer, "wb", buffering=0) as file:
            file.write(data)

    def consume() -> None:
        turn = 0
        while chunk := os.read(reader, 50_000):
            received.extend(chunk)
            turn += 1
            if pause_every and turn % pause_every == 0:
                select.select([], [], [], 0.001)

    threads = [threading.Thread(target=produce), threading.Thread(target=consume)]
    for thread in threads:
        thread.start()
    stats = OutputStats(0)
    channel = Channel(source, Sink(target), stats, 1, terminal=False)
    while not channel.finished and channel.open:
        if channel.blocked:
            select.select([], [channel.sink.descriptor], [])
            channel.flush()
        else:
            select.select([channel.source], [], [])
            channel.pump(1)
    os.close(channel.sink.descriptor)
    os.close(target)
    for thread in threads:
        thread.join()
    os.close(reader)
    assert bytes(received) == data
    assert stats.total_bytes == channel.taken_bytes == len(data)
    assert stats.total_lines == data.count(b"\n") + (data[-1:] != b"\n")


def test_the_last_slave_of_a_terminal_that_closes_is_the_end_of_file() -> None:
    master, slave = os.openpty()
    sink = ScriptedSink([])
    channel = Channel(master, sink, OutputStats(0), 1, terminal=True)  # type: ignore[arg-type]
    os.write(slave, b"bye")
    os.close(slave)
    channel.exit_seen()
    for now in range(3):
        if channel.wants_read:
            channel.pump(now)
    assert sink.taken == b"bye"
    assert channel.finished
