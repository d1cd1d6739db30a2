"""Real agents whose own JSON no bridge speaks, with their shell wrapped: what is seen at the receiver, and by them."""

import json
import re

import pytest
from agent_runs import Runs
from headless_session import Headless
from real_agents import WITHOUT_BRIDGE

from sidecar.testing.received import ReceivedSpan

pytestmark = [pytest.mark.parametrize("agent", WITHOUT_BRIDGE), pytest.mark.timeout(400)]
CALL = "call_1"
"""As the model named it, and as both agents tell their commands."""


def the_command(seen: Headless) -> ReceivedSpan:
    (command,) = (span for span in seen.spans if span.attributes["sidecar.span.role"] == "command")
    return command


def steady(text: str) -> str:
    """Without what differs from run to run: ids, and the time of day."""
    text = re.sub(r"\b(ses|msg|prt)_\w+|\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", "ID", text)
    text = re.sub(r'("(timestamp|start|end)": ?)\d+', r"\1TIME", text)
    return re.sub(r"Chunk ID: \w+|Wall time: [\d.]+", "VARIES", text)


def without_pid(lines: list[str]) -> set[str]:
    return {line.partition(" ")[2].strip() for line in lines}


def test_a_silent_command_beats(agent: str, runs: Runs) -> None:
    command = the_command(runs.headless(agent, "headless"))
    beats = [event.attributes for event in command.events if event.name == "sidecar.heartbeat"]
    assert command.attributes["shell.heartbeat_count"] == len(beats) == runs.heartbeats(agent) == 2
    for beat, expected_ms in zip(beats, (10_000, 20_000), strict=True):
        assert expected_ms <= beat["shell.last_output_age_ms"] < expected_ms + 5_000
        assert beat["sidecar.verdict"] == "sleeping"


def test_the_command_is_in_the_callers_trace_by_the_agents_own_ids(agent: str, runs: Runs) -> None:
    seen = runs.headless(agent, "headless")
    command = the_command(seen)
    assert (command.trace_id, command.parent_span_id) == (seen.trace_id, seen.parent_id)
    assert {span.trace_id for span in seen.spans} == {seen.trace_id}
    assert command.attributes["process.exit.code"] == 3
    assert command.attributes["gen_ai.tool.call.id"] == CALL
    first = seen.messages()[0]
    assert command.attributes["session.id"] == first.get("thread_id", first.get("sessionID"))


def test_what_is_told_is_as_without_us(agent: str, runs: Runs) -> None:
    told = {}
    for kind in ("headless", "bare-headless"):
        seen = runs.headless(agent, kind)
        (result,) = seen.tool_results
        assert "first\nlast" in result
        told[kind] = [steady(line) for line in (*seen.read.decode().splitlines(), result, f"exit {seen.exit_code}")]
    assert told["headless"] == told["bare-headless"]
    assert runs.headless(agent, "headless").exit_code == 0


def test_which_agent_names_the_call_to_its_client(agent: str, runs: Runs) -> None:
    """A bridge for codex would have no id to match by: what it prints has one of its own making."""
    named = CALL in json.dumps(runs.headless(agent, "headless").messages())
    assert named == (agent == "opencode")


def test_nothing_of_it_outlives_it(agent: str, runs: Runs) -> None:
    assert runs.headless(agent, "headless").surviving == []


@pytest.mark.parametrize(("kind", "told"), [("ended", "cancelled"), ("interrupted", "lost")])
def test_an_agent_that_is_ended_leaves_no_more_behind_than_without_us(
    agent: str, kind: str, told: str, runs: Runs
) -> None:
    """Codex kills its command's group at SIGINT, its supervisor too, of which the daemon tells; at SIGTERM it dies, and
    the kernel tells its command, whose supervisor ends all of it: without us processes stay. opencode does nothing at
    either, so the command goes on, supervised, until its user ends it."""
    seen, bare = runs.headless(agent, kind), runs.headless(agent, f"bare-{kind}")
    assert seen.exit_code == bare.exit_code
    if agent == "codex":
        assert seen.surviving == []
    else:
        assert {"sleep 3001", "sleep 3002"} < without_pid(bare.surviving) < without_pid(seen.surviving)
        told = "cancelled"
    assert the_command(seen).attributes["error.type"] == told
