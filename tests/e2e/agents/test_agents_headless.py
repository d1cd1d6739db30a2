"""Real agents that answer one prompt in stream-json, through `sidecar bridge stream-json`, with their shell wrapped."""

import json

import pytest
from acp_session import without_pids
from agent_runs import Runs
from headless_session import Headless, Json
from real_agents import HEADLESS

pytestmark = [pytest.mark.parametrize("agent", HEADLESS), pytest.mark.timeout(400)]
CALL = "call_1"
"""As the model named it: neither agent has a name of its own for a call."""


def results(seen: Headless) -> list[Json]:
    """What its client was told of the call's end, and of the whole: without times and costs."""
    told: list[Json] = []
    for message in seen.messages():
        if message["type"] == "user":
            told += [block for block in message["message"]["content"] if block["type"] == "tool_result"]
        if message["type"] == "result":
            told.append({key: message[key] for key in ("subtype", "is_error", "num_turns", "result")})
    return told


def at(seen: Headless, telling: str) -> int:
    """Where the client reads first of the call itself, or of its result."""
    kinds = [
        {block.get("type") for block in content if block.get(key) == CALL}
        for message in seen.messages()
        for content, key in [
            (message.get("message", {}).get("content", ()), {"tool_use": "id"}.get(telling, "tool_use_id"))
        ]
        if not isinstance(content, str)
    ]
    return next(index for index, kind in enumerate(kinds) if telling in kind)


@pytest.mark.parametrize("kind", ["headless", "partial"])
def test_every_byte_of_the_agent_passes(agent: str, kind: str, runs: Runs) -> None:
    seen = runs.headless(agent, kind)
    assert seen.written.count(b"\n") > 3
    assert seen.without_added() == seen.written


@pytest.mark.parametrize("kind", ["headless", "partial"])
def test_an_agent_that_beats_is_given_the_verdict_alone(agent: str, kind: str, runs: Runs) -> None:
    seen = runs.headless(agent, kind)
    added = seen.added()
    if (agent, kind) == ("qwen-code", "headless"):
        assert added == [], "its client has not asked for partial messages"
        return
    assert added
    assert {message["data"]["tool_use_id"] for message in added} == {CALL}
    assert {message["session_id"] for message in added} == {seen.messages()[0]["session_id"]}
    assert "sleeping" in {message["data"]["_meta"]["sidecar"]["verdict"] for message in added}
    places = [index for index, message in enumerate(seen.messages()) if message in added]
    assert at(seen, "tool_use") < places[0]
    assert places[-1] < at(seen, "tool_result")


def test_it_beats_by_itself(agent: str, runs: Runs) -> None:
    """As the bridge believes of this version; once it is silent, the bridge is to beat for it."""
    seen = runs.headless(agent, "partial")
    progress = [
        event
        for message in seen.messages()
        for event in (message, message.get("event", {}))
        if event.get("type") == "tool_progress"
    ]
    assert progress
    if agent == "qwen-code":
        for event in progress:
            assert event["tool_use_id"] == CALL
            assert event["content"].keys() == {"type", "elapsedMs", "timeoutMs"}


@pytest.mark.parametrize("kind", ["headless", "partial"])
def test_what_is_told_is_as_without_us(agent: str, kind: str, runs: Runs) -> None:
    told = {}
    for each in (kind, "bare-headless"):
        seen = runs.headless(agent, each)
        (result,) = seen.tool_results
        assert "first\nlast" in result
        text = json.dumps([result, results(seen), seen.exit_code], indent=1)
        told[each] = without_pids(text, runs.folder(agent, each))
    assert told[kind] == told["bare-headless"]
    assert runs.headless(agent, kind).exit_code == 0


def test_the_command_is_in_the_callers_trace(agent: str, runs: Runs) -> None:
    seen = runs.headless(agent, "headless")
    (command,) = (span for span in seen.spans if span.attributes["sidecar.span.role"] == "command")
    assert (command.trace_id, command.parent_span_id) == (seen.trace_id, seen.parent_id)
    assert {span.trace_id for span in seen.spans} == {seen.trace_id}
    assert command.attributes["process.exit.code"] == 3
    assert command.attributes["shell.heartbeat_count"] == runs.heartbeats(agent)
    assert command.attributes["session.id"] == seen.messages()[0]["session_id"]
    # Neither agent tells its command which call it is of: the bridge finds that out by the command's text.
    assert "gen_ai.tool.call.id" not in command.attributes


def test_an_agent_that_is_ended_leaves_nothing_behind(agent: str, runs: Runs) -> None:
    seen = runs.headless(agent, "ended")
    assert seen.exit_code == runs.headless(agent, "bare-ended").exit_code
    assert seen.surviving == []
    (command,) = (span for span in seen.spans if span.attributes["sidecar.span.role"] == "command")
    assert command.attributes["error.type"] == "cancelled"


def test_nothing_of_it_outlives_it(agent: str, runs: Runs) -> None:
    assert runs.headless(agent, "headless").surviving == []
    assert runs.headless(agent, "partial").surviving == []
