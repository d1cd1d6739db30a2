"""Messages that are almost right: any part of one may be anything. No bridge raises; and if one did, only beats end."""

import json
from typing import Any

import pytest
from daemon_support import beat, started
from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.bridges.careful import Careful
from sidecar.core import frame as wire
from sidecar.core.match_key import match_key
from sidecar.gateways.acp_bridge import AcpBridge
from sidecar.gateways.stream_json_bridge import StreamJsonBridge

BRIDGE = "b" * 32
OPTIONS = [{"optionId": "yes", "kind": "allow_once"}]
SUBJECT = {"toolCall": {"toolCallId": "call_1", "kind": "execute", "rawInput": {"command": "x"}}}
UPDATE = {
    "sessionUpdate": "tool_call_update", "toolCallId": "call_1", "status": "in_progress", "kind": "execute",
    "rawInput": {"command": "x"}, "_meta": {"shellProgress": {}},
}  # fmt: skip
IDLE = {"sessionUpdate": "state_update", "state": "idle"}
ALLOWED = [{"behavior": "allow"}, {"allowed": True}]
PROGRESS = {"type": "tool_progress", "content": {"type": "shell_progress"}}
TOOL_USE = {"type": "tool_use", "id": "call_1", "name": "Bash", "input": {"command": "x"}}
TOOL_RESULT = {"type": "tool_result", "tool_use_id": "call_1"}
MESSAGES: list[dict[str, Any]] = [
    {"method": "session/update", "params": {"sessionId": "s", "update": UPDATE}},
    {"method": "session/update", "params": {"sessionId": "s", "update": IDLE}},
    {"id": 1, "method": "session/request_permission", "params": {"sessionId": "s", "options": OPTIONS, **SUBJECT}},
    {"id": 1, "method": "session/request_permission", "params": {"sessionId": "s", "subject": SUBJECT}},
    {"id": 1, "result": {"outcome": {"outcome": "selected", "optionId": "yes"}}},
    {"id": 2, "method": "session/prompt", "params": {"sessionId": "s"}},
    {"id": 3, "method": "session/load", "params": {"sessionId": "s"}},
    {"method": "session/cancel", "params": {"sessionId": "s"}},
    {"method": "$/cancel_request", "params": {"requestId": 2}},
    {"id": 2, "result": {"stopReason": "end_turn", "agentInfo": {"name": "x"}}},
    {"type": "system", "subtype": "init", "claude_code_version": "2.1.332", "qwen_code_version": "0.24.4"},
    {"type": "system", "subtype": "task_notification", "tool_use_id": "call_1"},
    {"type": "assistant", "session_id": "s", "parent_tool_use_id": None, "message": {"content": [TOOL_USE]}},
    {"type": "user", "session_id": "s", "message": {"content": [TOOL_RESULT]}},
    {"type": "control_request", "request_id": "1", "request": {"subtype": "can_use_tool", "tool_use_id": "call_1"}},
    *(
        {"type": "control_response", "response": {"subtype": "success", "request_id": "1", "response": allowed}}
        for allowed in ALLOWED
    ),
    {"type": "control_cancel_request", "request_id": "1"},
    {"type": "tool_progress", "tool_name": "Bash", "tool_use_id": "call_1"},
    {"type": "stream_event", "session_id": "s", "event": PROGRESS},
    {"type": "result", "subtype": "success"},
]  # fmt: skip
ODD = st.sampled_from(
    [None, True, 0, 1, -1, 1.0, 1e300, 10**30, "", "x", [], [1], ["x"], {}, {"x": []}, [[]], "\udcff"]
)


def places(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [at, *(place for key, each in inside for place in places(each, (*at, key)))]


def changed(value: Any, at: tuple[Any, ...], new: Any) -> Any:
    if not at:
        return new
    after = value.copy()
    after[at[0]] = changed(value[at[0]], at[1:], new)
    return after


@st.composite
def lines(draw: st.DrawFn) -> bytes:
    message: Any = draw(st.sampled_from(MESSAGES))
    for _ in range(draw(st.integers(0, 2))):
        message = changed(message, draw(st.sampled_from(places(message))), draw(ODD))
    return json.dumps(draw(st.sampled_from([message, [message, message]]))).encode() + b"\n"


@pytest.mark.parametrize("make", [AcpBridge, StreamJsonBridge])
@settings(max_examples=300, deadline=None)
@given(said=st.lists(st.tuples(st.booleans(), lines()), max_size=12))
def test_nothing_that_comes_raises(make: type[AcpBridge | StreamJsonBridge], said: list[tuple[bool, bytes]]) -> None:
    bridge = make(BRIDGE)
    command = started("c", bridgeId=BRIDGE, matchKey=match_key(BRIDGE, "x"))
    for from_agent, line in said:
        (bridge.agent_line if from_agent else bridge.client_line)(line)
        bridge.record(command)
        bridge.record(wire.native(command, beat("c", seq=1)))


class Broken(AcpBridge):
    def agent_line(self, line: bytes | None) -> None:
        raise KeyError(line)


def test_a_fault_of_ours_ends_the_heartbeats_and_is_said_once() -> None:
    complaints: list[str] = []
    said = Careful(Broken(BRIDGE), complaints.append)
    assert b'"toolCallId"' in said.agent_words()
    for _ in range(3):
        said.agent_line(b"x\n")
        said.client_line(b"x\n")
        assert said.record({}) == b""
        said.passed_on()
        assert not said.agent_words()
        assert not said.client_words()
    said.close()
    assert complaints == ["a fault in the bridge ends its heartbeats: KeyError: b'x\\n'"]
