"""What a bridge adds to an ACP stream: the right call, never too early, never too late, never twice."""

import json
from typing import Any

import pytest
from daemon_support import beat, settled, started, verdict
from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.core import frame as wire
from sidecar.core.match_key import command_text, match_key
from sidecar.gateways.acp_bridge import AcpBridge

BRIDGE = "b" * 32


def line(message: dict[str, Any]) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"


def update(call: str = "call_1", status: str | None = "in_progress", session: str = "s", **extra: Any) -> bytes:
    body = {"sessionUpdate": "tool_call_update", "toolCallId": call, **extra}
    if status is not None:
        body["status"] = status
    return line({"method": "session/update", "params": {"sessionId": session, "update": body}})


def shell(command: str, call: str = "call_1", **extra: Any) -> bytes:
    return update(call, kind="execute", rawInput={"command": command}, **extra)


def start(command_id: str = "c", text: str | None = None, bridge: str = BRIDGE, **extra: Any) -> dict[str, Any]:
    key = {} if text is None else {"matchKey": match_key(bridge, text)}
    return started(command_id, bridgeId=bridge, **key, **extra)


def heartbeat(command: dict[str, Any], seq: int = 1, **extra: Any) -> dict[str, Any]:
    """As a subscriber of the format ndjson sees it."""
    return wire.native(command, beat(command["commandId"], seq=seq, **extra))


def told(data: bytes) -> dict[str, Any] | None:
    if not data:
        return None
    message = json.loads(data)
    assert message["method"] == "session/update"
    body: dict[str, Any] = message["params"]["update"]
    assert set(body) <= {"sessionUpdate", "toolCallId", "status", "_meta"}
    return {"session": message["params"]["sessionId"], **body}


def test_by_text_with_the_agents_own_id() -> None:
    bridge = AcpBridge(BRIDGE)
    command = start(text="sleep 25")
    assert bridge.record(command) == b""
    assert bridge.record(heartbeat(command)) == b""  # the agent has said nothing yet
    bridge.agent_line(shell("sleep 25\n", "call_7"))
    said = told(bridge.record(heartbeat(command, 2)))
    assert said is not None
    assert (said["session"], said["toolCallId"], said["status"]) == ("s", "call_7", "in_progress")
    assert said["_meta"]["shellProgress"]["elapsedMs"] == 20_000
    bridge.agent_line(update("call_7", "completed"))
    assert bridge.record(heartbeat(command, 3)) == b""


def test_by_the_calls_id_and_never_by_text_when_there_is_one() -> None:
    bridge = AcpBridge(BRIDGE)
    named = start("1", text="make", toolCallId="call_9")
    bridge.record(named)
    bridge.agent_line(shell("make", "call_1"))
    assert bridge.record(heartbeat(named)) == b""
    bridge.agent_line(update("call_9"))
    assert told(bridge.record(heartbeat(named, 2)))["toolCallId"] == "call_9"  # type: ignore[index]


def test_the_same_text_twice_goes_by_order() -> None:
    bridge = AcpBridge(BRIDGE)
    first, second = start("1", text="make"), start("2", text="make")
    bridge.agent_line(shell("make", "call_1"))
    bridge.agent_line(shell("make", "call_2"))
    bridge.record(first)
    bridge.record(second)
    assert told(bridge.record(heartbeat(second)))["toolCallId"] == "call_2"  # type: ignore[index]
    assert told(bridge.record(heartbeat(first)))["toolCallId"] == "call_1"  # type: ignore[index]


def test_a_call_without_a_text_takes_the_one_command_that_is_left() -> None:
    bridge = AcpBridge(BRIDGE)
    command = start("1", text="(sleep 25)")
    bridge.record(command)
    bridge.agent_line(update("call_1", kind="execute"))
    assert told(bridge.record(heartbeat(command)))["toolCallId"] == "call_1"  # type: ignore[index]


@pytest.mark.parametrize("case", ["two commands", "two calls", "no shell call", "another text"])
def test_never_by_guess(case: str) -> None:
    bridge = AcpBridge(BRIDGE)
    command = start("1", text="one")
    bridge.record(command)
    match case:
        case "two commands":
            bridge.record(start("2", text="two"))
            bridge.agent_line(update("call_1", kind="execute"))
        case "two calls":
            bridge.agent_line(update("call_1", kind="execute"))
            bridge.agent_line(update("call_2", kind="execute"))
        case "no shell call":
            bridge.agent_line(update("call_1", kind="read"))
        case "another text":
            bridge.agent_line(shell("other"))
    assert bridge.record(heartbeat(command)) == b""


def test_commands_of_another_bridge_or_of_none() -> None:
    bridge = AcpBridge(BRIDGE)
    bridge.agent_line(update("call_1", kind="execute"))
    for command in (start("1", text="x", bridge="other"), started("2", toolCallId="call_1")):
        bridge.record(command)
        assert bridge.record(heartbeat(command)) == b""


def test_an_agent_that_beats_by_itself_is_given_the_verdict_only() -> None:
    bridge = AcpBridge(BRIDGE)
    command = start(text="x")
    bridge.record(command)
    bridge.agent_line(line({"id": 1, "result": {"protocolVersion": 1, "agentInfo": {"name": "qwen-code"}}}))
    bridge.agent_line(shell("x"))
    assert bridge.record(heartbeat(command)) == b""
    first = told(bridge.record(heartbeat(command, 2, verdict="sleeping")))
    assert first is not None
    assert "shellProgress" not in first["_meta"]
    assert first["_meta"]["sidecar"]["verdict"] == "sleeping"
    # What found no room between two lines of the agent is said again.
    assert told(bridge.record(heartbeat(command, 2, verdict="sleeping"))) == first
    bridge.passed_on()
    assert bridge.record(heartbeat(command, 3, verdict="sleeping")) == b""
    change = {**verdict("c", seq=4, name="awaiting_input"), "toolCallId": "x"}
    assert told(bridge.record(change))["_meta"]["sidecar"]["verdict"] == "awaiting_input"  # type: ignore[index]


def test_an_agent_is_found_out_when_it_beats() -> None:
    bridge = AcpBridge(BRIDGE)
    command = start(text="x")
    bridge.record(command)
    bridge.agent_line(shell("x"))
    assert bridge.record(heartbeat(command))
    bridge.agent_line(update(_meta={"shellProgress": {"type": "shell_progress", "elapsedMs": 1}}))
    assert bridge.record(heartbeat(command, 2)) == b""


@pytest.mark.parametrize("garbage", [b'{"toolCallId": \n', b'[1, "toolCallId"]\n', b'"toolCallId"\n', None])
def test_lines_that_are_no_messages(garbage: bytes | None) -> None:
    bridge = AcpBridge(BRIDGE)
    command = start(text="x")
    bridge.record(command)
    bridge.agent_line(shell("x"))
    bridge.agent_line(garbage)
    unreadable = garbage is None or garbage.endswith(b": \n")
    assert bool(bridge.record(heartbeat(command))) is not unreadable
    bridge.agent_line(update())
    assert bridge.record(heartbeat(command, 2))
    bridge.close()
    assert bridge.record(heartbeat(command, 3)) == b""


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        (["/bin/bash", "-c", "sleep 25"], "sleep 25"),
        (["bash", "-l", "-c", "a  b"], "a  b"),
        (["sh", "-lc", "x", "name"], "x"),
        (["make", "-j2", "all"], "make -j2 all"),
        (["sh", "-c"], "sh -c"),
        (["x", "--", "-c", "y"], "x -- -c y"),
        (["/bin/sh", "script.sh", "-c", "y"], "/bin/sh script.sh -c y"),
    ],
)
def test_the_text_of_a_command(argv: list[str], text: str) -> None:
    assert command_text(argv) == text


def test_a_key_needs_the_bridges_id_and_says_nothing_else() -> None:
    assert match_key("a", "x") != match_key("b", "x")
    assert match_key("a", " x\n") == match_key("a", "x")
    assert len(match_key("a" * 256, "\udcff")) == 32


CALLS = st.sampled_from(["call_1", "call_2", "call_3"])
COMMANDS = st.sampled_from(["1", "2", "3"])
TEXTS = st.sampled_from(["make", "sleep 25"])
EVENTS = st.one_of(
    st.tuples(st.just("call"), CALLS, st.sampled_from(["pending", "in_progress"]), TEXTS | st.none()),
    st.tuples(st.just("status"), CALLS, st.sampled_from(["in_progress", "completed", "failed", "cancelled"])),
    st.tuples(st.just("start"), COMMANDS, TEXTS, CALLS | st.none()),
    st.tuples(st.just("beat"), COMMANDS),
    st.tuples(st.just("verdict"), COMMANDS),
    st.tuples(st.just("end"), COMMANDS),
    st.tuples(st.just("cancel")),
    st.tuples(st.just("turn")),
)


@settings(max_examples=300)
@given(st.lists(EVENTS, max_size=40))
def test_no_client_sees_a_call_come_back_nor_one_that_never_was(events: list[tuple[Any, ...]]) -> None:
    bridge = AcpBridge(BRIDGE)
    made: set[str] = set()
    over: set[str] = set()
    commands: dict[str, dict[str, Any]] = {}
    bridge.client_line(line({"id": 5, "method": "session/prompt", "params": {"sessionId": "s"}}))
    for seq, event in enumerate(events, 1):
        added = b""
        match event:
            case ("call", call, status, text):
                bridge.agent_line(shell(text, call, status=status) if text else update(call, status, kind="execute"))
                made.add(call)
            case ("status", call, status):
                bridge.agent_line(update(call, status))
                made.add(call)
                if status != "in_progress":
                    over.add(call)
            case ("start", command_id, text, call):
                own = {} if call is None else {"toolCallId": call}
                commands.setdefault(command_id, start(command_id, text=text, **own))
                added = bridge.record(commands[command_id])
            case ("beat", command_id) if command_id in commands:
                added = bridge.record(heartbeat(commands[command_id], seq))
            case ("verdict", command_id) if command_id in commands:
                added = bridge.record(verdict(command_id, seq=seq, name="sleeping"))
            case ("end", command_id) if command_id in commands:
                added = bridge.record(settled(command_id, seq=seq))
            case ("cancel",):
                bridge.client_line(line({"method": "session/cancel", "params": {"sessionId": "s"}}))
                over.update(made)
            case ("turn",):
                bridge.agent_line(line({"id": 5, "result": {"stopReason": "end_turn"}}))
                over.update(made)
                bridge.client_line(line({"id": 5, "method": "session/prompt", "params": {"sessionId": "s"}}))
        said = told(added)
        if said is not None:
            assert event[0] in ("beat", "verdict")
            assert said["toolCallId"] in made
            assert said["toolCallId"] not in over
