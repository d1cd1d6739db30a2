"""The one loop of a bridge: both directions, the daemon's news, signals and the agent's end."""

import os
import select
import time
from collections.abc import Sequence
from typing import Any, Protocol

from sidecar.bridges.agent import Agent, Pipe
from sidecar.bridges.flow import Flow
from sidecar.bridges.news import News
from sidecar.supervisor.signals import SignalSource
from sidecar.supervisor.sink import Sink
from sidecar.supervisor.typed import bytes_waiting, is_readable

_DRAIN_S = 0.1
"""How long the agent's output is read on after its end, while a process that it left behind holds it open."""
_MAX_READS = 16
_ENDED = select.POLLERR | select.POLLHUP | select.POLLNVAL


class Protocols(Protocol):
    """What is said and added in one protocol: sidecar.gateways.acp_bridge and its like."""

    def agent_line(self, line: bytes | None) -> None: ...

    def agent_words(self) -> Sequence[bytes]: ...

    def client_line(self, line: bytes | None) -> None: ...

    def client_words(self) -> Sequence[bytes]: ...

    def record(self, record: dict[str, Any]) -> bytes: ...

    def passed_on(self) -> None: ...

    def close(self) -> None: ...


def run(
    agent: Agent, said: Protocols, news: News, signals: SignalSource, *, client: tuple[int, int] = (0, 1)
) -> tuple[int | None, int | None]:
    """Until the agent has ended and its output is through. How it ended: (exit code, None) or (None, signal).

    `client`: the descriptors where the client writes and reads.
    """
    return _Loop(agent, said, news, signals, client).run()


class _Loop:
    def __init__(
        self, agent: Agent, said: Protocols, news: News, signals: SignalSource, client: tuple[int, int]
    ) -> None:
        self._agent = agent
        self._said = said
        self._news = news
        self._signals = signals
        self._to_agent = Flow(client[0], Pipe(agent.stdin), said.client_line, said.client_words)
        self._stdout = Sink(client[1])
        self._to_client = Flow(agent.stdout, self._stdout, said.agent_line, said.agent_words)
        self._client_stdin = client[0]
        self._stdin_open, self._stdout_open = agent.stdin >= 0, True
        self._drain_until_s: float | None = None
        self._end_at_bytes: int | None = None

    def run(self) -> tuple[int | None, int | None]:
        while not self._over():
            ready = self._wait()
            if ready.get(self._signals.descriptor):
                for received in self._signals.read():
                    self._agent.signal(received)
            # The agent's words come first: one that ends a call goes before a beat for it.
            self._move(self._to_client, ready)
            self._move(self._to_agent, ready)
            for record in self._news.records():
                self._read_on()  # what either has written already may end the call
                line = self._said.record(record)
                if line and self._to_client.insert(line):
                    self._said.passed_on()
            self._ends()  # last: each of the reads above may have seen an end
        self._said.close()
        return self._agent.ending

    def _wait(self) -> dict[int, int]:
        poll = select.poll()
        poll.register(self._signals.descriptor, select.POLLIN)
        deadlines = [] if self._news.descriptor is not None else [self._news.retry_at_s]
        if self._drain_until_s is not None and self._end_at_bytes is None and not self._to_client.ended:
            deadlines.append(self._drain_until_s)
        if self._news.descriptor is not None:
            poll.register(self._news.descriptor, select.POLLIN)
        for flow, is_open in ((self._to_agent, self._stdin_open), (self._to_client, self._stdout_open)):
            if not is_open:
                continue
            if flow.wants_read:
                poll.register(flow.source, select.POLLIN)
            if flow.sink.pollable:
                poll.register(flow.sink.descriptor, select.POLLOUT if flow.waits else 0)
        timeout_ms = None
        if deadlines:
            timeout_ms = max(0, int((min(deadlines) - time.monotonic()) * 1000) + 1)
        return dict(poll.poll(timeout_ms))

    def _move(self, flow: Flow, ready: dict[int, int]) -> None:
        events = ready.get(flow.sink.descriptor, 0) if flow.sink.pollable else select.POLLOUT
        if flow.waits and events:
            flow.write()
        elif events & _ENDED:
            flow.gone()
        if flow.wants_read and ready.get(flow.source):
            flow.read()

    def _read_on(self) -> None:
        """What both have written already, unless it is a flood: what is not read yet comes after us in any case."""
        for flow, is_open in ((self._to_client, self._stdout_open), (self._to_agent, self._stdin_open)):
            for _ in range(_MAX_READS):
                # Asked first: the client's end may be one that blocks, and is not ours to change.
                if not (is_open and flow.wants_read and is_readable(flow.source) and flow.read()):
                    break

    def _ends(self) -> None:
        if self._stdin_open and self._to_agent.done:
            self._stdin_open = False
            self._agent.close_stdin()
            if self._to_agent.broken:
                _close(self._client_stdin)  # the client learns that the agent reads no more, as without us
        if self._stdout_open and self._to_client.broken:
            self._stdout_open = False
            self._agent.close_stdout()
        if self._drain_until_s is None and self._agent.has_ended():
            self._drain_until_s = time.monotonic() + _DRAIN_S
        if self._stdout_open and self._to_client.done:
            # The agent has closed its output and lives on: its client sees the end, as without us.
            self._stdout_open = False
            self._stdout.close()

    def _over(self) -> bool:
        if self._drain_until_s is None:
            return False
        if not self._stdout_open:
            return True
        if self._end_at_bytes is None and time.monotonic() >= self._drain_until_s:
            # What is in the pipe by now is the client's, however slowly it reads.
            self._end_at_bytes = self._to_client.read_bytes + bytes_waiting(self._agent.stdout)
        if self._end_at_bytes is not None and self._to_client.read_bytes >= self._end_at_bytes:
            self._to_client.ended = True
        return self._to_client.done


def _close(descriptor: int) -> None:
    """Its number stays taken, so that no other file gets it."""
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, descriptor)
    os.close(null)
