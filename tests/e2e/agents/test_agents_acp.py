"""Real agents over ACP, through `sidecar bridge acp`, with their shell wrapped: a scripted model, the official SDK."""

import json

import pytest
from acp_session import Json, Seen, is_ours, without_pids
from agent_runs import Runs
from real_agents import AGENTS, OVER_ACP

ENDS = ("completed", "failed", "cancelled")
pytestmark = [pytest.mark.parametrize("agent", OVER_ACP), pytest.mark.timeout(400)]


def meta(update: Json) -> Json:
    body: Json = update.get("_meta") or {}
    return body


def the_call(seen: Seen) -> str:
    """The id of the one call, which is the agent's: it said so before any frame of ours, and nothing else is named."""
    named = [update["toolCallId"] for update in seen.of_calls() if not is_ours(update)] + seen.questions
    assert len(set(named)) == 1, named
    return named[0]


def check_frames(seen: Seen) -> list[Json]:
    """Ours: the agent's own call, meta only, none before the agent's first word of it, none after its end."""
    call, updates = the_call(seen), seen.of_calls()
    ours = [update for update in updates if is_ours(update)]
    for frame in ours:
        assert frame.keys() == {"sessionUpdate", "toolCallId", "status", "_meta"}, frame
        assert (frame["sessionUpdate"], frame["toolCallId"]) == ("tool_call_update", call)
        assert frame["status"] == "in_progress"
    ends = [index for index, update in enumerate(updates) if update.get("status") in ENDS]
    assert len(ends) == 1, updates
    assert ends[0] == len(updates) - 1, "nothing of the call comes after its end"
    assert ours
    sequence = [meta(frame)["sidecar"]["seq"] for frame in ours]
    assert sequence == sorted(set(sequence))
    return ours


def test_a_silent_command_beats(agent: str, runs: Runs) -> None:
    seen = runs.of(agent, "silent")
    ours = check_frames(seen)
    assert seen.stop_reason == "end_turn"
    assert seen.exit_code == 0
    assert "sleeping" in {meta(frame)["sidecar"].get("verdict") for frame in ours}
    beats = [meta(update)["shellProgress"] for update in seen.of_calls() if "shellProgress" in meta(update)]
    added = [meta(frame)["shellProgress"] for frame in ours if "shellProgress" in meta(frame)]
    if AGENTS[agent].own_beats:
        assert beats, "the agent has become silent: let the bridge beat for it"
        assert added == [], "not a second beat"
        return
    assert beats == added
    assert [beat["type"] for beat in beats] == ["shell_progress"] * 2
    for beat, expected_ms in zip(beats, (10_000, 20_000), strict=True):
        assert expected_ms <= beat["lastOutputAgeMs"] < expected_ms + 5_000
        assert beat["lastOutputAgeMs"] <= beat["elapsedMs"]
        assert (beat["totalLines"], beat["totalBytes"]) in ((1, 6), (1, 7))  # a terminal writes \r\n


def test_what_the_agent_is_told_is_as_without_us(agent: str, runs: Runs) -> None:
    """The model gets the same result, and the client the same words on the call."""
    told = {}
    for kind in ("silent", "bare"):
        seen = runs.of(agent, kind)
        (result,) = seen.tool_results
        assert "first\nlast" in result
        own = [update for update in seen.updates if not is_ours(update) and "shellProgress" not in meta(update)]
        on_calls = [update for update in own if "toolCallId" in update]
        text = json.dumps([result, seen.questions, on_calls, seen.stop_reason, seen.exit_code], indent=1)
        told[kind] = without_pids(text, runs.folder(agent, kind)).splitlines()
    assert told["silent"] == told["bare"]
    assert not any(map(is_ours, runs.of(agent, "bare").updates))


def test_a_cancelled_turn_leaves_nothing_behind(agent: str, runs: Runs) -> None:
    seen = runs.of(agent, "cancelled")
    check_frames(seen)
    assert seen.stop_reason == "cancelled"
    assert seen.lingering == []
    assert seen.surviving == []
    (command,) = (span for span in seen.spans if span.attributes["sidecar.span.role"] == "command")
    assert command.attributes["error.type"] == "cancelled"


def test_nothing_of_a_turn_outlives_it(agent: str, runs: Runs) -> None:
    seen = runs.of(agent, "silent")
    assert seen.lingering == []
    assert seen.surviving == []


def test_the_command_is_in_the_clients_trace(agent: str, runs: Runs) -> None:
    seen = runs.of(agent, "silent")
    (command,) = (span for span in seen.spans if span.attributes["sidecar.span.role"] == "command")
    assert (command.trace_id, command.parent_span_id) == (seen.trace_id, seen.parent_id)
    assert {span.trace_id for span in seen.spans} == {seen.trace_id}
    assert command.attributes["process.exit.code"] == 3
    assert command.attributes["shell.heartbeat_count"] == 2
