"""The wire: what is built parses back, what is wrong raises FrameError and nothing else."""

import json
import os
from collections.abc import Iterator
from typing import Any

import pytest
from daemon_support import activity, beat, settled, started, verdict
from hypothesis import given
from hypothesis import strategies as st

from sidecar.core import frame as wire
from sidecar.core.errors import FrameError

SAFE_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
ANY_TEXT = st.text(st.characters(), max_size=30)
IDENTITY = ("traceId", "spanId", "traceFlags", "supervisorPid", "program", "heartbeatIntervalMs", "io")


def json_values(text: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    leaves = st.one_of(text, st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False))
    return st.recursive(
        leaves, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(SAFE_TEXT, inner, max_size=4), max_leaves=12
    )


def parsed(frame: dict[str, Any]) -> dict[str, Any] | None:
    return wire.parse(json.dumps(frame).encode())


@given(st.dictionaries(SAFE_TEXT, json_values(SAFE_TEXT), max_size=6))
def test_the_builder_means_what_json_means(fields: dict[str, Any]) -> None:
    line = wire.encode(fields)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert json.loads(line) == json.loads(json.dumps(fields)) == fields


@given(st.dictionaries(SAFE_TEXT, json_values(ANY_TEXT), max_size=6))
def test_any_text_at_all_becomes_one_line_of_good_utf8(fields: dict[str, Any]) -> None:
    line = wire.encode(fields)
    assert line.count(b"\n") == 1
    # Raises for a lone surrogate, spelt out or escaped.
    json.dumps(json.loads(line.decode()), ensure_ascii=False).encode()


@given(st.binary(max_size=40))
def test_undecodable_bytes_of_a_name_become_replacement_characters(name: bytes) -> None:
    frame = wire.parse(wire.encode(started(program=os.fsdecode(name))))
    assert frame is not None
    assert frame["program"] == name.decode("utf-8", "replace")


@given(
    program=ANY_TEXT,
    tool_call_id=st.none() | ANY_TEXT,
    pid=st.integers(0, 2**63 - 1),
    evidence=st.lists(ANY_TEXT, max_size=5),
)
def test_a_frame_comes_back_as_it_was(program: str, tool_call_id: str | None, pid: int, evidence: list[str]) -> None:
    for frame in (
        started(program=program, toolCallId=tool_call_id, pid=pid, timeoutMs=None),
        verdict(name=program, evidence=evidence),
    ):
        once = wire.parse(wire.encode(frame))
        assert once is not None
        assert once.keys() == {key for key, value in frame.items() if value is not None}
        assert wire.parse(wire.encode(once)) == once
        assert {key: value for key, value in once.items() if isinstance(value, int)} == {
            key: value for key, value in frame.items() if isinstance(value, int)
        }


def test_a_key_without_a_value_is_left_out_and_a_list_keeps_its_null() -> None:
    assert wire.encode({"a": None, "b": [None, 1], "c": {"d": None}}) == b'{"b":[null,1],"c":{}}\n'


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), b"bytes", {1, 2}, object()])
def test_what_json_cannot_say_is_refused(value: Any) -> None:
    with pytest.raises(FrameError):
        wire.encode({"a": value})


def test_the_largest_line_is_built_and_read_and_one_byte_more_is_neither() -> None:
    overhead = len(wire.encode(started(program="")))
    frame = started(program="x" * (wire.MAX_FRAME_BYTES - overhead))
    line = wire.encode(frame)
    assert len(line) == wire.MAX_FRAME_BYTES
    assert wire.parse(line) == frame
    with pytest.raises(FrameError, match="at most 8192"):
        wire.encode({**frame, "program": frame["program"] + "x"})
    with pytest.raises(FrameError, match="at most 8192"):
        wire.parse(line[:-1] + b" \n")


FRAMES = {
    wire.STARTED: started(),
    wire.PROGRESS: beat(),
    wire.ACTIVITY: activity(),
    wire.VERDICT: verdict(),
    wire.SETTLED: settled(seq=1, beats=0),
}


def required_keys() -> Iterator[tuple[str, str]]:
    optional = {"lastOutputAgeMs", "exitCode", "signal", "replay", "evidence", "heartbeatCount", "toolCallId"}
    for kind, frame in FRAMES.items():
        for key in frame:
            if key not in optional or (kind == wire.ACTIVITY):
                yield kind, key


def test_every_type_of_the_wire_is_among_the_examples() -> None:
    assert set(FRAMES) == set(wire.PRODUCER_TYPES)
    for frame in FRAMES.values():
        assert parsed(frame) == frame


@pytest.mark.parametrize(("kind", "key"), list(required_keys()))
def test_a_frame_without_a_key_it_must_have_is_an_error(kind: str, key: str) -> None:
    with pytest.raises(FrameError):
        parsed({name: value for name, value in FRAMES[kind].items() if name != key})


@pytest.mark.parametrize(("kind", "key"), [(kind, key) for kind, frame in FRAMES.items() for key in frame])
def test_a_key_of_the_wrong_type_is_an_error(kind: str, key: str) -> None:
    value = FRAMES[kind][key]
    for wrong in (None, True, 1.5, [], {}, "text", 7):
        if type(wrong) is type(value) or (key == "type" and wrong == "text"):
            continue
        if key == "evidence" and wrong == []:
            continue
        with pytest.raises(FrameError):
            parsed({**FRAMES[kind], key: wrong})


@pytest.mark.parametrize("wrong", ["true", 1, None, 0])
def test_replay_is_true_or_false(wrong: object) -> None:
    with pytest.raises(FrameError):
        parsed(beat(replay=wrong))


@pytest.mark.parametrize("number", [-1, 2**63, 10**30, 1.0, 1e300])
@pytest.mark.parametrize(("kind", "key"), [(wire.STARTED, "pid"), (wire.ACTIVITY, "totalBytes"), (wire.SETTLED, "seq")])
def test_a_number_out_of_range_is_an_error(number: float, kind: str, key: str) -> None:
    with pytest.raises(FrameError):
        parsed({**FRAMES[kind], key: number})


@pytest.mark.parametrize("wrong", ["", "zz", "A" * 32, "0_0", "-1", " f", "f" * 64, "0\n", "\u0664\u0665"])
@pytest.mark.parametrize("key", ["traceId", "spanId", "parentSpanId", "traceFlags"])
def test_an_id_that_is_none_is_an_error(key: str, wrong: str) -> None:
    for kind in (wire.STARTED, wire.SETTLED):
        with pytest.raises(FrameError, match="hex digits"):
            parsed({**FRAMES[kind], key: wrong})


@pytest.mark.parametrize("version", [0, 2, 1.0, "1", None, True, [], {"a": [1] * 100}, "x" * 4000])
def test_another_version_is_an_error_of_one_short_line(version: object) -> None:
    with pytest.raises(FrameError) as caught:
        parsed({**started(), "v": version})
    assert len(str(caught.value)) < 100
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", ["", "telepathy", "COMMAND_STARTED"])
def test_a_type_that_is_not_known_is_skipped(kind: str) -> None:
    assert parsed({"v": 1, "type": kind}) is None


@pytest.mark.parametrize("kind", [None, 1, True, [], {}])
def test_a_type_that_is_no_text_is_an_error(kind: object) -> None:
    with pytest.raises(FrameError):
        parsed({**started(), "type": kind})


@given(st.dictionaries(SAFE_TEXT.map("x-".__add__), json_values(SAFE_TEXT), max_size=4))
def test_unknown_keys_are_dropped(extra: dict[str, Any]) -> None:
    for frame in FRAMES.values():
        assert parsed({**extra, **frame}) == frame


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"\n",
        b"null",
        b"[]",
        b'"command_started"',
        b"1",
        b"{",
        b'{"v":1}',
        b'{"v":1,"type":"verdict"',
        b'{"v":1,"type":"verdict"} trailing',
        b"\xff\xfe\x00",
        b'{"type":"\xc3"}',
        b"[" * 8000,
        b"[" * 4000 + b"]" * 4000,
        b'{"a":' * 1500 + b"1" + b"}" * 1500,
        b"1" * 8000,
        b'{"v":' + b"9" * 8000 + b"}",
        b'{"v":1,"type":"verdict","seq":NaN}',
    ],
)
def test_what_is_no_frame_is_a_frame_error(line: bytes) -> None:
    with pytest.raises(FrameError):
        wire.parse(line)


@pytest.mark.parametrize("key", ["v", "type", "evidence", "unknown"])
def test_a_nesting_bomb_of_any_depth_costs_a_frame_error_at_most(key: str) -> None:
    rest = json.dumps({name: value for name, value in verdict().items() if name != key})[1:]
    for depth in (*range(900, 1000, 3), 100, 2000, 3900):
        line = f'{{"{key}":{"[" * depth}{"]" * depth},{rest}'.encode()
        assert len(line) <= wire.MAX_FRAME_BYTES
        try:
            frame = wire.parse(line)
        except FrameError:
            continue
        assert key == "unknown"
        assert frame == verdict()


@given(st.binary(max_size=200) | ANY_TEXT.map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_arbitrary_bytes_never_raise_anything_else(line: bytes) -> None:
    try:
        wire.parse(line)
    except FrameError as error:
        message = str(error)
        assert message.isprintable()


@pytest.mark.parametrize("text", ["\\ud800", "\\udfff x", "a\\udc80"])
def test_half_a_surrogate_pair_is_an_error_wherever_it_stands(text: str) -> None:
    for line in (json.dumps(started(program="@@")), json.dumps(verdict(evidence=["fine", "@@"]))):
        with pytest.raises(FrameError, match="surrogate"):
            wire.parse(line.replace("@@", text).encode())


def test_a_spawn_that_failed_carries_the_identity() -> None:
    identity = {key: value for key, value in started().items() if key not in ("type", "pid", "seq")}
    frame = {**identity, **settled(seq=0, beats=0), "reason": "spawn_failed", "error": "ENOENT"}
    assert parsed(frame) == frame
    for key in IDENTITY:
        with pytest.raises(FrameError):
            parsed({name: value for name, value in frame.items() if name != key})


OUTPUT = {"lastOutputAgeMs": 4021, "totalLines": 12, "totalBytes": 840}


@pytest.mark.parametrize(
    "payload",
    [
        {"type": "shell_progress", "elapsedMs": 0},
        {"type": "shell_progress", "elapsedMs": 10001, "timeoutMs": 30000},
        {"type": "shell_progress", "elapsedMs": 10001, **OUTPUT},
        {"type": "shell_progress", "elapsedMs": 10001, **OUTPUT, "timeoutMs": 30000},
        {"type": "shell_progress", "elapsedMs": 2**63 - 1, "lastOutputAgeMs": 0, "totalLines": 0, "totalBytes": 0},
    ],
)
def test_a_payload_of_the_reference_shape_is_one(payload: dict[str, Any]) -> None:
    assert wire.is_shell_progress(payload)


@pytest.mark.parametrize(
    "payload",
    [
        None,
        [],
        "shell_progress",
        {},
        {"type": "shell_progress"},
        {"elapsedMs": 1},
        {"type": "progress", "elapsedMs": 1},
        {"type": "shell_progress", "elapsedMs": -1},
        {"type": "shell_progress", "elapsedMs": 1.0},
        {"type": "shell_progress", "elapsedMs": "1"},
        {"type": "shell_progress", "elapsedMs": True},
        {"type": "shell_progress", "elapsedMs": 2**63},
        {"type": "shell_progress", "elapsedMs": float("nan")},
        {"type": "shell_progress", "elapsedMs": 1, "timeoutMs": None},
        {"type": "shell_progress", "elapsedMs": 1, "lastOutputAgeMs": 1},
        {"type": "shell_progress", "elapsedMs": 1, "totalLines": 1, "totalBytes": 1},
        {"type": "shell_progress", "elapsedMs": 1, **OUTPUT, "totalBytes": -1},
        {"type": "shell_progress", "elapsedMs": 1, "verdict": "computing"},
        {"type": "shell_progress", "elapsedMs": 1, "content": "text"},
        {"type": "shell_progress", "elapsedMs": 1, 7: 1},
    ],
)
def test_anything_else_is_none(payload: object) -> None:
    assert not wire.is_shell_progress(payload)


@given(
    elapsed=st.integers(0, 2**63 - 1),
    age=st.none() | st.integers(0, 2**63 - 1),
    lines=st.integers(0, 2**63 - 1),
    timeout=st.none() | st.integers(0, 2**63 - 1),
)
def test_what_the_builder_makes_passes_the_guard(
    elapsed: int, age: int | None, lines: int, timeout: int | None
) -> None:
    payload = wire.progress_payload(
        elapsed, last_output_age_ms=age, total_lines=lines, total_bytes=lines, timeout_ms=timeout
    )
    assert wire.is_shell_progress(payload)
    assert ("totalLines" in payload) == ("totalBytes" in payload) == ("lastOutputAgeMs" in payload) == (age is not None)
    assert ("timeoutMs" in payload) == (timeout is not None)


@given(
    tool_call_id=st.none() | SAFE_TEXT,
    tool_name=st.none() | SAFE_TEXT,
    state=st.none() | SAFE_TEXT,
    verdict_name=st.none() | SAFE_TEXT,
)
def test_the_native_frame_is_meta_only(
    tool_call_id: str | None, tool_name: str | None, state: str | None, verdict_name: str | None
) -> None:
    identity = started(toolCallId=tool_call_id, toolName=tool_name, traceState=state, commandLine="rm -rf /")
    progress = beat(seq=3, verdict=verdict_name, evidence=["blocked in read"])
    native = wire.native(identity, progress)
    assert native.keys() <= {"toolCallId", "status", "_meta"}
    assert native["status"] == "in_progress"
    assert ("toolCallId" in native) == (tool_call_id is not None)
    assert native.get("toolCallId") == tool_call_id
    meta: Any = native["_meta"]
    assert meta.keys() <= {"toolName", "shellProgress", "sidecar", "traceparent", "tracestate"}
    assert meta["shellProgress"] == progress["shellProgress"]
    assert meta["sidecar"]["commandId"] == progress["commandId"]
    assert meta["sidecar"]["seq"] == 3
    assert meta["traceparent"] == f"00-{'a' * 32}-{'b' * 16}-01"
    assert ("tracestate" in meta, "toolName" in meta) == (state is not None, tool_name is not None)
    assert "rm -rf" not in json.dumps(native)
    assert not {"title", "kind", "content", "locations", "rawInput", "rawOutput"} & (native.keys() | meta.keys())
