"""The relay under arbitrary chunkings, EAGAIN, short writes, hang-ups and floods: bytes in = bytes out, in order."""

import errno
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sidecar.core.output import OutputStats
from sidecar.supervisor import relay, streams
from sidecar.supervisor.relay import Channel
from sidecar.supervisor.sink import Sink

ENDS = {"pipe": os.pipe, "socket": lambda: tuple(end.detach() for end in socket.socketpair())}


class Agent:
    """A channel between two real streams: the command's end is `command`, the agent's reading end `reader`."""

    def __init__(self, source_kind: str, sink_kind: str) -> None:
        source, self.command = ENDS[source_kind]()
        self.reader, self._agents = ENDS[sink_kind]()
        for descriptor in (self.command, self.reader):
            os.set_blocking(descriptor, False)
        self.stats = OutputStats(0)
        self.sink = Sink(self._agents)
        # As sidecar.supervisor.streams plans it: what a socket holds is more than a pipe's default.
        capacity = {} if source_kind == "pipe" else {"capacity_bytes": streams._SOCKET_BYTES}
        self.channel = Channel(source, self.sink, self.stats, 1, terminal=False, **capacity)
        self.sent = bytearray()
        self.received = bytearray()
        self.command_open = self.reader_open = True
        self.broken = False

    def write(self, data: bytes) -> None:
        """As the command would: as much as there is room for."""
        if not self.command_open:
            return
        try:
            self.sent += data[: os.write(self.command, data)]
        except BlockingIOError:
            return
        except (BrokenPipeError, ConnectionResetError):
            self.broken = True

    def turn(self) -> None:
        """What the loop does for a channel in one turn."""
        if self.channel.blocked:
            self.channel.flush()
        if self.channel.wants_read:
            self.channel.pump(1)
        assert self.stats.total_bytes <= len(self.sent)
        assert self.sent.startswith(bytes(self.received))

    def read(self, size: int) -> int:
        try:
            data = os.read(self.reader, size) if self.reader_open else b""
        except BlockingIOError:
            return 0
        self.received += data
        return len(data)

    def close_command(self) -> None:
        if self.command_open:
            self.command_open = False
            os.close(self.command)

    def hang_up(self) -> None:
        if self.reader_open:
            self.reader_open = False
            os.close(self.reader)

    def close(self) -> None:
        self.close_command()
        self.hang_up()
        self.channel.close()
        if self.sink.descriptor != self._agents:
            os.close(self.sink.descriptor)
        os.close(self._agents)


@contextmanager
def agent(kinds: tuple[str, str], flood: bool) -> Iterator[Agent]:
    """With `flood` a few hundred bytes are one to the relay, so that its larger steps are met in small data."""
    small = {"_CHUNK_BYTES": 64, "_FLOOD_CHUNKS": 2, "_LARGE_BYTES": 4096} if flood else {}
    with mock.patch.multiple(relay, _BURST_WAIT_MS=0, **small):
        made = Agent(*kinds)
        try:
            yield made
        finally:
            made.close()


KINDS = st.tuples(st.sampled_from(sorted(ENDS)), st.sampled_from(sorted(ENDS)))
STEPS = st.lists(
    st.one_of(
        st.binary(min_size=1, max_size=200),
        st.integers(1, 70_000).map(lambda size: os.urandom(16) * (size // 16 + 1)),
        st.just("turn"),
        st.tuples(st.just("read"), st.sampled_from([1, 7, 64, 4096, 200_000])),
    ),
    max_size=25,
)


def play(agent: Agent, steps: list[object]) -> None:
    for step in steps:
        if isinstance(step, bytes):
            agent.write(step)
        elif isinstance(step, tuple):
            agent.read(step[1])
        agent.turn()


@given(kinds=KINDS, flood=st.booleans(), steps=STEPS)
@settings(max_examples=60, deadline=None)
def test_bytes_in_are_bytes_out(kinds: tuple[str, str], flood: bool, steps: list[object]) -> None:
    with agent(kinds, flood) as made:
        play(made, steps)
        made.close_command()
        while not made.channel.finished:
            made.turn()
            made.read(1 << 20)
        while made.read(1 << 20):
            continue
        assert made.received == made.sent
        assert made.stats.total_bytes == made.channel.taken_bytes == len(made.sent)
        assert made.stats.total_lines == made.sent.count(b"\n") + bool(made.sent and made.sent[-1] != 10)


@given(kinds=KINDS, flood=st.booleans(), before=STEPS, after=STEPS)
@settings(max_examples=40, deadline=None)
def test_a_reader_that_hangs_up_at_any_moment_breaks_the_commands_stream(
    kinds: tuple[str, str], flood: bool, before: list[object], after: list[object]
) -> None:
    with agent(kinds, flood) as made:
        play(made, before)
        made.hang_up()
        play(made, after)
        for _ in range(200):
            made.write(b"more")
            made.turn()
            if made.broken:
                break
        assert made.broken, "the command was never told"
        assert made.channel.finished
        assert not made.channel.open


@example(kinds=("socket", "pipe"), flood=True, steps=[b"x" * 65_616], noise=[])
@given(kinds=KINDS, flood=st.booleans(), steps=STEPS, noise=st.lists(st.binary(min_size=1, max_size=5000), max_size=10))
@settings(max_examples=40, deadline=None)
def test_what_was_written_before_the_exit_arrives_and_what_comes_after_ends(
    kinds: tuple[str, str], flood: bool, steps: list[object], noise: list[bytes]
) -> None:
    with agent(kinds, flood) as made:
        play(made, steps)
        at_exit = len(made.sent)
        made.channel.exit_seen()
        for data in noise:  # somebody holds the other end, and writes on
            made.write(data)
            made.turn()
        for _ in range(10_000):
            if made.channel.blocked:
                made.channel.flush()
            made.channel.drain(1)
            made.read(5000)
            made.write(b"on and on" * 100)
            if made.channel.finished:
                break
        assert made.channel.finished
        assert made.channel.open
        while made.read(1 << 20):
            continue
        assert len(made.received) >= at_exit
        assert made.sent.startswith(bytes(made.received))


@pytest.mark.parametrize("error", [errno.EIO, errno.ECONNRESET, errno.EBADF])
def test_a_source_that_fails_is_at_its_end(error: int) -> None:
    with agent(("pipe", "pipe"), flood=False) as made:
        made.write(b"last")
        made.turn()
        with mock.patch.object(relay.posix, "read", side_effect=OSError(error, "")):
            assert not made.channel.pump(2)
        assert made.channel.finished
        made.read(100)
        assert made.received == b"last"
