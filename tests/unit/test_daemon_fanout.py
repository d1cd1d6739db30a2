"""Subscribers: order, snapshot, filters, formats, and what becomes of a slow one."""

import json
import socket
from pathlib import Path
from typing import Any

from daemon_support import WAIT_S, Daemon, activity, beat, kinds, settled, started, take, verdict

from sidecar.core.command import Command
from sidecar.daemon.fanout import ENCODERS, FanOut, encode_record


def test_everything_in_order_and_nothing_more(tmp_path: Path) -> None:
    with Daemon(tmp_path) as daemon, daemon.subscribe() as told:
        frames = [
            started(toolCallId="call_1", toolName="shell", sessionId="s", timeoutMs=30_000),
            beat(seq=1, verdict="busy"),
            activity(seq=2),
            verdict(seq=3, name="network_wait"),
            settled(seq=4, beats=1, exitCode=0),
        ]
        daemon.producer(*frames).close()
        snapshot, start, heartbeat, change, end = take(told, 5)
        assert told.next_within(0.1) is None
    assert snapshot == {"type": "snapshot", "commands": 0}
    assert start == frames[0]
    assert heartbeat == {
        "toolCallId": "call_1",
        "status": "in_progress",
        "_meta": {
            "toolName": "shell",
            "shellProgress": {"type": "shell_progress", "elapsedMs": 10_000},
            "sidecar": {"v": 1, "seq": 1, "commandId": "c", "verdict": "busy"},
            "traceparent": f"00-{'a' * 32}-{'b' * 16}-01",
        },
    }
    assert change == {**frames[3], "toolCallId": "call_1", "sessionId": "s"}
    assert end == {**frames[4], "toolCallId": "call_1", "sessionId": "s"}


def test_the_snapshot_has_what_runs_and_how_far_it_is(tmp_path: Path) -> None:
    with Daemon(tmp_path) as daemon:
        one = daemon.producer(started("1", toolCallId="call_1"), activity("1", seq=1), beat("1", seq=2))
        two = daemon.producer(started("2", toolCallId="call_2"))
        daemon.list()
        with daemon.subscribe() as told:
            snapshot, first, second = take(told, 3)
            assert snapshot == {"type": "snapshot", "commands": 2}
            assert (first["snapshot"], first["heartbeatCount"], first["totalBytes"]) == (True, 1, 10)
            assert first["lastOutputAgeMs"] >= 0
            assert (second["commandId"], second["hasOutput"], "lastOutputAgeMs" in second) == ("2", False, False)
            one.send(settled("1", seq=3))
            assert kinds(take(told, 1)) == ["command_settled"]
        one.close()
        two.close()


def test_filters_must_all_match(tmp_path: Path) -> None:
    filters = [{"toolCallId": "a"}, {"sessionId": "x"}, {"toolCallId": "a", "sessionId": "y"}, {"toolCallId": "none"}]
    with Daemon(tmp_path) as daemon:
        subscriptions = [daemon.subscribe(**one) for one in filters]
        for command_id, tool, session in (("1", "a", "x"), ("2", "a", "y"), ("3", "b", "x")):
            frame = started(command_id, toolCallId=tool, sessionId=session)
            daemon.producer(frame, beat(command_id), settled(command_id)).close()
        daemon.producer(started("4"), settled("4")).close()
        daemon.stop()
        seen = [
            [record["commandId"] for record in told if record.get("type") == "command_started"]
            for told in subscriptions
        ]
        for told in subscriptions:
            told.close()
    assert [sorted(ids) for ids in seen] == [["1", "2"], ["1", "3"], ["2"], []]


def test_an_unknown_format_is_told_which_there_are(tmp_path: Path) -> None:
    with Daemon(tmp_path) as daemon:
        formats = "use one of acp, claude, mcp, ndjson, qwen"
        for filter, word in (({"format": "morse"}, formats), ({"sessionId": 5}, "sessionId must be")):
            told = daemon.producer({"subscribe": filter})
            line = told.socket.makefile().readline()
            assert json.loads(line)["type"] == "error"
            assert word in json.loads(line)["message"]
            assert told.is_cut_off()
            told.close()
        not_an_object = daemon.producer({"subscribe": "all"})
        assert b'"error"' in not_an_object.socket.recv(1000)
        not_an_object.close()


def test_a_slow_subscriber_is_dropped_and_told_so(tmp_path: Path) -> None:
    with Daemon(tmp_path, max_buffered_bytes=65536) as daemon, daemon.subscribe() as told:
        slow = daemon.producer({"subscribe": {}})
        slow.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        assert slow.socket.recv(1000)
        producer = daemon.producer(started(toolCallId="x" * 200))
        sent = 0
        while daemon.status()["subscribersLagged"] == 0:
            frames = [beat(seq=sent + number) for number in range(1, 101)]
            producer.send(*frames)
            take(told, 100 + (not sent) * 2)  # the other subscriber gets them all meanwhile
            sent += 100
            assert sent <= 2000
        lines = slow.socket.makefile("rb").readlines()
        assert json.loads(lines[-1]) == {"type": "lagged"}
        assert len(lines) < sent
        assert daemon.status()["subscribers"] == 1
        producer.close()
        slow.close()


class FakeLine:
    def __init__(self) -> None:
        self.written: list[bytes] = []

    def write(self, data: bytes) -> None:
        self.written.append(data)

    def get_write_buffer_size(self) -> int:
        return 0


def test_other_formats_plug_in_and_a_broken_one_harms_nobody() -> None:
    class Broken:
        def snapshot(self, commands: Any) -> Any:
            return ()

        def record(self, command: Any, frame: Any) -> Any:
            raise RuntimeError("no")

        def line(self, record: Any) -> bytes:
            return b""

    fanout = FanOut({**ENCODERS, "broken": lambda _: Broken()})
    broken, good = FakeLine(), FakeLine()
    fanout.add({"format": "broken"}, broken, lambda: None, [], 0)
    fanout.add({}, good, lambda: None, [], 0)
    command = Command(started(), 0)
    fanout.publish(command, command.identity)
    assert broken.written == [b""]
    assert len(good.written) == 2


def test_a_record_that_does_not_fit_loses_what_is_dispensable() -> None:
    frame = started(toolCallId="call_1", commandLine="é" * 3000)
    record = json.loads(encode_record(frame))
    assert "commandLine" not in record
    assert record["toolCallId"] == "call_1"
    assert encode_record({"type": "x", "program": "é" * 3000}) == b""


def test_a_subscriber_that_leaves_is_forgotten(tmp_path: Path) -> None:
    with Daemon(tmp_path) as daemon:
        told = daemon.subscribe()
        assert daemon.status()["subscribers"] == 1
        told.close()
        while daemon.status()["subscribers"]:
            pass
        assert told.next_within(WAIT_S) is None
        assert told.ended
