"""The formats of agents' protocols: golden files, ACP's official schemas and SDK, and what is never said."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import acp
import jsonschema
import pytest
from daemon_support import WAIT_S, Daemon, activity, beat, settled, started, take, verdict
from hypothesis import given
from hypothesis import strategies as st

from sidecar.core.errors import FrameError
from sidecar.daemon.fanout import ENCODERS
from sidecar.gateways import acp as acp_format
from sidecar.gateways import mcp, stream_json
from sidecar.gateways.context import Context
from sidecar.gateways.formats import FORMATS, context_of

GOLDEN = Path(__file__).parent / "gateways_golden"
SCHEMAS = Path(__file__).parent.parent / "acp_schema"
CALL = {"toolCallId": "call_1", "toolName": "run_shell_command", "sessionId": "session_1"}
COMMAND = started(**CALL, timeoutMs=30_000)
BEAT = beat(seq=1, shellProgress={"type": "shell_progress", "elapsedMs": 10_001, "timeoutMs": 30_000})
LATER = beat(
    seq=4,
    verdict="network_wait",
    evidence=["TCP 127.0.0.1:5432"],
    shellProgress={
        "type": "shell_progress",
        "elapsedMs": 24_021,
        "lastOutputAgeMs": 10_020,
        "totalLines": 12,
        "totalBytes": 840,
        "timeoutMs": 30_000,
    },
)
PROMPT = verdict(seq=5, name="awaiting_input", evidence=["reads the terminal"])
STORY = [COMMAND, BEAT, LATER, PROMPT, settled(seq=6, beats=2, exitCode=0)]
ENCODE: dict[str, Callable[..., Any]] = {
    "acp": acp_format.encode,
    "claude": stream_json.claude,
    "qwen": stream_json.qwen,
    "mcp": mcp.encode,
}
CONTEXT = Context(partial_messages=True, progress_token="token_1")


@pytest.mark.parametrize("name", sorted(ENCODE))
def test_golden(name: str) -> None:
    said = [record for frame in STORY if (record := ENCODE[name](COMMAND, frame, CONTEXT)) is not None]
    lines = (GOLDEN / f"{name}.jsonl").read_text().splitlines()
    assert said == [json.loads(line) for line in lines]


def test_every_format_has_a_golden_file() -> None:
    assert {path.stem for path in GOLDEN.glob("*.jsonl")} == set(FORMATS) == set(ENCODERS) - {"ndjson"}


@pytest.mark.parametrize("version", ["v1", "v2"])
@pytest.mark.parametrize("frame", [BEAT, LATER, PROMPT])
def test_acp_is_what_the_official_schema_allows(version: str, frame: dict[str, Any]) -> None:
    schema = json.loads((SCHEMAS / f"{version}.json").read_text())
    validator = jsonschema.Draft202012Validator(schema)
    record = acp_format.encode(COMMAND, frame, CONTEXT)
    assert record is not None
    validator.validate(record["params"])
    # The schema can tell: without its call's id an update is refused.
    broken = {**record["params"], "update": {"sessionUpdate": "tool_call_update", "status": "in_progress"}}
    if version == "v1":
        with pytest.raises(jsonschema.ValidationError):
            validator.validate(broken)


@pytest.mark.parametrize("frame", [BEAT, LATER, PROMPT])
def test_acp_is_what_the_official_sdk_reads(frame: dict[str, Any]) -> None:
    record = acp_format.encode(COMMAND, frame, CONTEXT)
    assert record is not None
    read = acp.schema.SessionNotification.model_validate(record["params"])
    update = read.update
    assert isinstance(update, acp.schema.ToolCallProgress)
    assert (read.session_id, update.tool_call_id, update.status) == ("session_1", "call_1", "in_progress")
    assert (update.title, update.kind, update.content, update.locations) == (None, None, None, None)
    assert update.field_meta == record["params"]["update"]["_meta"]


def test_without_a_tool_call_or_a_session_nothing_is_said_but_to_the_holder_of_a_token() -> None:
    for missing in ("toolCallId", "sessionId"):
        command = {key: value for key, value in COMMAND.items() if key != missing}
        for name in ("acp", "claude", "qwen"):
            assert ENCODE[name](command, BEAT, CONTEXT) is None
        assert mcp.encode(command, BEAT, CONTEXT) is not None
    assert mcp.encode(COMMAND, BEAT, Context()) is None


def test_partial_messages_are_for_those_who_asked() -> None:
    assert stream_json.qwen(COMMAND, BEAT, Context()) is None
    assert stream_json.claude(COMMAND, BEAT, Context()) is not None


def test_a_gateway_that_knows_better_names_the_call_itself() -> None:
    context = Context(session_id="other", tool_call_id="call_9", partial_messages=True)
    nameless = started()
    assert acp_format.encode(nameless, BEAT, context)["params"]["sessionId"] == "other"  # type: ignore[index]
    assert acp_format.update(nameless, BEAT, context)["toolCallId"] == "call_9"  # type: ignore[index]
    assert stream_json.claude(nameless, BEAT, context)["tool_use_id"] == "call_9"  # type: ignore[index]
    assert stream_json.qwen(nameless, BEAT, context)["event"]["tool_use_id"] == "call_9"  # type: ignore[index]


@given(st.lists(st.integers(0, 10**9), max_size=30))
def test_mcp_progress_strictly_increases_over_any_commands(beats: list[int]) -> None:
    increasing = mcp.Increasing()
    last = -1
    for elapsed_ms in beats:
        payload = {"type": "shell_progress", "elapsedMs": elapsed_ms}
        record = mcp.encode(COMMAND, beat(shellProgress=payload), CONTEXT)
        assert record is not None
        progress = increasing.lift(record)["params"]["progress"]
        assert progress > last
        assert progress >= elapsed_ms
        last = progress


@pytest.mark.parametrize(
    "subscribe", [{"includePartialMessages": 1}, {"progressToken": 1.5}, {"progressToken": True}, {"progressToken": []}]
)
def test_a_bad_subscription_is_refused(subscribe: dict[str, Any]) -> None:
    with pytest.raises(FrameError):
        context_of(subscribe)
    with pytest.raises(FrameError):
        FORMATS["mcp"]({})


def test_subscribers_of_each_format_at_a_real_daemon(tmp_path: Path) -> None:
    wanted: dict[str, dict[str, Any]] = {
        "acp": {},
        "claude": {},
        "qwen": {"includePartialMessages": True},
        "mcp": {"progressToken": "token_1"},
    }
    with Daemon(tmp_path) as daemon:
        told = {name: daemon.subscribe(format=name, **extra) for name, extra in wanted.items()}
        daemon.producer(COMMAND, BEAT, activity(seq=2), LATER, PROMPT, settled(seq=6, beats=2, exitCode=0)).close()
        daemon.producer(started("2"), beat("2"), settled("2", seq=2)).close()
        daemon.list()
        for name, subscription in told.items():
            golden = [json.loads(line) for line in (GOLDEN / f"{name}.jsonl").read_text().splitlines()]
            with subscription:
                assert take(subscription, len(golden)) == golden
                if name == "mcp":  # a command without a call of its own is told to the token's holder, in order
                    assert take(subscription, 1)[0]["params"]["progress"] > golden[-1]["params"]["progress"]
                assert subscription.next_within(0.1) is None


def test_a_subscriber_with_a_bad_format_hears_why(tmp_path: Path) -> None:
    with Daemon(tmp_path) as daemon, daemon.subscribe(format="mcp") as told:
        answer = told.next_within(WAIT_S)
    assert answer is not None
    assert answer["type"] == "error"
    assert "progressToken" in answer["message"]
