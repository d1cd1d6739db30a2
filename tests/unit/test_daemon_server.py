"""The socket server, with real sockets: producers, their loss and return, control, hostile clients, the end."""

import json
import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from daemon_support import WAIT_S, Daemon, Producer, RecordingSink, activity, beat, kinds, settled, started, take

from sidecar.core.errors import DaemonUnavailable
from sidecar.daemon import client
from sidecar.daemon.connection import Limits


def test_what_a_producer_says_reaches_sink_and_list(tmp_path: Path) -> None:
    with Daemon(tmp_path) as daemon, daemon.subscribe() as told:
        producer = daemon.producer(started(toolCallId="call_1"), activity(seq=1), beat(seq=2, verdict="busy"))
        assert kinds(take(told, 3)) == ["snapshot", "command_started", "native"]
        row, end = daemon.list()
        assert end == {"type": "end", "count": 1}
        assert row["commandId"] == "c"
        assert row["toolCallId"] == "call_1"
        assert row["heartbeatCount"] == 1
        assert row["verdict"] == "busy"
        assert row["silent"] is True
        assert row["totalBytes"] == 10
        producer.send(settled(seq=3, beats=1))
        assert kinds(take(told, 1)) == ["command_settled"]
        assert daemon.list() == [{"type": "end", "count": 0}]
        assert list(daemon.sink.provider()) == []
        producer.close()
    assert daemon.sink.calls == [("started", "c"), ("heartbeat", "c"), ("settled", "c", "exited")]


def test_status(tmp_path: Path) -> None:
    with Daemon(tmp_path) as daemon, daemon.subscribe():
        daemon.producer(started()).close()
        status = daemon.status()
    assert status["pid"] == os.getpid()
    assert status["socket"] == daemon.path
    assert status["commands"] == 1
    assert status["subscribers"] == 1
    assert status["framesReceived"] == 1
    assert status["telemetry"] == {"recorded": 1}


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ({"problems": [f"{n} {'x' * 500}" for n in range(40)], "n": 1}, {"n": 1}),
        ({"text": "x" * 9000}, {"truncated": True}),
        ({"odd": {1, 2}}, {"truncated": True}),
    ],
)
def test_a_talkative_sink_does_not_cost_the_status(tmp_path: Path, said: Any, shown: Any) -> None:
    class Talkative(RecordingSink):
        def status(self) -> Any:
            return said

    with Daemon(tmp_path, sink=Talkative()) as daemon:
        telemetry = daemon.status()["telemetry"]
        problems = telemetry.pop("problems", None)
        assert telemetry == shown
        assert problems is None or problems[-1].startswith("39 ")


def test_an_unknown_request_is_answered(tmp_path: Path) -> None:
    with Daemon(tmp_path) as daemon, pytest.raises(DaemonUnavailable, match="one of cancel, flush, list, status, stop"):
        list(client.request(daemon.path, "dance"))


def test_stop(tmp_path: Path) -> None:
    with Daemon(tmp_path) as daemon:
        assert [answer["type"] for answer in client.request(daemon.path, "stop")] == ["stopping"]
        daemon.stop()
        with pytest.raises(DaemonUnavailable, match="no daemon is running"):
            client.status(daemon.path)


def test_all_is_read_of_one_who_was_gone_before_the_accept(tmp_path: Path) -> None:
    def come_and_go(path: str) -> None:
        for number in range(50):
            Producer(path, started(str(number)), settled(str(number))).close()

    with Daemon(tmp_path, before=come_and_go) as daemon:
        daemon.stop()
    assert len(daemon.sink.calls) == 100
    assert {call[-1] for call in daemon.sink.calls if call[0] == "settled"} == {"exited"}


# --- loss and return -------------------------------------------------------------------------------------


def test_a_dropped_supervisor_is_lost_within_two_seconds(tmp_path: Path) -> None:
    with Daemon(tmp_path, grace_s=1.0) as daemon, daemon.subscribe() as told:
        producer = daemon.producer(started(toolCallId="call_1"), beat(seq=1))
        take(told, 3)
        dropped = time.monotonic()
        producer.close()
        (end,) = take(told, 1)
        assert time.monotonic() - dropped > 0.9
    assert Limits().grace_s <= 1.0  # what is left of the two seconds is the machine's
    assert end["type"] == "command_settled"
    assert end["reason"] == "lost"
    assert end["toolCallId"] == "call_1"
    assert end["heartbeatCount"] == 1
    assert daemon.sink.calls[-1] == ("settled", "c", "lost")


@pytest.mark.parametrize("first_words", [[started(replay=True), beat(seq=1, replay=True), beat(seq=2)], [beat(seq=2)]])
def test_one_who_returns_within_the_grace_is_not_lost(tmp_path: Path, first_words: list[Any]) -> None:
    with Daemon(tmp_path, grace_s=WAIT_S) as daemon, daemon.subscribe() as told:
        daemon.producer(started(), beat(seq=1)).close()
        assert kinds(take(told, 3)) == ["snapshot", "command_started", "native"]
        graces = daemon.server.producers._graces
        while not graces:  # until the loss is noticed
            time.sleep(0.001)
        again = daemon.producer(*first_words)
        # Duplicates are not fanned out: the next is the new beat, and nothing is left that would tell of a loss.
        assert take(told, 1)[0]["_meta"]["sidecar"]["seq"] == 2
        assert not graces
        again.send(settled(seq=3, beats=2))
        assert take(told, 1)[0]["reason"] == "exited"
        again.close()
    assert [call[0] for call in daemon.sink.calls] == ["started", "heartbeat", "heartbeat", "settled"]


def test_one_who_returns_before_the_old_connection_was_missed_takes_over(tmp_path: Path) -> None:
    with Daemon(tmp_path) as daemon, daemon.subscribe() as told:
        old = daemon.producer(started())
        take(told, 2)
        new = daemon.producer(started(replay=True), beat(seq=1))
        take(told, 1)
        old.close()
        assert told.next_within(0.5) is None
        new.send(settled(seq=2))
        assert take(told, 1)[0]["reason"] == "exited"
        new.close()


def test_a_replay_to_a_new_daemon_is_state_only(tmp_path: Path) -> None:
    with Daemon(tmp_path) as daemon, daemon.subscribe() as told:
        producer = daemon.producer(started(replay=True), beat(seq=4, heartbeatCount=4, replay=True), beat(seq=5))
        assert kinds(take(told, 2)) == ["snapshot", "native"]
        assert daemon.list()[0]["commandId"] == "c"
        with daemon.subscribe() as late:
            record = take(late, 2)[1]
            assert record["snapshot"] is True
            assert "replay" not in record
        producer.send(settled(seq=6, beats=5))
        take(told, 1)
        producer.close()
    assert [call[0] for call in daemon.sink.calls] == ["heartbeat", "settled"]


# --- clients that misbehave ------------------------------------------------------------------------------

HOSTILE = {
    "no JSON": b"hello\n",
    "no object": b"[1]\n",
    "no type": b"{}\n",
    "empty line": b"\n",
    "binary": bytes(range(256)) + b"\n",
    "another version": json.dumps({**beat(), "v": 2}).encode() + b"\n",
    "a missing key": b'{"v":1,"type":"shell_progress","commandId":"c","seq":1}\n',
    "nested": b"[" * 8000 + b"\n",
    "a huge number": b'{"v":1,"type":"verdict","commandId":"c","seq":' + b"9" * 5000 + b"}\n",
    "half a surrogate": json.dumps(beat(verdict="\ud800")).encode() + b"\n",
    "oversized": b'{"v":1,"x":"' + b"x" * 8192 + b'"}\n',
    "oversized, no end": b"x" * 100_000,
    "another command": json.dumps(started("other")).encode() + b"\n",
    "a second start": json.dumps(started(seq=5)).encode() + b"\n",
}


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_hostile_line_costs_its_sender_only(tmp_path: Path, data: bytes) -> None:
    with Daemon(tmp_path, grace_s=0.05) as daemon, daemon.subscribe() as told:
        good = daemon.producer(started("good"))
        bad = daemon.producer(started())
        take(told, 3)
        try:
            bad.raw(data)
        except (BrokenPipeError, ConnectionResetError):
            pass
        assert bad.is_cut_off()
        (lost,) = take(told, 1)
        assert (lost["commandId"], lost["reason"]) == ("c", "lost")
        good.send(beat("good", seq=1))
        assert take(told, 1)[0]["_meta"]["sidecar"]["commandId"] == "good"
        assert daemon.status()["connectionsRefused"] == 1
        good.close()
        bad.close()


@pytest.mark.parametrize("intruder", [beat(seq=7), settled(seq=7), started(spanId="f" * 16), started(supervisorPid=99)])
def test_nobody_touches_the_command_of_another(tmp_path: Path, intruder: Any) -> None:
    with Daemon(tmp_path, grace_s=0.05) as daemon, daemon.subscribe() as told:
        owner = daemon.producer(started())
        take(told, 2)
        other = daemon.producer(intruder)
        assert other.is_cut_off()
        owner.send(beat(seq=1))
        assert kinds(take(told, 1)) == ["native"]
        owner.close()


def test_an_unknown_type_is_skipped(tmp_path: Path) -> None:
    with Daemon(tmp_path) as daemon, daemon.subscribe() as told:
        producer = daemon.producer({"v": 1, "type": "from_the_future"}, started(), {"v": 1, "type": "x"}, beat())
        assert kinds(take(told, 3)) == ["snapshot", "command_started", "native"]
        producer.close()


def test_a_flood_costs_its_sender_only(tmp_path: Path) -> None:
    with Daemon(tmp_path, grace_s=0.05, burst_lines=500) as daemon, daemon.subscribe(toolCallId="good") as told:
        good = daemon.producer(started("good", toolCallId="good"))
        take(told, 2)
        flooders = [daemon.producer(started(f"bad{number}")) for number in range(3)]
        stop = threading.Event()

        def flood(producer: Producer, command_id: str) -> None:
            line = json.dumps(beat(command_id, seq=1)).encode() + b"\n"
            try:
                while not stop.is_set():
                    producer.raw(line * 50)
            except OSError:
                pass

        threads = [
            threading.Thread(target=flood, args=(producer, f"bad{number}")) for number, producer in enumerate(flooders)
        ]
        for thread in threads:
            thread.start()
        slowest_s = 0.0
        for seq in range(1, 20):
            before = time.monotonic()
            good.send(beat("good", seq=seq))
            take(told, 1)
            slowest_s = max(slowest_s, time.monotonic() - before)
        for thread in threads:
            thread.join(WAIT_S)
        assert not any(thread.is_alive() for thread in threads), "a flooder was not cut off"
        stop.set()
        assert slowest_s < WAIT_S / 2  # it is a few milliseconds, on a machine of one's own
        assert daemon.status()["connectionsRefused"] == 3
        assert [row.get("commandId") for row in daemon.list()][:1] == ["good"]
        for producer in (good, *flooders):
            producer.close()


def test_one_who_never_finishes_a_line_is_dropped(tmp_path: Path) -> None:
    with Daemon(tmp_path, patience_s=1.0) as daemon:
        silent, half = daemon.producer(), daemon.producer()
        half.raw(b'{"v":1,')
        skipped = daemon.producer({"v": 1, "type": "x"})
        assert silent.is_cut_off()
        assert half.is_cut_off()
        assert skipped.is_cut_off()
        for producer in (silent, half, skipped):
            producer.close()


def test_one_whose_command_has_ended_is_made_to_hang_up(tmp_path: Path) -> None:
    with Daemon(tmp_path, patience_s=1.0) as daemon:
        producer = daemon.producer(started(), settled(seq=1))
        assert producer.is_cut_off()
        producer.close()
    assert daemon.sink.calls[-1] == ("settled", "c", "exited")


def test_connections_are_bounded(tmp_path: Path) -> None:
    # Not `daemon.subscribe`: the request that it makes behind it may still be counted when the others come.
    with Daemon(tmp_path, max_connections=3) as daemon, client.subscribe(daemon.path, {}) as told:
        take(told, 1)
        producer = daemon.producer(started())
        take(told, 1)
        third = daemon.producer()
        fourth = daemon.producer()
        assert fourth.is_cut_off()
        third.close()
        producer.send(beat(seq=1))
        take(told, 1)
        for one in (producer, fourth):
            one.close()


def test_a_sink_that_raises_harms_nobody(tmp_path: Path) -> None:
    class Broken(RecordingSink):
        def command_started(self, command: Any) -> None:
            raise RuntimeError("no")

        heartbeat = verdict_changed = command_settled = status = observe = None  # type: ignore[assignment]

    with Daemon(tmp_path, sink=Broken()) as daemon, daemon.subscribe() as told:
        daemon.producer(started(), beat(seq=1), settled(seq=2, beats=1)).close()
        assert kinds(take(told, 4)) == ["snapshot", "command_started", "native", "command_settled"]
        assert daemon.status()["telemetry"] == {"failures": 5}


# --- the end -----------------------------------------------------------------------------------------------


def test_at_the_end_what_was_sent_is_read_and_running_commands_are_not_lost(tmp_path: Path) -> None:
    with Daemon(tmp_path) as daemon:
        with daemon.subscribe() as told:
            running = daemon.producer(started("running"))
            take(told, 2)
            daemon.producer(started("gone")).close()
            take(told, 1)
            blocked = threading.Event()
            daemon._loop.call_soon_threadsafe(blocked.wait, WAIT_S)
            # While the loop stands still: more frames, one more client in the backlog, then the wish to end.
            running.send(beat("running", seq=1))
            daemon.producer(started("late"), settled("late")).close()
            daemon._loop.call_soon_threadsafe(daemon.server.stop_requested.set)
            blocked.set()
            daemon.stop()
            ends = [(end["commandId"], end["reason"]) for end in told if end.get("type") == "command_settled"]
        assert sorted(ends) == [("gone", "lost"), ("late", "exited")]
        assert ("heartbeat", "running") in daemon.sink.calls
        assert running.is_cut_off()
        with pytest.raises(OSError):
            running.raw(b"x" * 10)
        running.close()


def test_after_the_end_began_a_write_fails_or_is_read(tmp_path: Path) -> None:
    """What a supervisor relies on: a frame that the kernel took is a frame that the daemon has read."""
    with Daemon(tmp_path) as daemon:
        producer = daemon.producer(started())
        taken = 0

        def write() -> None:
            nonlocal taken
            try:
                while taken < 1500:
                    producer.send(beat(seq=taken + 1))
                    taken += 1
            except OSError:
                pass

        writer = threading.Thread(target=write)
        writer.start()
        while taken < 100:
            time.sleep(0)
        daemon.stop()
        writer.join(WAIT_S)
        producer.close()
    assert [call[0] for call in daemon.sink.calls].count("heartbeat") == taken
