"""The demo is a check: what did not arrive, or arrived too late, is named."""

from dataclasses import replace
from typing import Any

import pytest

from sidecar.cli.demo_play import scenes_of
from sidecar.cli.demo_stage import stage_environment
from sidecar.cli.demo_story import Part, Story
from sidecar.testing.received import ReceivedMetric, ReceivedSpan

TRACE_ID = "1" * 32
CALL_ID = "demo-silent"
STARTED = {"type": "command_started", "toolCallId": CALL_ID, "program": "sleep", "pid": 7}
BEAT = {
    "toolCallId": CALL_ID,
    "_meta": {"shellProgress": {"type": "shell_progress", "elapsedMs": 10_000}},
}
SETTLED = {
    "type": "command_settled",
    "toolCallId": CALL_ID,
    "reason": "exited",
    "exitCode": 0,
    "elapsedMs": 15_000,
    "totalLines": 0,
    "totalBytes": 0,
    "heartbeatCount": 1,
}


def span(role: str, **attributes: Any) -> ReceivedSpan:
    return ReceivedSpan(
        name=f"sidecar.{role}",
        trace_id=TRACE_ID,
        span_id="2" * 16,
        parent_span_id="3" * 16,
        kind="INTERNAL",
        attributes={"sidecar.span.role": role, **attributes},
        events=[],
        status="UNSET",
        status_message="",
        start_unix_ns=0,
        end_unix_ns=10_000_000_000,
        trace_state="",
        resource={},
        scope="sidecar",
        received_at_ns=0,
    )


COMMAND = {"shell.heartbeat_count": 1}
HEARTBEATS = ReceivedMetric(
    name="sidecar.heartbeats",
    unit="{heartbeat}",
    description="",
    kind="sum",
    monotonic=True,
    cumulative=True,
    attributes={"verdict": "none"},
    value=1.0,
    histogram=None,
    start_unix_ns=0,
    time_unix_ns=0,
    resource={},
)


def told(*, without: str = "", late: str = "", beats: int = 1) -> Story:
    """A story in which all went well, save that `without` did not come, or `late` only after the end."""
    part = Part("silent", "-- sleep 15", TRACE_ID, 0, "exited", 1)
    story = Story([part], 4.0)
    arrivals: list[tuple[str, float, Any]] = [
        ("started", 0.0, lambda at_s: story.frame(STARTED, at_s)),
        ("started span", 0.5, lambda at_s: story.span(span("started"), at_s)),
        *[("beat", 10.0, lambda at_s: story.frame(BEAT, at_s))] * beats,
        ("beat span", 10.5, lambda at_s: story.span(span("heartbeat"), at_s)),
        ("metric", 11.0, lambda at_s: story.metrics([HEARTBEATS], at_s)),
        ("settled", 15.0, lambda at_s: story.frame(SETTLED, at_s)),
        ("exit", 15.0, lambda at_s: story.exited(part, 0, at_s)),
        ("command span", 15.5, lambda at_s: story.span(span("command", **COMMAND), at_s)),
    ]
    kept = [(name, 16.0 if name == late else at_s, tell) for name, at_s, tell in arrivals if name != without]
    for _, at_s, tell in sorted(kept, key=lambda arrival: arrival[1]):
        tell(at_s)
    return story


def test_all_well() -> None:
    story = told()
    assert story.missing() == []
    assert (story.heartbeats, story.parts[0].live_spans_in_time, story.running) == (1, 2, False)


@pytest.mark.parametrize(
    ("without", "complaint"),
    [
        ("started", "silent: 0 started frames instead of 1"),
        ("started span", "silent: no sidecar.started span"),
        ("beat", "silent: 0 heartbeat frames instead of 1"),
        ("beat span", "silent: no sidecar.heartbeat span"),
        ("metric", "the metric sidecar.heartbeats is 0 instead of 1"),
        ("settled", "silent: settled as None instead of exited"),
        ("exit", "silent: exit code None instead of 0"),
        ("command span", "silent: no span of the command itself"),
    ],
)
def test_what_did_not_come_is_named(without: str, complaint: str) -> None:
    assert told(without=without).missing() == [complaint]


def test_a_live_span_after_the_end_is_a_fault() -> None:
    assert told(late="beat span").missing() == ["silent: the live spans arrived only after its end"]


def test_a_heartbeat_too_many_is_a_fault() -> None:
    assert told(beats=2).missing() == ["silent: 2 heartbeat frames instead of 1"]


def test_a_heartbeat_after_the_end_is_a_fault() -> None:
    assert told(late="beat").missing() == ["silent: a heartbeat after the end"]


@pytest.mark.parametrize(
    ("lines", "size", "words"), [(0, 0, "0 lines"), (3, 60, "3 lines"), (0, 60, "60 bytes"), (0, 3, "3 bytes")]
)
def test_what_goes_into_a_file_is_told_of_in_bytes(lines: int, size: int, words: str) -> None:
    story = told(without="settled")
    fact = story.frame({**SETTLED, "totalLines": lines, "totalBytes": size}, 15.0)
    assert fact is not None
    assert f" s, {words}, 1 heartbeat" in fact.text


def test_metrics_are_told_when_counts_change_and_now_and_then() -> None:
    story = Story([], 4.0)
    active = replace(HEARTBEATS, name="sidecar.commands.active", value=2.0)
    age = replace(HEARTBEATS, name="sidecar.output.age", value=1.5)
    first = story.metrics([active, age], 1.0)
    assert first is not None
    assert first.text == "sidecar.commands.active 2, sidecar.heartbeats 0, sidecar.output.age 1.5 s"
    assert story.metrics([active, age], 2.0) is None
    assert story.metrics([active, age], 5.0) is not None
    beat = story.metrics([HEARTBEATS], 5.1)
    assert beat is not None
    assert "sidecar.heartbeats 1 (+1)" in beat.text


def test_arrivals_of_others_are_not_told() -> None:
    story = told()
    assert story.frame({**STARTED, "toolCallId": "another"}, 1.0) is None
    assert story.span(replace(span("started"), trace_id="f" * 32), 1.0) is None


def test_nothing_of_the_caller_leads_elsewhere() -> None:
    caller = {
        "PATH": "/bin",
        "SIDECAR_SOCKET": "/run/x",
        "OTEL_EXPORTER_OTLP_ENDPOINT": "http://other",
        "OTEL_SDK_DISABLED": "true",
        "XDG_CONFIG_HOME": "/home/a/.config",
        "TRACEPARENT": "00-" + "1" * 32 + "-" + "2" * 16 + "-00",
        "https_proxy": "http://proxy",
    }
    environ = stage_environment(caller, "/tmp/d", "http://127.0.0.1:1", 2_000_000_000, 1_000_000_000)
    assert environ["PATH"] == "/bin"
    assert environ["SIDECAR_SOCKET"] == "/tmp/d/run/sidecar.sock"
    assert environ["SIDECAR_OTLP_ENDPOINT"] == "http://127.0.0.1:1"
    assert environ["SIDECAR_HEARTBEAT_INTERVAL"] == "2s"
    assert environ["XDG_CONFIG_HOME"] == "/tmp/d/config_home"
    assert not environ.keys() & {"OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_SDK_DISABLED", "TRACEPARENT", "https_proxy"}


@pytest.mark.parametrize("scale", [1.0, 0.2])
def test_the_scenes_leave_time_between_the_last_heartbeat_and_the_end(scale: float) -> None:
    talks, silent, hangs = scenes_of(scale)
    assert [scene.part.expected_beats for scene in (talks, silent, hangs)] == [0, 2, 1]
    assert silent.argv == ["sleep", f"{25 * scale:g}"]
    assert hangs.options == ["--timeout", "15s" if scale == 1.0 else "3s"]


def test_the_verdict_is_told_by_each_way_it_comes() -> None:
    story = Story([Part("silent", "-- sleep 15", TRACE_ID, 0, "exited", 1)], 4.0)
    said = {"type": "verdict", "toolCallId": CALL_ID, "verdict": "sleeping", "evidence": ["sleeps, asked for 15 s"]}
    beat = {**BEAT, "_meta": {"shellProgress": {"elapsedMs": 10_000}, "sidecar": {"verdict": "sleeping"}}}
    facts = [
        story.frame(said, 3.5),
        story.span(span("heartbeat", **{"sidecar.verdict": "sleeping"}), 4.0),
        story.frame(beat, 10.0),
    ]
    assert [fact.text for fact in facts if fact is not None] == [
        "verdict sleeping: sleeps, asked for 15 s",
        "sidecar.heartbeat, covers 10.0 s of silence, verdict sleeping",
        "heartbeat 1: running for 10.0 s, no output yet, verdict sleeping",
    ]
