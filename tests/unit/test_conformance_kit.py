"""The conformance kit: its data, right consumers pass, wrong ones fail with the rule's name, streams are judged."""

import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from sidecar.cli.main import root
from sidecar.conformance import consumer, stream, vectors
from sidecar.conformance.rules import ALL, CONSUMER, PRODUCER

NAIVE = Path(__file__).with_name("naive_consumer.py")
PAGE = Path(__file__).parents[2] / "docs" / "gateways.md"
Message = dict[str, Any]


def words(fault: str) -> list[str]:
    return [sys.executable, "-IS", str(NAIVE), fault]


def faults(fault: str, protocol: str, timeout_s: float = 20.0) -> list[consumer.Fault]:
    found = (consumer.check(words(fault), each, timeout_s) for each in vectors.load(protocol))
    return [each for each in found if each is not None]


@pytest.mark.parametrize("protocol", vectors.PROTOCOLS)
def test_a_right_consumer_passes(protocol: str) -> None:
    assert faults("none", protocol) == []


WRONG = [
    ("any update ends", "acp", "beat-is-no-end"),
    ("kind required", "acp", "kind-is-not-required"),
    ("kind cleared", "acp", "kind-is-not-required"),
    ("title overwritten", "acp", "title-is-kept"),
    ("title dropped", "acp", "title-is-kept"),
    ("output cleared", "acp", "output-is-kept"),
    ("output dropped", "acp", "output-is-kept"),
    ("acp beats are text", "acp", "progress-is-not-text"),
    ("late beat revives", "acp", "late-beat-is-dropped"),
    ("start required", "acp", "unknown-call-is-no-error"),
    ("start makes a card", "acp", "beat-is-no-end"),
    ("keys known", "acp", "unknown-keys-are-skipped"),
    ("all calls touched", "acp", "other-calls-are-untouched"),
    ("end after a beat is lost", "acp", "end-is-taken"),
    ("types known", "stream-json", "unknown-messages-are-skipped"),
    ("beats are cards", "stream-json", "no-call-is-invented"),
    ("beats are text", "stream-json", "progress-is-not-text"),
    ("system is text", "stream-json", "progress-is-not-text"),
    ("late beat revives", "stream-json", "late-beat-is-dropped"),
    ("chatty", "acp", "one-answer-a-line"),
]


@pytest.mark.parametrize(("fault", "protocol", "rule"), WRONG)
def test_a_naive_consumer_fails_and_hears_which_rule_it_breaks(fault: str, protocol: str, rule: str) -> None:
    found = faults(fault, protocol)
    assert rule in {each.rule for each in found}
    assert all(each.rule in CONSUMER for each in found)
    assert f"{rule}: {ALL[rule]}. Here: " in str(next(each for each in found if each.rule == rule))


def test_a_consumer_that_does_not_answer_is_not_waited_for() -> None:
    (vector, *_) = vectors.load("acp")
    found = consumer.check(words("silent"), vector, 0.2)
    assert found is not None
    assert found.rule == "one-answer-a-line"


def test_the_data_are_whole() -> None:
    names = [name.removesuffix(".json") for name, _ in vectors.sources()]
    assert sorted(names) == [each.name for each in vectors.load()]
    for each in vectors.load():
        assert each.protocol in vectors.PROTOCOLS
        assert {step.rule for step in each.steps} <= set(CONSUMER)
        assert any(step.beat is not None for step in each.steps)
        for step in each.steps:
            assert stream.is_beat(json.loads(step.line)) is (step.beat is not None)


LATE = {"acp-late-beat", "acp-late-beat-failed", "qwen-late-beat", "claude-late-beat"}
UNKNOWN = {"acp-no-start-seen", "qwen-no-start-seen", "claude-no-start-seen", "claude-invented-id"}


def test_the_sequences_as_streams() -> None:
    """Those that test a consumer's patience are none that a producer may write; the others are."""
    for each in vectors.load():
        rules = {found.rule for found in stream.faults((step.line for step in each.steps), each.protocol)}
        if each.name in LATE:
            assert rules == {"not-after-the-end"}
        elif each.name in UNKNOWN:
            assert rules == {"call-is-known"}
        elif each.name.endswith("unknown-keys"):
            assert rules <= {"meta-only", "payload-to-the-letter"}
        else:
            assert rules == set()


def beat(**changes: Any) -> Message:
    meta = {"shellProgress": {"type": "shell_progress", "elapsedMs": 1}, "sidecar": {"commandId": "c", "seq": 1}}
    return {
        "sessionUpdate": "tool_call_update",
        "toolCallId": "call_1",
        "status": "in_progress",
        "_meta": meta,
        **changes,
    }


CALL = {"sessionUpdate": "tool_call", "toolCallId": "call_1", "title": "Shell", "status": "in_progress"}
END = {"sessionUpdate": "tool_call_update", "toolCallId": "call_1", "status": "cancelled"}
STREAMS = [
    ([beat()], "call-is-known"),
    ([CALL, beat(toolCallId="call_2")], "call-is-known"),
    ([CALL, END, beat()], "not-after-the-end"),
    ([CALL, beat(title="x")], "meta-only"),
    ([CALL, beat(content=[])], "meta-only"),
    ([CALL, beat(status="completed")], "status-is-in_progress"),
    ([CALL, beat(_meta={"shellProgress": {"type": "shell_progress"}})], "payload-to-the-letter"),
    (
        [CALL, beat(_meta={"shellProgress": {"type": "shell_progress", "elapsedMs": 1, "x": 1}})],
        "payload-to-the-letter",
    ),
    ([CALL, beat(), beat()], "seq-increases"),
]


@pytest.mark.parametrize(("updates", "rule"), STREAMS)
def test_a_wrong_stream(updates: list[Message], rule: str) -> None:
    lines = [acp(update) for update in updates]
    assert [found.rule for found in stream.faults([b"{not json\n", b"5\n", *lines], "acp")] == [rule]
    assert rule in PRODUCER


def acp(update: Message) -> bytes:
    message = {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": update}}
    return json.dumps(message).encode() + b"\n"


def run(*arguments: str, **extra: Any) -> tuple[int, str]:
    done = CliRunner().invoke(root, ["conformance", *arguments], **extra)
    return done.exit_code, done.output


def test_the_command(tmp_path: Path) -> None:
    code, output = run("--vector", "acp-beat-between", "--", *words("none"))
    assert (code, output) == (0, "ok    acp-beat-between\n")
    code, output = run("--json", "--vector", "acp-beat-between", "--", *words("title overwritten"))
    assert code == 1
    record = json.loads(output)
    assert (record["ok"], record["rule"], record["line"]) == (False, "title-is-kept", 3)
    assert run("--export", str(tmp_path / "vectors"))[0] == 0
    assert {path.stem for path in (tmp_path / "vectors").iterdir()} == {each.name for each in vectors.load()}
    code, output = run("--list", "--protocol", "stream-json")
    assert code == 0
    assert all(rule in output for rule in ALL)


def test_a_recorded_stream_and_a_gateway(tmp_path: Path) -> None:
    recorded = tmp_path / "stream"
    recorded.write_bytes(acp(CALL) + acp(beat()))
    assert run("--stream", str(recorded)) == (0, f"ok    {recorded}\n")
    recorded.write_bytes(acp(CALL) + acp(END) + acp(beat()))
    code, output = run("--stream", str(recorded))
    assert code == 1
    assert "line 3: not-after-the-end" in output
    code, output = run("--gateway", "--", "cat")
    assert code == 1
    failed = re.findall(r"FAIL  (\S+):", output)
    assert set(failed) == {"acp-late-beat", "acp-late-beat-failed", "acp-no-start-seen"}
    assert "nothing-is-lost" in run("--gateway", "--vector", "acp-failed", "--", "head", "-n", "2")[1]


@pytest.mark.parametrize("arguments", [(), ("--vector", "none", "--", "cat"), ("--", "/no/such/consumer")])
def test_what_cannot_be_checked(arguments: tuple[str, ...]) -> None:
    code, _ = run(*arguments)
    assert code not in (0, 1)


def snippets(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(), re.DOTALL)


@pytest.mark.parametrize("number", range(2), ids=vectors.PROTOCOLS)
@pytest.mark.parametrize("language", ["python", "typescript"])
def test_the_pages_consumers_pass(language: str, number: int, tmp_path: Path) -> None:
    source = snippets(language)[number]
    if language == "python":
        file = tmp_path / "consumer.py"
        file.write_text(source)
        argv = [sys.executable, str(file)]
    else:
        node = shutil.which("node")
        if node is None:
            pytest.skip("there is no node here")
        file = tmp_path / "consumer.mjs"
        file.write_text(source)
        argv = [node, str(file)]
    protocol = vectors.PROTOCOLS[number]
    for each in vectors.load(protocol):
        assert consumer.check(argv, each, 20.0) is None, each.name


def test_the_pages_example_of_a_failure_is_what_is_said() -> None:
    _, output = run("--vector", "acp-beat-first", "--", *words("any update ends"))
    said = re.search(r"FAIL  acp-beat-first:.*?shown as completed\.", PAGE.read_text(), re.DOTALL)
    assert said is not None
    assert said[0].split() == output.split()
