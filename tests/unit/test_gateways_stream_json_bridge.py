"""What a bridge adds to stream-json: the right call, in its dialect, never too early, never too late, never twice."""

import json
from typing import Any

import pytest
from daemon_support import beat, settled, started, verdict

from sidecar.core import frame as wire
from sidecar.core.match_key import command_text, match_key
from sidecar.gateways.stream_json_bridge import PARTIAL_MESSAGES, StreamJsonBridge

BRIDGE = "b" * 32
Message = dict[str, Any]


def line(kind: str, **keys: Any) -> bytes:
    return json.dumps({"type": kind, "session_id": "s", "parent_tool_use_id": None, **keys}).encode() + b"\n"


def init(**version: str) -> bytes:
    return line("system", subtype="init", **version)


def use(text: str | None = "x", call: str = "call_1", name: str = "Bash", **keys: Any) -> bytes:
    block = {"type": "tool_use", "id": call, "name": name, "input": {} if text is None else {"command": text}}
    return line("assistant", **{"message": {"role": "assistant", "content": [block]}, **keys})


def result(call: str = "call_1") -> bytes:
    block = {"type": "tool_result", "tool_use_id": call, "content": "x"}
    return line("user", message={"role": "user", "content": [block]})


def asks(call: str | None = "call_1", request: str = "r") -> bytes:
    named = {} if call is None else {"tool_use_id": call}
    return line("control_request", request_id=request, request={"subtype": "can_use_tool", **named})


def answer(behavior: str = "allow", request: str = "r") -> bytes:
    response = {"subtype": "success", "request_id": request, "response": {"behavior": behavior}}
    return line("control_response", response=response)


def command(command_id: str = "c", text: str | None = "x", bridge: str = BRIDGE, **extra: Any) -> Message:
    key = {} if text is None else {"matchKey": match_key(bridge, text)}
    return started(command_id, bridgeId=bridge, **key, **extra)


def heartbeat(of: Message, seq: int = 1, **extra: Any) -> Message:
    """As a subscriber of the format ndjson sees it."""
    return wire.native(of, beat(of["commandId"], seq=seq, **extra))


def told(data: bytes) -> list[Message]:
    assert not data or data.endswith(b"\n")
    return [json.loads(each) for each in data.splitlines()]


def running(*argv: str, said: bytes | None = None) -> tuple[StreamJsonBridge, Message]:
    """A bridge whose agent has made a call, and the command that it runs for it."""
    bridge, of = StreamJsonBridge(BRIDGE, argv), command()
    if said is not None:
        bridge.agent_line(said)
    bridge.record(of)
    bridge.agent_line(use())
    return bridge, of


def test_claudes_dialect() -> None:
    bridge, of = running(said=init(claude_code_version="1.0.0"))
    (said,) = told(bridge.record(heartbeat(of)))
    assert said.pop("uuid")
    assert said == {
        "type": "tool_progress",
        "tool_use_id": "call_1",
        "tool_name": "Bash",
        "parent_tool_use_id": None,
        "elapsed_time_seconds": 10,
        "session_id": "s",
    }


def test_qwens_dialect_where_partial_messages_were_asked_for() -> None:
    bridge, of = running(PARTIAL_MESSAGES, said=init(qwen_code_version="0.1.0"))
    (said,) = told(bridge.record(heartbeat(of)))
    assert said["type"] == "stream_event"
    assert said["event"] == {
        "type": "tool_progress",
        "tool_use_id": "call_1",
        "content": {"type": "shell_progress", "elapsedMs": 10_000},
    }


def test_partial_messages_are_seen_where_the_agents_words_do_not_say_so() -> None:
    bridge, of = running(said=init(qwen_code_version="0.1.0"))
    assert bridge.record(heartbeat(of)) == b""
    bridge.agent_line(line("assistant", message={"content": [{"type": "text", "text": 'say "stream_event"'}]}))
    assert bridge.record(heartbeat(of, 2)) == b""
    # As Qwen Code 0.24.4 does without --include-partial-messages.
    bridge.agent_line(line("stream_event", event={"type": "goal_state", "goal_state": {"v": 2, "goal": None}}))
    assert bridge.record(heartbeat(of, 3)) == b""
    bridge.agent_line(line("stream_event", event={"type": "message_start"}))
    assert len(told(bridge.record(heartbeat(of, 4)))) == 1


@pytest.mark.parametrize(
    ("name", "partial", "kind"),
    [("Bash", False, "tool_progress"), ("run_shell_command", True, "stream_event"), ("run_shell_command", False, None)],
)
def test_the_dialect_of_an_agent_that_does_not_say_its_name(name: str, partial: bool, kind: str | None) -> None:
    bridge, of = StreamJsonBridge(BRIDGE, [PARTIAL_MESSAGES] if partial else []), command()
    bridge.record(of)
    bridge.agent_line(use(name=name))
    assert [said["type"] for said in told(bridge.record(heartbeat(of)))] == ([] if kind is None else [kind])


def test_a_subagents_call_names_its_parent() -> None:
    bridge, of = StreamJsonBridge(BRIDGE), command()
    bridge.record(of)
    bridge.agent_line(use(parent_tool_use_id="call_0"))
    assert told(bridge.record(heartbeat(of)))[0]["parent_tool_use_id"] == "call_0"


def test_the_verdict_is_told_once_and_again_if_it_found_no_room() -> None:
    bridge, of = running(said=init(claude_code_version="1.0.0"))
    for _ in range(2):
        beat_, note = told(bridge.record(heartbeat(of, verdict="sleeping")))
        assert (beat_["type"], note["type"], note["subtype"]) == ("tool_progress", "system", "sidecar_verdict")
        assert note["data"]["tool_use_id"] == "call_1"
        assert note["data"]["_meta"]["sidecar"]["verdict"] == "sleeping"
    bridge.passed_on()
    assert len(told(bridge.record(heartbeat(of, 2, verdict="sleeping")))) == 1
    change = {**verdict("c", seq=3, name="awaiting_input")}
    assert [note["type"] for note in told(bridge.record(change))] == ["system"]


@pytest.mark.parametrize(
    "said",
    [
        init(claude_code_version="2.1.332"),
        init(qwen_code_version="0.24.4"),
        init(qwen_code_version="0.25.0-nightly"),
        line("tool_progress", tool_use_id="made_up", tool_name="Bash", elapsed_time_seconds=30),
        line("stream_event", event={"type": "tool_progress", "content": {"type": "shell_progress", "elapsedMs": 1}}),
    ],
)
def test_an_agent_that_beats_by_itself_is_given_the_verdict_only(said: bytes) -> None:
    bridge, of = running(PARTIAL_MESSAGES, said=said)
    assert bridge.record(heartbeat(of)) == b""
    (note,) = told(bridge.record(heartbeat(of, 2, verdict="sleeping")))
    assert note["type"] == "system"
    bridge.passed_on()
    assert bridge.record(heartbeat(of, 3, verdict="sleeping")) == b""


@pytest.mark.parametrize(
    "said",
    [
        init(claude_code_version="unknown"),
        init(claude_code_version="2.1.331"),
        line("tool_progress", tool_use_id="t", tool_name="mcp__x__y", elapsed_time_seconds=3),
        line("stream_event", event={"type": "tool_progress", "content": {"type": "mcp_tool_progress"}}),
    ],
)
def test_others_are_not_taken_for_such(said: bytes) -> None:
    bridge, of = running(said=said)
    assert told(bridge.record(heartbeat(of)))


def test_nothing_before_the_call_is_made_as_a_whole() -> None:
    bridge, of = StreamJsonBridge(BRIDGE), command(toolCallId="call_1")
    bridge.record(of)
    block = {"type": "tool_use", "id": "call_1", "name": "Bash", "input": {}}
    bridge.agent_line(line("stream_event", event={"type": "content_block_start", "content_block": block}))
    assert bridge.record(heartbeat(of)) == b""
    bridge.agent_line(use())
    assert bridge.record(heartbeat(of, 2))


ENDS = {
    "result of the call": ("agent", result()),
    "end of the call's task": ("agent", line("system", subtype="task_notification", tool_use_id="call_1")),
    "result of the turn": ("agent", line("result", subtype="success")),
    "interrupted": ("client", line("control_request", request_id="i", request={"subtype": "interrupt"})),
    "cut off": ("agent", b'{"type":"user","message":{"content":[{"type":"tool_result"\n'),
    "too long to be read": ("agent", None),
    "a result that names no call": ("agent", line("user", message={"content": [{"type": "tool_result"}]})),
}


@pytest.mark.parametrize("end", ENDS)
def test_never_after_the_end(end: str) -> None:
    bridge, of = running()
    assert bridge.record(heartbeat(of))
    side, said = ENDS[end]
    (bridge.agent_line if side == "agent" else bridge.client_line)(said)
    assert bridge.record(heartbeat(of, 2)) == b""
    # The same message again, as of a session that is resumed, brings nothing back.
    bridge.agent_line(use())
    assert bridge.record(heartbeat(of, 3)) == b""
    # Another call is a matter of its own.
    other = command("d", "y")
    bridge.record(other)
    bridge.agent_line(use("y", "call_2"))
    assert bridge.record(heartbeat(other))
    bridge.close()
    assert bridge.record(heartbeat(other, 2)) == b""


def test_the_result_of_another_call_ends_nothing() -> None:
    bridge, of = running()
    bridge.agent_line(result("call_2"))
    assert bridge.record(heartbeat(of))


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("side", ["client", "agent"])
def test_leave(named: bool, side: str) -> None:
    bridge, of = running()
    bridge.agent_line(asks("call_1" if named else None))
    assert bridge.record(heartbeat(of)) == b""
    bridge.client_line(answer(request="another"))
    assert bridge.record(heartbeat(of, 2)) == b""
    if side == "client":
        bridge.client_line(answer())
    else:
        response = {"subtype": "success", "request_id": "r", "response": {"allowed": True}}
        bridge.agent_line(line("control_response", response=response))
    assert bridge.record(heartbeat(of, 3))


@pytest.mark.parametrize(
    "said",
    [
        answer("deny"),
        line("control_response", response={"subtype": "error", "request_id": "r", "error": "x"}),
        line("control_response", response={"request_id": "r"}),
    ],
)
def test_leave_that_was_not_given(said: bytes) -> None:
    bridge, of = running()
    bridge.agent_line(asks())
    bridge.client_line(said)
    assert bridge.record(heartbeat(of)) == b""
    bridge.agent_line(asks(request="r2"))
    bridge.client_line(answer(request="r2"))
    assert bridge.record(heartbeat(of, 2))


def test_a_question_that_is_withdrawn_is_no_leave() -> None:
    bridge, of = running()
    bridge.agent_line(asks())
    bridge.agent_line(line("control_cancel_request", request_id="r"))
    bridge.client_line(answer())
    assert bridge.record(heartbeat(of)) == b""


def test_by_id_and_never_by_text_where_the_command_has_one() -> None:
    bridge, of = StreamJsonBridge(BRIDGE), command(toolCallId="call_9")
    bridge.record(of)
    bridge.agent_line(use())
    assert bridge.record(heartbeat(of)) == b""
    bridge.agent_line(use("another", "call_9"))
    assert told(bridge.record(heartbeat(of, 2)))[0]["tool_use_id"] == "call_9"


def test_the_same_text_twice_goes_by_order() -> None:
    bridge = StreamJsonBridge(BRIDGE)
    bridge.agent_line(use("x", "call_1"))
    bridge.agent_line(use("x", "call_2"))
    for name in ("1", "2"):
        bridge.record(command(name))
    assert [told(bridge.record(heartbeat(command(name))))[0]["tool_use_id"] for name in "12"] == ["call_1", "call_2"]


def test_never_by_guess() -> None:
    bridge, of = StreamJsonBridge(BRIDGE), command()
    bridge.record(of)
    bridge.agent_line(use("other"))
    bridge.agent_line(use(None, "call_2", name="Read"))
    assert bridge.record(heartbeat(of)) == b""
    foreign = command("d", bridge="other")
    bridge.record(foreign)
    bridge.agent_line(use("x", "call_3"))
    assert bridge.record(heartbeat(foreign)) == b""


def test_nothing_once_the_command_has_settled() -> None:
    bridge, of = running()
    bridge.record(settled("c", seq=2))
    assert bridge.record(heartbeat(of, 3)) == b""


ODD: list[Any] = [
    None, 5, [], {}, {"type": "assistant", "message": 5}, {"type": "assistant", "message": {"content": [5, {}]}},
    {"type": "assistant", "message": {"content": [{"type": "tool_use", "id": {}}]}}, {"type": ["tool_use"]},
    {"type": "user", "message": {"content": "tool_result"}}, {"type": "control_request", "request_id": []},
    {"type": "control_request", "request_id": "r", "request": "can_use_tool"}, {"type": "control_response"},
    {"type": "control_response", "response": {"request_id": {}, "response": []}}, {"type": "control_cancel_request"},
    {"type": "system", "subtype": "init", "claude_code_version": 5}, {"type": "tool_progress", "tool_name": []},
]  # fmt: skip


@pytest.mark.parametrize("message", ODD)
def test_odd_messages_do_nothing(message: Any) -> None:
    bridge, of = running()
    words = b' "tool_use" "tool_result" "control_" "tool_progress" "init"'
    data = json.dumps({"words": words.decode(), **message} if isinstance(message, dict) else message).encode()
    bridge.agent_line(data)
    bridge.client_line(data)
    assert bridge.record(heartbeat(of))
    deep = b"[" * 100_000 + b'"tool_result"'
    bridge.agent_line(deep)
    assert bridge.record(heartbeat(of, 2)) == b""


CLAUDES = "source /root/.claude/snap-1.sh 2>/dev/null || true && eval {} && pwd -P >| /tmp/claude-1-cwd"


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ("'sleep 25' < /dev/null", "sleep 25"),
        ("'sleep 25' \\< /dev/null", "sleep 25"),
        ("'sleep 25 && pwd -P >| x'", "sleep 25 && pwd -P >| x"),
        ("""'echo '"'"'a b'"'"''""", "echo 'a b'"),
        ("ls < /dev/null", "ls"),
    ],
)
def test_claudes_command_is_found_in_what_it_gives_its_shell(given: str, text: str) -> None:
    assert command_text(["/bin/bash", "-c", CLAUDES.format(given)]) == text
    braced = CLAUDES.replace("eval {}", "{{ eval {}; }}").format(given)
    assert command_text(["/bin/bash", "-c", braced]) == text


@pytest.mark.parametrize("text", ["x && eval 'y'", "x && eval 'y", "eval 'y' && pwd -P >| z", ""])
def test_others_are_left_as_they_are(text: str) -> None:
    assert command_text(["bash", "-c", text]) == text
