"""The main job, as an operator sees it: real commands, real daemon, real OTLP, the installed script."""

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sidecar.cli.demo_stage import Stage
from sidecar.core.errors import DaemonUnavailable
from sidecar.daemon import client
from sidecar.testing.otlp import OtlpReceiver
from sidecar.testing.received import ReceivedSpan

SECOND_NS = 1_000_000_000
TRACE_ID, PARENT_ID = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
TRACEPARENT = f"00-{TRACE_ID}-{PARENT_ID}-01"


def role(name: str) -> Callable[[ReceivedSpan], bool]:
    return lambda span: span.attributes.get("sidecar.span.role") == name


def until_settled(subscription: client.Subscription, timeout_s: float) -> list[dict[str, Any]]:
    """All records after the snapshot, up to command_settled and what comes in the second after it."""
    records: list[dict[str, Any]] = []
    deadline_s = time.monotonic() + timeout_s
    while time.monotonic() < deadline_s and not (records and records[-1].get("type") == "command_settled"):
        record = subscription.next_within(max(0.0, deadline_s - time.monotonic()))
        if record is not None and record.get("type") != "snapshot":
            records.append(record)
    while (late := subscription.next_within(1.0)) is not None:
        records.append(late)
    return records


def exit_code_within(running: Any, timeout_s: float) -> int | None:
    deadline_s = time.monotonic() + timeout_s
    while running.exit_code() is None and time.monotonic() < deadline_s:
        time.sleep(0.02)
    code: int | None = running.exit_code()
    return code


def test_a_silent_command_beats_once_and_is_seen_while_it_runs(stage: Stage, receiver: OtlpReceiver) -> None:
    stage.start_daemon(receiver.http_endpoint, 10 * SECOND_NS, SECOND_NS)
    with client.subscribe(stage.socket_path, {"toolCallId": "call_1"}) as subscription:
        began_ns = time.monotonic_ns()
        running = stage.start(["--timeout", "30s", "--tool-call-id", "call_1"], ["sleep", "18"], "sleep", TRACEPARENT)
        started = receiver.wait_for_span(role("started"), 15)
        beat = receiver.wait_for_span(role("heartbeat"), 15)
        # After ten seconds; the rest is room for a loaded machine.
        assert max(started.received_at_ns, beat.received_at_ns) - began_ns < 15 * SECOND_NS
        assert running.exit_code() is None
        records = until_settled(subscription, 30)
    assert exit_code_within(running, 20) == 0

    # Why it is silent is told between heartbeats, as soon as it is known.
    verdicts = [record["verdict"] for record in records if record.get("type") == "verdict"]
    assert set(verdicts) <= {"sleeping"}
    records = [record for record in records if record.get("type") != "verdict"]
    assert [record.get("type") for record in records] == ["command_started", None, "command_settled"]
    progress = records[1]["_meta"]["shellProgress"]
    assert 10_000 <= progress.pop("elapsedMs") <= 12_000
    assert progress == {"type": "shell_progress", "timeoutMs": 30_000}
    assert records[1]["toolCallId"] == "call_1"

    command = receiver.wait_for_span(role("command"), 20)
    assert (command.trace_id, command.parent_span_id) == (TRACE_ID, PARENT_ID)
    assert command.attributes["shell.heartbeat_count"] == 1
    assert command.attributes["process.exit.code"] == 0
    assert command.attributes["gen_ai.tool.call.id"] == "call_1"
    assert {started.trace_id, beat.trace_id} == {TRACE_ID}
    assert {started.parent_span_id, beat.parent_span_id} == {command.span_id}


def test_output_that_flows_never_beats(stage: Stage, receiver: OtlpReceiver) -> None:
    stage.start_daemon(receiver.http_endpoint, 2 * SECOND_NS, SECOND_NS)
    with client.subscribe(stage.socket_path) as subscription:
        flowing = "seq 100 | while read i; do echo $i; sleep 0.1; done"
        running = stage.start([], ["sh", "-c", flowing], "flow", TRACEPARENT)
        records = until_settled(subscription, 40)
    assert exit_code_within(running, 20) == 0
    assert [record.get("type") for record in records] == ["command_started", "command_settled"]
    assert running.output().split() == [b"%d" % number for number in range(1, 101)]


def test_a_killed_supervisor_is_a_lost_command(stage: Stage, receiver: OtlpReceiver) -> None:
    stage.start_daemon(receiver.http_endpoint, 10 * SECOND_NS, SECOND_NS)
    with client.subscribe(stage.socket_path) as subscription:
        stage.start([], ["sleep", "60"], "sleep", TRACEPARENT)
        assert subscription.next_within(20) == {"type": "snapshot", "commands": 0}
        started = subscription.next_within(20)
        assert started is not None
        killed_ns = time.monotonic_ns()
        os.kill(started["supervisorPid"], signal.SIGKILL)
        settled = until_settled(subscription, 20)
    assert [record["reason"] for record in settled] == ["lost"]
    span = receiver.wait_for_span(role("command"), 20)
    assert span.received_at_ns - killed_ns < 8 * SECOND_NS, "at once, not with the heartbeat that is due after ten"
    assert span.attributes["error.type"] == "lost"
    receiver.wait_for_metric(lambda point: point.name == "sidecar.commands.lost" and point.value == 1, 20)


def test_a_killed_daemon_is_replaced_and_nothing_is_counted_twice(stage: Stage, receiver: OtlpReceiver) -> None:
    pid = stage.start_daemon(receiver.http_endpoint, 2 * SECOND_NS, SECOND_NS)
    running = stage.start(["--tool-call-id", "call_2"], ["sleep", "15"], "sleep", TRACEPARENT)
    receiver.wait_for_span(role("heartbeat"), 20)
    os.kill(pid, signal.SIGKILL)
    commands: list[dict[str, Any]] = []
    deadline_s = time.monotonic() + 12
    while not commands and time.monotonic() < deadline_s:
        time.sleep(0.1)
        try:
            answers = list(client.request(stage.socket_path, "list"))
        except DaemonUnavailable:
            continue
        commands = [answer for answer in answers if answer["type"] == "command"]
    assert [command["toolCallId"] for command in commands] == ["call_2"]
    assert commands[0]["heartbeatCount"] >= 1
    assert client.status(stage.socket_path)["pid"] != pid

    assert exit_code_within(running, 30) == 0
    span = receiver.wait_for_span(role("command"), 20)
    assert span.attributes["shell.heartbeat_count"] in (6, 7)  # one each 2 s; the last may come too late
    time.sleep(1)
    assert len([each for each in receiver.spans if role("command")(each)]) == 1


def test_why_commands_are_silent_is_in_live_spans_before_any_heartbeat(
    stage: Stage, receiver: OtlpReceiver, tmp_path: Path
) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    lock = "import threading as t; l = t.Lock(); l.acquire(); l.acquire()"
    service = "import socket; s = socket.create_server(('127.0.0.1', 0)); s.accept()"
    commands = {
        "awaiting_input": (["--pty"], ["bash", "-c", "read -r x </dev/tty"]),
        "sleeping": ([], ["sleep", "600"]),
        "fifo_wait": ([], ["cat", str(fifo)]),
        "deadlock_suspected": ([], [sys.executable, "-c", lock]),
        "listening": ([], [sys.executable, "-c", service]),
        "computing": ([], ["sh", "-c", f"timeout 600 {sys.executable} -c 'while 1: pass' | tail -1"]),
    }
    stage.start_daemon(receiver.http_endpoint, 600 * SECOND_NS, SECOND_NS)
    running = [stage.start(flags, argv, name, TRACEPARENT) for name, (flags, argv) in commands.items()]
    for name in commands:
        span = receiver.wait_for_span(lambda span, name=name: span.attributes.get("sidecar.verdict") == name, 60)
        assert span.attributes["sidecar.span.role"] == "heartbeat"
        assert span.trace_id == TRACE_ID
        assert span.attributes["sidecar.evidence"]
        assert span.attributes["sidecar.verdict.confidence"] in ("proved", "measured", "inferred")
        assert span.attributes["sidecar.verdict.leaf.pid"] > 1
        assert [event.name for event in span.events] == ["sidecar.verdict"]
        assert span.attributes["sidecar.elapsed_ms"] < 100_000, "the first heartbeat is due after ten minutes"
    assert [one.exit_code() for one in running] == [None] * len(running)
    listed = [record for record in client.request(stage.socket_path, "list") if record["type"] == "command"]
    assert sorted(record["verdict"] for record in listed) == sorted(commands)
