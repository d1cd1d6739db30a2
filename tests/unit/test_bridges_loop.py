"""The loop of a bridge, with a real agent and pipes, and with a daemon's news that come when they hurt most."""

import errno
import fcntl
import os
import select
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest

from sidecar.bridges.agent import Agent
from sidecar.bridges.flow import EVERY_LINE, MAX_WAITING_BYTES
from sidecar.bridges.loop import run
from sidecar.bridges.news import News
from sidecar.supervisor.signals import SignalSource


class Signals:
    """The agent's end wakes the loop, and no signal comes."""

    def __init__(self) -> None:
        self.descriptor = -1
        self.agent_mask: frozenset[int] = frozenset()

    def read(self) -> list[Any]:
        return []


class OneRecord:
    """A record that is there at once; `meanwhile` is called just before the bridge hears of it."""

    def __init__(self, pipe: tuple[int, int], meanwhile: Callable[[], None]) -> None:
        self.descriptor = pipe[0]
        os.write(pipe[1], b"x")
        self.retry_at_s = 0.0
        self._meanwhile: Callable[[], None] | None = meanwhile

    def records(self) -> Iterator[dict[str, Any]]:
        if self._meanwhile is not None:
            meanwhile, self._meanwhile = self._meanwhile, None
            os.read(self.descriptor, 1)
            meanwhile()
            yield {}


class Said:
    def __init__(self, line: bytes = b"") -> None:
        self.line = line
        self.seen: list[tuple[str, bytes | None]] = []
        self.has_passed_on = False

    def agent_line(self, line: bytes | None) -> None:
        self.seen.append(("agent", line))

    def client_line(self, line: bytes | None) -> None:
        self.seen.append(("client", line))

    def agent_words(self) -> tuple[bytes, ...]:
        return EVERY_LINE

    client_words = agent_words

    def record(self, record: dict[str, Any]) -> bytes:
        self.seen.append(("record", None))
        return self.line

    def passed_on(self) -> None:
        self.has_passed_on = True

    def close(self) -> None:
        pass


pytestmark = pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="the staged end needs pidfds: Linux")


@pytest.fixture
def pipes() -> Iterator[Callable[[], tuple[int, int]]]:
    made: list[int] = []

    def pipe() -> tuple[int, int]:
        ends = os.pipe()
        made.extend(ends)
        return ends

    yield pipe
    for descriptor in made:
        try:
            os.close(descriptor)
        except OSError:
            pass


def test_an_end_that_is_seen_while_a_record_is_told_is_passed_on(pipes: Callable[[], tuple[int, int]]) -> None:
    """The client says its last word, and ends, between the poll and the record: nothing else will wake the loop.

    What it said is seen before the record is judged.
    """
    (client_out, client), (ours, client_in) = pipes(), pipes()
    signals = Signals()
    agent = Agent(["/bin/sh", "-c", "cat; exit 3"], dict(os.environ), cast(SignalSource, signals))
    signals.descriptor = os.pidfd_open(agent.pid)

    def last_word() -> None:
        os.write(client, b"cancel\n")
        os.close(client)

    said = Said(b"beat\n")
    news = cast(News, OneRecord(pipes(), last_word))
    ending = run(agent, said, news, cast(SignalSource, signals), client=(client_out, client_in))
    assert ending == (3, None)
    assert os.read(ours, 100) == b"beat\ncancel\n"
    assert said.has_passed_on
    assert said.seen == [("client", b"cancel\n"), ("record", None), ("agent", b"cancel\n")]


def test_what_the_agent_has_written_is_seen_before_a_record_is_told(pipes: Callable[[], tuple[int, int]]) -> None:
    (client_out, client), (ours, client_in) = pipes(), pipes()
    signals = Signals()
    written, done = pipes()
    script = f"printf 'ended\\n'; echo >/dev/fd/{done}; cat; printf half"
    agent = Agent(["/bin/sh", "-c", script], inheriting(done), cast(SignalSource, signals))
    signals.descriptor = os.pidfd_open(agent.pid)
    os.close(done)

    def meanwhile() -> None:
        os.read(written, 1)
        os.close(client)

    news = cast(News, OneRecord(pipes(), meanwhile))
    said = Said(b"beat\n")
    assert run(agent, said, news, cast(SignalSource, signals), client=(client_out, client_in)) == (0, None)
    assert os.read(ours, 100) == b"ended\nbeat\nhalf"
    assert said.seen[:2] == [("agent", b"ended\n"), ("record", None)]


class NoNews:
    """A daemon that is not there, and is not looked for soon."""

    descriptor = None
    retry_at_s = time.monotonic() + 3600

    def records(self) -> Iterator[dict[str, Any]]:
        return iter(())


@pytest.mark.parametrize("left_behind", [False, True])
def test_a_client_that_is_slow_at_the_agents_end_gets_all_of_it(
    pipes: Callable[[], tuple[int, int]], left_behind: bool
) -> None:
    """As much as all the pipes and what waits in between hold, when the agent ends; and who it leaves holds nothing."""
    (client_out, client), (ours, client_in) = pipes(), pipes()
    os.close(client)
    held, hold = pipes()
    size = fcntl.fcntl(ours, fcntl.F_GETPIPE_SZ) + MAX_WAITING_BYTES + fcntl.fcntl(held, fcntl.F_GETPIPE_SZ)
    background = f"(read x </dev/fd/{held}; echo no) & " if left_behind else ""
    os.set_inheritable(held, True)
    signals = Signals()
    agent = Agent(
        ["/bin/sh", "-c", f"{background}head -c {size} /dev/zero"], dict(os.environ), cast(SignalSource, signals)
    )
    signals.descriptor = os.pidfd_open(agent.pid)
    got = bytearray()

    def client_reads() -> None:
        select.select([signals.descriptor], [], [])  # the agent has ended, and most is not read yet
        time.sleep(0.3)  # longer than its output is waited for
        while len(got) < size and (data := os.read(ours, 4096)):
            got.extend(data)

    reader = threading.Thread(target=client_reads)
    reader.start()
    ending = run(agent, Said(), cast(News, NoNews()), cast(SignalSource, signals), client=(client_out, client_in))
    os.close(client_in)
    reader.join(60)
    os.write(hold, b"x\n")
    assert ending == (0, None)
    assert got == bytes(size)


def test_a_client_is_told_that_the_agent_reads_no_more(pipes: Callable[[], tuple[int, int]]) -> None:
    """As without us: by EPIPE, and not by a pipe that is full for ever."""
    (client_out, client), (_ours, client_in), (waits, go) = pipes(), pipes(), pipes()
    os.set_inheritable(waits, True)
    script = f"exec <&-; read x </dev/fd/{waits}; exit 3"
    signals = Signals()
    agent = Agent(["/bin/sh", "-c", script], dict(os.environ), cast(SignalSource, signals))
    signals.descriptor = os.pidfd_open(agent.pid)
    failures: list[int | None] = []

    def client_writes() -> None:
        try:
            while True:
                os.write(client, bytes(4096))
        except OSError as error:
            failures.append(error.errno)
        os.write(go, b"x\n")

    writer = threading.Thread(target=client_writes, daemon=True)
    writer.start()
    assert run(agent, Said(), cast(News, NoNews()), cast(SignalSource, signals), client=(client_out, client_in)) == (
        3,
        None,
    )
    writer.join(60)
    assert failures == [errno.EPIPE]


def inheriting(descriptor: int) -> dict[str, str]:
    os.set_inheritable(descriptor, True)
    return dict(os.environ)
