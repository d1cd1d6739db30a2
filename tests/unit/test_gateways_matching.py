"""Whose command is it? A bridge is right about every command that it names a call for, or names none."""

import json
from collections import deque
from typing import Any

import pytest
from daemon_support import beat, settled, started
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from sidecar.core import frame as wire
from sidecar.core.match_key import match_key
from sidecar.gateways.acp_bridge import AcpBridge

BRIDGE = "b" * 32


class Stage:
    """A bridge, an agent's words and a daemon's."""

    def __init__(self) -> None:
        self.bridge = AcpBridge(BRIDGE)
        self._commands: dict[str, dict[str, Any]] = {}
        self._seq = 0

    def prompt(self, session: str, request: object = 1, method: str = "session/prompt") -> None:
        message = {"jsonrpc": "2.0", "id": request, "method": method, "params": {"sessionId": session}}
        self.bridge.client_line(json.dumps(message).encode() + b"\n")

    def answer(self, request: object, **result: object) -> None:
        self.bridge.agent_line(json.dumps({"jsonrpc": "2.0", "id": request, "result": result}).encode() + b"\n")

    def call(self, session: str, call: str, status: str = "in_progress", text: str | None = None) -> None:
        body: dict[str, Any] = {"sessionUpdate": "tool_call_update", "toolCallId": call, "status": status}
        body |= {"kind": "execute", **({} if text is None else {"rawInput": {"command": text}})}
        message = {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": session, "update": body}}
        self.bridge.agent_line(json.dumps(message).encode() + b"\n")

    def start(self, command_id: str, text: str = "make", **more: str) -> None:
        self._commands[command_id] = started(command_id, bridgeId=BRIDGE, matchKey=match_key(BRIDGE, text), **more)
        self.replay(command_id)

    def replay(self, command_id: str) -> None:
        assert self.bridge.record(self._commands[command_id]) == b""

    def beat(self, command_id: str) -> tuple[str, str] | None:
        """The call that the client is told of."""
        self._seq += 1
        said = self.bridge.record(wire.native(self._commands[command_id], beat(command_id, seq=self._seq)))
        if not said:
            return None
        params = json.loads(said)["params"]
        return params["sessionId"], params["update"]["toolCallId"]

    def end(self, command_id: str) -> None:
        self._seq += 1
        assert self.bridge.record(settled(command_id, seq=self._seq)) == b""

    def daemon(self) -> None:
        """Another one answers."""
        assert self.bridge.record({"type": "snapshot", "commands": 0}) == b""


def test_a_call_whose_command_has_ended_before_its_first_beat_takes_no_other() -> None:
    """Its agent waits for the end of the output, say; the same text runs for the next call already."""
    stage = Stage()
    stage.call("s", "call_1", text="make")
    stage.start("1")
    stage.call("s", "call_2", text="make")
    stage.end("1")
    stage.start("2")
    assert stage.beat("2") == ("s", "call_2")


@pytest.mark.parametrize("text", ["make", None])
def test_nor_where_the_agent_said_that_it_runs_after_the_start(text: str | None) -> None:
    stage = Stage()
    stage.start("1")
    stage.call("s", "call_1", text=text)
    stage.end("1")
    stage.start("2")
    assert stage.beat("2") is None


def test_one_call_id_in_two_sessions_goes_by_the_session_that_the_command_names() -> None:
    stage = Stage()
    for session in ("s", "t"):
        stage.prompt(session)
    stage.call("s", "call_1")
    stage.start("1", toolCallId="call_1", sessionId="t")
    assert stage.beat("1") is None  # the other one has said nothing yet
    stage.call("t", "call_1")
    assert stage.beat("1") == ("t", "call_1")


def test_a_session_that_is_none_of_the_connections_decides_nothing() -> None:
    stage = Stage()
    stage.prompt("s")
    stage.call("s", "call_1")
    stage.start("1", toolCallId="call_1", sessionId="of the agent's own")
    assert stage.beat("1") == ("s", "call_1")


@pytest.mark.parametrize(("named", "told"), [("t", ("t", "call_2")), (None, None)])
def test_the_same_text_in_two_sessions_does_not_go_by_order(named: str | None, told: tuple[str, str] | None) -> None:
    stage = Stage()
    for session in ("s", "t"):
        stage.prompt(session)
    stage.call("s", "call_1", text="make")
    stage.call("t", "call_2", text="make")
    stage.start("1", **({} if named is None else {"sessionId": named}))
    assert stage.beat("1") == told


def test_what_ended_while_no_daemon_was_there_is_forgotten() -> None:
    """Else it is one command more than there are, and the next call without a text is never beaten for again."""
    stage = Stage()
    stage.start("1")
    stage.daemon()
    stage.start("2")
    stage.call("s", "call_1")
    assert stage.beat("2") == ("s", "call_1")


def test_what_runs_still_keeps_its_call_when_another_daemon_tells_of_it() -> None:
    stage = Stage()
    stage.call("s", "call_1")
    stage.start("1")
    assert stage.beat("1") == ("s", "call_1")
    stage.daemon()
    assert stage.beat("1") is None
    stage.replay("1")
    assert stage.beat("1") == ("s", "call_1")


def test_what_a_loaded_session_repeats_does_not_run() -> None:
    """The agent was killed in the middle of call_1, and repeats it as it was; the same command runs elsewhere."""
    stage = Stage()
    stage.prompt("old", 7, "session/load")
    stage.call("old", "call_0", text="make")
    stage.call("old", "call_0", "completed")
    stage.call("old", "call_1", text="make")
    stage.start("1")
    assert stage.beat("1") is None
    stage.answer(7)
    stage.prompt("old", 8)
    assert stage.beat("1") is None
    stage.call("old", "call_2", text="make")
    assert stage.beat("1") == ("old", "call_2")


TEXTS = st.sampled_from(["make", "sleep 25"])
SESSIONS = ("s", "t")


@settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data(), says_texts=st.booleans(), names_sessions=st.booleans())
def test_whoever_runs_what_in_whatever_order(data: st.DataObject, says_texts: bool, names_sessions: bool) -> None:
    """Sessions run their calls one after the other, beside each other. Some commands are not supervised, or not told
    of: the daemon was away."""
    stage = Stage()
    steps: dict[str, deque[str]] = {session: deque() for session in SESSIONS}
    owner: dict[str, tuple[str, str]] = {}
    current: dict[str, tuple[str, str, str]] = {}
    told = 0
    for session in SESSIONS:
        stage.prompt(session)
    for number in range(data.draw(st.integers(1, 30), label="length")):
        session = data.draw(st.sampled_from(SESSIONS))
        if not steps[session]:
            # One id for calls of both, now and then: agents count their calls by session.
            call, text = f"call_{number // 2}", data.draw(TEXTS)
            current[session] = (call, f"{session}{number}", text)
            steps[session].extend(["make", data.draw(st.sampled_from(["start", "-"]))])
            steps[session].extend(["beat"] * data.draw(st.integers(0, 2)))
            steps[session].extend([data.draw(st.sampled_from(["end", "lost"])), "beat others", "over"])
        call, command_id, text = current[session]
        match steps[session].popleft():
            case "make":
                stage.call(session, call, text=text if says_texts else None)
            case "start":
                owner[command_id] = (session, call)
                stage.start(command_id, text, **({"sessionId": session} if names_sessions else {}))
            case "beat" if command_id in owner:
                said = stage.beat(command_id)
                assert said in (None, (session, call))
                told += said is not None
            case "end" if command_id in owner:
                stage.end(command_id)
                del owner[command_id]
            case "lost" if command_id in owner:
                del owner[command_id]
                stage.daemon()
                for running in owner:
                    stage.replay(running)
            case "beat others":
                for other, (of_session, of_call) in owner.items():
                    assert stage.beat(other) in (None, (of_session, of_call))
            case "over":
                stage.call(session, call, "completed")
    event(f"told: {told > 0}")
