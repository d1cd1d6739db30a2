"""The registry: frames in, events out; duplicates, replays, ends and losses in every order."""

from typing import Any

import pytest
from daemon_support import Frame, activity, beat, settled, started, verdict
from hypothesis import given
from hypothesis import strategies as st

from sidecar.core.errors import FrameError
from sidecar.daemon.registry import Activity, Beat, Registry, Settled, Started, VerdictChanged


def names(events: list[Any]) -> list[str]:
    return [type(event).__name__ for event in events]


def test_the_life_of_a_command() -> None:
    registry = Registry()
    assert names(registry.feed(started(), 0)) == ["Started"]
    assert list(registry.running) == ["c"]
    assert names(registry.feed(activity(seq=1), 1)) == ["Activity"]
    assert names(registry.feed(beat(seq=2), 2)) == ["Beat"]
    assert names(registry.feed(verdict(seq=3), 3)) == ["VerdictChanged"]
    (end,) = registry.feed(settled(seq=4, beats=1), 4)
    assert isinstance(end, Settled)
    assert end.command.lifecycle.reason == "exited"
    assert not registry.running
    assert "c" in registry.ended


def test_a_frame_seen_before_says_nothing() -> None:
    registry = Registry()
    registry.feed(started(), 0)
    registry.feed(beat(seq=1), 0)
    assert registry.feed(beat(seq=1), 0) == []
    assert registry.feed(started(replay=True), 0) == []
    assert registry.running["c"].heartbeat_count == 1


def test_a_replay_makes_state_and_is_marked() -> None:
    registry = Registry()
    assert registry.feed(started(replay=True), 0) == [Started(registry.running["c"], replay=True)]
    (event,) = registry.feed(beat(seq=5, replay=True), 0)
    assert isinstance(event, Beat)
    assert event.replay
    assert registry.running["c"].heartbeat_count == 1
    (event,) = registry.feed(beat(seq=6), 0)
    assert isinstance(event, Beat)
    assert not event.replay


def test_an_ended_command_is_not_born_again() -> None:
    registry = Registry()
    registry.feed(started(), 0)
    registry.feed(settled(), 0)
    for frame in (started(replay=True), started(), beat(seq=20), settled(seq=21)):
        assert registry.feed(frame, 0) == []
    assert not registry.running


def test_the_memory_of_ended_commands_is_bounded() -> None:
    registry = Registry(ended_remembered=3)
    for number in range(5):
        registry.feed(started(str(number)), 0)
        registry.feed(settled(str(number)), 0)
    assert list(registry.ended) == ["2", "3", "4"]


def test_a_failed_spawn_is_over_at_once() -> None:
    registry = Registry()
    frame = {**started(), **settled(seq=0, reason="spawn_failed", error="ENOENT")}
    (event,) = registry.feed(frame, 0)
    assert isinstance(event, Settled)
    assert event.command.lifecycle.reason == "spawn_failed"
    assert registry.feed(started(), 0) == []


def test_a_loss_ends_once() -> None:
    registry = Registry()
    registry.feed(started(), 0)
    lost = registry.lose("c", 2_000_000_000)
    assert lost is not None
    assert lost.command.settled is not None
    assert lost.command.settled["reason"] == "lost"
    assert lost.command.settled["elapsedMs"] == 2000
    assert registry.lose("c", 0) is None
    assert registry.lose("never heard of", 0) is None
    assert registry.feed(beat(seq=7), 0) == []


def test_the_same_verdict_again_is_no_change() -> None:
    registry = Registry()
    registry.feed(started(), 0)
    assert names(registry.feed(verdict(seq=1, name="busy"), 0)) == ["VerdictChanged"]
    assert registry.feed(verdict(seq=2, name="busy", evidence=["newer"]), 0) == []
    assert registry.running["c"].evidence == ["newer"]


@pytest.mark.parametrize(
    "frame",
    [
        beat("unknown"),
        settled("unknown"),
        started("x" * 65),
        started(seq=3),
        settled(reason="lost"),
        settled(reason="tired"),
        settled(reason="spawn_failed"),
    ],
)
def test_a_frame_that_a_command_cannot_have_changes_nothing(frame: Frame) -> None:
    registry = Registry()
    registry.feed(started(), 0)
    with pytest.raises(FrameError):
        registry.feed(frame, 0)
    assert list(registry.running) == ["c"]
    assert names(registry.feed(beat(seq=4), 0)) == ["Beat"]


# Every step is (command, what). A producer numbers its frames; `again` sends an older one once more.
_STEP = st.tuples(
    st.sampled_from(["a", "b"]),
    st.sampled_from(["start", "beat", "activity", "verdict", "settle", "lose", "again", "replayed beat"]),
    st.integers(0, 30),
)


@given(st.lists(_STEP, max_size=60))
def test_whatever_the_order_the_events_make_sense(steps: list[tuple[str, str, int]]) -> None:
    registry = Registry()
    sent: dict[str, list[Frame]] = {"a": [], "b": []}
    events: dict[str, list[Any]] = {"a": [], "b": []}
    beats_sent = {"a": 0, "b": 0}
    makers = {"beat": beat, "activity": activity, "verdict": verdict}
    for command_id, what, number in steps:
        frames, seq = sent[command_id], len(sent[command_id])
        running = command_id in registry.running
        if what == "lose":
            lost = registry.lose(command_id, seq)
            events[command_id] += [lost] if lost else []
            assert (lost is not None) == running
            continue
        if what == "start":
            frame = started(command_id, replay=bool(number % 2)) if not frames else frames[0]
        elif not frames:
            continue  # a producer starts with the start
        elif what == "again":
            frame = frames[number % len(frames)]
        elif what == "settle":
            frame = settled(command_id, seq, beats=beats_sent[command_id])
        elif what == "replayed beat":
            frame = beat(command_id, seq, replay=True)
        else:
            frame = makers[what](command_id, seq)
        is_new = frame not in frames
        if is_new:
            frames.append(frame)
        if is_new and running and frame["type"] == "shell_progress":
            beats_sent[command_id] += 1
        happened = registry.feed(frame, seq)
        if not is_new:
            assert happened == []
        events[command_id] += happened

    for command_id, happened in events.items():
        kinds = names(happened)
        assert kinds.count("Started") == (1 if kinds else 0)
        assert kinds[:1] in ([], ["Started"])
        assert kinds.count("Settled") <= 1
        assert "Settled" not in kinds[:-1]
        assert kinds.count("Beat") == beats_sent[command_id]
        assert (command_id in registry.running) == (bool(kinds) and kinds[-1] != "Settled")
        for event in happened:
            assert isinstance(event, Started | Beat | Activity | VerdictChanged | Settled)
            assert event.command.heartbeat_count == beats_sent[command_id]
