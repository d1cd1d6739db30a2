"""Whatever comes in whatever order, what a client reads keeps the rules: both bridges, byte by byte, judged by the kit.

The agent's messages arrive in pieces of any size, the client takes as much as it likes, commands start, beat and end,
the client cancels, and lines come that are none. Nothing here knows how a bridge decides: sidecar.conformance.stream
judges what was read, and what it cannot know (when the client cancelled) is judged below.
"""

import json
import os
from collections.abc import Callable
from typing import Any

import pytest
from daemon_support import beat, settled, started, verdict
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from sidecar.bridges.flow import Flow
from sidecar.conformance import stream
from sidecar.core import frame as wire
from sidecar.core.match_key import match_key
from sidecar.gateways.acp_bridge import AcpBridge
from sidecar.gateways.stream_json_bridge import PARTIAL_MESSAGES, StreamJsonBridge

BRIDGE = "b" * 32
Message = dict[str, Any]
Event = tuple[Any, ...]
BUSY = [HealthCheck.too_slow]
"""A machine that does something else too is no fault of the test."""


def line(message: Message) -> bytes:
    return json.dumps(message).encode() + b"\n"


class Acp:
    protocol = "acp"

    def bridge(self) -> AcpBridge:
        return AcpBridge(BRIDGE)

    def prompt(self, number: int) -> bytes:
        return line({"jsonrpc": "2.0", "id": number, "method": "session/prompt", "params": {"sessionId": "s"}})

    def make(self, call: str, text: str) -> bytes:
        return self._update(call, "in_progress", kind="execute", rawInput={"command": text})

    def status(self, call: str, status: str) -> bytes:
        return self._update(call, status)

    def ask(self, call: str, request: str) -> bytes:
        options = [{"optionId": "yes", "kind": "allow_once"}, {"optionId": "no", "kind": "reject_once"}]
        params = {"sessionId": "s", "toolCall": {"toolCallId": call}, "options": options}
        return line({"jsonrpc": "2.0", "id": request, "method": "session/request_permission", "params": params})

    def answer(self, request: str, allow: bool) -> bytes:
        outcome = {"outcome": "selected", "optionId": "yes" if allow else "no"}
        return line({"jsonrpc": "2.0", "id": request, "result": {"outcome": outcome}})

    def turn(self, number: int) -> bytes:
        return line({"jsonrpc": "2.0", "id": number, "result": {"stopReason": "end_turn"}})

    def cancel(self) -> bytes:
        return line({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": "s"}})

    def _update(self, call: str, status: str, **keys: Any) -> bytes:
        body = {"sessionUpdate": "tool_call_update", "toolCallId": call, "status": status, **keys}
        return line({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": body}})

    def ends_turn(self, message: Message) -> bool:
        return "stopReason" in message.get("result", {})

    def makes(self, message: Message) -> list[str]:
        return named(message)


class StreamJson:
    protocol = "stream-json"

    def __init__(self, tool: str) -> None:
        self._tool = tool

    def bridge(self) -> StreamJsonBridge:
        return StreamJsonBridge(BRIDGE, [PARTIAL_MESSAGES])

    def prompt(self, number: int) -> bytes:
        return self._say("user", message={"role": "user", "content": "go on"})

    def make(self, call: str, text: str) -> bytes:
        block = {"type": "tool_use", "id": call, "name": self._tool, "input": {"command": text}}
        return self._say("assistant", message={"content": [block]})

    def status(self, call: str, status: str) -> bytes:
        if status == "in_progress":  # there is no such message; a piece of an answer is next to it
            return self._say("stream_event", event={"type": "content_block_stop", "index": 0})
        block = {"type": "tool_result", "tool_use_id": call, "content": "x", "is_error": status == "failed"}
        return self._say("user", message={"content": [block]})

    def ask(self, call: str, request: str) -> bytes:
        return self._say(
            "control_request", request_id=request, request={"subtype": "can_use_tool", "tool_use_id": call}
        )

    def answer(self, request: str, allow: bool) -> bytes:
        behavior = {"behavior": "allow" if allow else "deny"}
        response = {"subtype": "success", "request_id": request, "response": behavior}
        return self._say("control_response", response=response)

    def turn(self, number: int) -> bytes:
        return self._say("result", subtype="success")

    def cancel(self) -> bytes:
        return self._say("control_request", request_id="i", request={"subtype": "interrupt"})

    def _say(self, kind: str, **keys: Any) -> bytes:
        return line({"type": kind, "session_id": "s", "parent_tool_use_id": None, **keys})

    def ends_turn(self, message: Message) -> bool:
        return message.get("type") == "result"

    def makes(self, message: Message) -> list[str]:
        return named(message) if message.get("type") == "assistant" else []


class Client:
    """Takes as much as it has room for."""

    descriptor = -1
    pollable = True

    def __init__(self) -> None:
        self.taken = bytearray()
        self.room: int | None = None

    def write(self, data: bytes | memoryview) -> int:
        size = len(data) if self.room is None else min(self.room, len(data))
        if self.room is not None:
            self.room -= size
        self.taken += data[:size]
        return size


CALLS = st.sampled_from(["call_1", "call_2", "call_3"])
COMMANDS = st.sampled_from(["1", "2", "3"])
TEXTS = st.sampled_from(["make", "sleep 25"])
REQUESTS = st.sampled_from(["r1", "r2"])
EVENTS = st.one_of(
    st.tuples(st.just("make"), CALLS, TEXTS),
    st.tuples(st.just("status"), CALLS, st.sampled_from(["in_progress", "completed", "failed", "cancelled"])),
    st.tuples(st.just("ask"), CALLS, REQUESTS),
    st.tuples(st.just("answer"), REQUESTS, st.booleans()),
    st.tuples(
        st.just("odd"), st.sampled_from([b"\n", b"{not json\n", b'["toolCallId", "tool_use"\n', b"\xff\n", b"5\n"])
    ),
    st.tuples(st.just("turn")),
    st.tuples(st.just("cancel")),
    st.tuples(st.just("start"), COMMANDS, TEXTS, CALLS | st.none()),
    st.tuples(st.just("beat"), COMMANDS, st.booleans()),
    st.tuples(st.just("beat"), COMMANDS, st.booleans()),
    st.tuples(st.just("end"), COMMANDS),
    st.tuples(st.just("arrive"), st.integers(1, 400)),
    st.tuples(st.just("room"), st.integers(0, 300) | st.none()),
)


class Stage:
    """One bridge between an agent and a client, moved by hand; `told` counts the lines of ours."""

    def __init__(self, dialect: Acp | StreamJson) -> None:
        self.dialect = dialect
        self.bridge = dialect.bridge()
        self.client = Client()
        self.source, self._writer = os.pipe()
        os.set_blocking(self.source, False)
        self.flow = Flow(self.source, self.client, self.bridge.agent_line, self.bridge.agent_words)
        self.agents = bytearray()
        self._arrived = 0
        self.cancels: list[int] = []
        """How much the client had read each time it cancelled."""
        self.told = 0
        self._commands: dict[str, Message] = {}
        self._seq = self._turns = 0

    def close(self) -> None:
        os.close(self.source)
        os.close(self._writer)

    def play(self, event: Event) -> None:
        match event:
            case ("make", call, text):
                self.agents += self.dialect.make(call, text)
            case ("status", call, status):
                self.agents += self.dialect.status(call, status)
            case ("ask", call, request):
                self.agents += self.dialect.ask(call, request)
            case ("odd", data):
                self.agents += data
            case ("turn",):
                self._turns += 1
                self.bridge.client_line(self.dialect.prompt(self._turns))
                self.agents += self.dialect.turn(self._turns)
            case ("answer", request, allow):
                self.bridge.client_line(self.dialect.answer(request, allow))
            case ("cancel",):
                self.bridge.client_line(self.dialect.cancel())
                self.cancels.append(len(self.client.taken))
            case ("start", command_id, text, call):
                own = {} if call is None else {"toolCallId": call}
                key = match_key(BRIDGE, text)
                self._commands.setdefault(command_id, started(command_id, bridgeId=BRIDGE, matchKey=key, **own))
                self._record(self._commands[command_id])
            case ("beat", command_id, is_verdict) if command_id in self._commands:
                self._seq += 1
                if is_verdict:
                    self._record(verdict(command_id, seq=self._seq, name=f"v{self._seq}"))
                else:
                    self._record(wire.native(self._commands[command_id], beat(command_id, seq=self._seq)))
            case ("end", command_id) if command_id in self._commands:
                self._seq += 1
                self._record(settled(command_id, seq=self._seq))
            case ("arrive", size):
                self.arrive(size)
            case ("room", size):
                self.client.room = size
                self.flow.write()

    def arrive(self, size: int) -> None:
        if not self.flow.wants_read:
            return
        piece = self.agents[self._arrived : self._arrived + size]
        if piece:
            os.write(self._writer, piece)
            self._arrived += len(piece)
            self.flow.read()

    def _record(self, record: Message) -> None:
        added = self.bridge.record(record)
        if added and self.flow.insert(added):
            self.bridge.passed_on()
            self.told += added.count(b"\n")

    def finish(self) -> None:
        self.client.room = None
        self.flow.write()
        self.arrive(len(self.agents))


DIALECTS: dict[str, Callable[[], Acp | StreamJson]] = {
    "acp": Acp,
    "qwen": lambda: StreamJson("run_shell_command"),
    "claude": lambda: StreamJson("Bash"),
}


def judge(stage: Stage) -> None:
    lines = bytes(stage.client.taken).splitlines(keepends=True)
    assert stream.faults(lines, stage.dialect.protocol) == []
    beats = [each for each in lines if stream.is_beat(parsed(each))]
    assert len(beats) == stage.told
    # Without ours it is the agent's stream, to the byte.
    assert b"".join(each for each in lines if each not in beats) == bytes(stage.agents)
    # Nothing for what was made before a cancel that the client sent, or before the end of the turn.
    read, made, over = 0, set[str](), set[str]()
    cancels = list(stage.cancels)
    for each in lines:
        message, is_beat = parsed(each), each in beats
        # Before the whole of the agent's line was there; before any of ours was: a piece of it is not called back.
        while cancels and cancels[0] < read + (1 if is_beat else len(each)):
            cancels.pop(0)
            over |= made
        read += len(each)
        if message is None:
            continue
        if is_beat:
            assert not over & set(named(message))
        else:
            made |= set(stage.dialect.makes(message))
            if stage.dialect.ends_turn(message):
                over |= made


def parsed(data: bytes) -> Message | None:
    try:
        message = json.loads(data)
    except ValueError:
        return None
    return message if isinstance(message, dict) else None


def named(value: Any) -> list[str]:
    """Every tool call that a message names, wherever it does."""
    if isinstance(value, dict):
        own = [
            each for key, each in value.items() if key in ("toolCallId", "tool_use_id", "id") and isinstance(each, str)
        ]
        return own + [name for each in value.values() for name in named(each)]
    return [name for each in value for name in named(each)] if isinstance(value, list) else []


@pytest.mark.parametrize("dialect", DIALECTS)
@settings(max_examples=200, deadline=None, suppress_health_check=BUSY)
@given(events=st.lists(EVENTS, max_size=60))
def test_whatever_comes_in_whatever_order(dialect: str, events: list[Event]) -> None:
    stage = Stage(DIALECTS[dialect]())
    try:
        for event in events:
            stage.play(event)
        stage.finish()
        judge(stage)
    finally:
        stage.close()


@pytest.mark.parametrize("dialect", DIALECTS)
@settings(max_examples=100, deadline=None, suppress_health_check=BUSY)
@given(before=st.lists(EVENTS, max_size=15), after=st.lists(EVENTS, max_size=15))
@example(before=[], after=[("room", 0), ("beat", "9", False), ("cancel",)])
@example(before=[], after=[("room", 7), ("beat", "9", True), ("cancel",)])
def test_with_a_call_that_does_beat(dialect: str, before: list[Event], after: list[Event]) -> None:
    """The same around a call that runs and is silent, so that there is something to go wrong."""
    stage = Stage(DIALECTS[dialect]())
    run = [("room", None), ("arrive", 1 << 15), ("make", "call_1", "x"), ("arrive", 1000), ("start", "9", "x", None)]
    try:
        silent, changed = ("beat", "9", False), ("beat", "9", True)
        for event in [*before, *run, silent, *after, changed, ("arrive", 1 << 15), silent]:
            stage.play(event)
        stage.finish()
        judge(stage)
        if not before:
            assert stage.told
    finally:
        stage.close()
