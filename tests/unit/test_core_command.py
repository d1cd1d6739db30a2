"""One command as its frames tell it: counts, ages, verdicts, the end; and that frames may come twice."""

from typing import Any

import pytest
from daemon_support import activity, beat, settled, started, verdict
from hypothesis import given
from hypothesis import strategies as st

from sidecar.core import frame as wire
from sidecar.core.command import Command
from sidecar.core.errors import FrameError, LifecycleError
from sidecar.testing.clock import FakeClock
from sidecar.testing.scripted import ScriptedCommand

Frame = dict[str, Any]
MS = 1_000_000
S = 1_000_000_000


def beat_with_output(seq: int, elapsed_ms: int, age_ms: int, lines: int, size: int, **extra: object) -> Frame:
    payload = wire.progress_payload(elapsed_ms, last_output_age_ms=age_ms, total_lines=lines, total_bytes=size)
    return beat(seq=seq, **{"shellProgress": payload, **extra})


def state(command: Command) -> dict[str, Any]:
    """Everything that can be seen of a command."""
    return {
        "state": command.lifecycle.state,
        "reason": command.lifecycle.reason,
        "settled": command.settled,
        "heartbeats": command.heartbeat_count,
        "beats": [item.seq for item in command.beats.kept],
        "verdict": command.verdict,
        "evidence": command.evidence,
        "bytes": command.total_bytes,
        "lines": command.total_lines,
        "longest": command.longest_silence_ms,
        "silent": command.silent,
        "elapsed": command.elapsed_ms(100 * S),
        "age": command.output_age_ms(100 * S),
    }


def test_it_begins_with_its_start() -> None:
    command = Command(started(), 0)
    assert command.lifecycle.state == "running"
    assert command.id == "c"
    assert (command.heartbeat_count, command.total_bytes, command.silent, command.has_output) == (0, 0, False, False)


@pytest.mark.parametrize("frame", [beat(), activity(), verdict(), settled()])
def test_it_cannot_begin_with_anything_else(frame: Frame) -> None:
    with pytest.raises(FrameError):
        Command(frame, 0)


def test_a_spawn_that_failed_is_over_at_once() -> None:
    command = ScriptedCommand(FakeClock()).fail_to_spawn()
    assert (command.lifecycle.state, command.lifecycle.reason) == ("settled", "spawn_failed")
    assert command.settled is not None
    assert not command.apply(beat(command.id, seq=1), 0)


def test_a_beat_without_output_tells_of_silence_since_the_start() -> None:
    command = Command(started(), 0)
    assert command.apply(beat(seq=1), 10 * S)
    assert (command.heartbeat_count, command.silent, command.has_output) == (1, True, False)
    assert command.longest_silence_ms == 10_000
    assert command.output_age_ms(12 * S) == command.elapsed_ms(12 * S) == 12_000


def test_a_beat_with_output_brings_the_counts() -> None:
    command = Command(started(), 0)
    command.apply(beat_with_output(1, 30_000, 10_000, 12, 840), 30 * S)
    assert (command.total_lines, command.total_bytes) == (12, 840)
    assert command.silent
    assert command.has_output
    assert command.output_age_ms(31 * S) == 11_000
    assert command.longest_silence_ms == 10_000


def test_output_ends_a_silence() -> None:
    command = Command(started(), 0)
    command.apply(beat(seq=1), 0)
    assert command.silent
    command.apply(activity(seq=2), 0)
    assert not command.silent
    assert command.heartbeat_count == 1
    assert command.longest_silence_ms == 10_000


def test_a_note_of_old_output_ends_no_silence() -> None:
    command = Command(started(), 0)
    command.apply(beat_with_output(1, 30_000, 20_000, 12, 840), 30 * S)
    command.apply(activity(seq=2) | {"elapsedMs": 34_000, "lastOutputAgeMs": 24_000}, 34 * S)
    assert command.silent
    command.apply(activity(seq=3) | {"elapsedMs": 36_000, "lastOutputAgeMs": 1000}, 36 * S)
    assert not command.silent


def test_frames_that_waited_for_a_frozen_reader_are_of_when_they_were_sent() -> None:
    command = Command(started(), 1 * S)
    command.apply(activity(seq=2) | {"elapsedMs": 2000, "lastOutputAgeMs": 500}, 3 * S)
    for seq in (3, 4):  # the reader was frozen until 60 s
        command.apply(activity(seq=seq) | {"elapsedMs": seq * 1000, "lastOutputAgeMs": 500}, 60 * S)
    assert (command.elapsed_ms(61 * S), command.output_age_ms(61 * S)) == (60_000, 56_500)
    command.apply(activity(seq=70) | {"elapsedMs": 70_000, "lastOutputAgeMs": 0}, 70 * S)
    assert command.output_age_ms(70 * S) == 0, "the start was told late, by a second"


def test_the_producers_own_count_of_beats_is_the_right_one() -> None:
    command = Command(started(), 0)
    command.apply(beat(seq=9, heartbeatCount=7), 0)
    assert command.heartbeat_count == 7
    command.apply(beat(seq=10), 0)
    assert command.heartbeat_count == 8
    command.apply(settled(seq=11, beats=20), 0)
    assert command.heartbeat_count == 20


def test_a_verdict_between_beats_is_kept_as_a_change_and_is_no_beat() -> None:
    command = Command(started(), 0)
    command.apply(verdict(seq=1, name="network_wait", evidence=["tcp: no answer for 30 s"]), 0)
    assert (command.verdict, command.evidence) == ("network_wait", ["tcp: no answer for 30 s"])
    assert command.heartbeat_count == 0
    assert [item.is_heartbeat for item in command.beats.kept] == [False]
    command.apply(beat(seq=2), 0)
    assert command.verdict == "network_wait", "a beat that says none leaves it"
    command.apply(beat(seq=3, verdict="computing"), 0)
    assert (command.verdict, command.evidence) == ("computing", [])


def test_a_verdict_is_held_from_when_it_was_first_said_and_within_one_silence() -> None:
    command = Command(started(), 0)
    assert (command.verdict_stands, command.verdict_held_ms(5 * S)) == (False, 0)
    command.apply(beat_with_output(1, 12_000, 10_000, 1, 1, verdict="lock_wait"), 12 * S)
    command.apply(beat_with_output(2, 22_000, 20_000, 1, 1, verdict="lock_wait"), 22 * S)
    assert command.verdict_held_ms(30 * S) == 18_000
    command.apply(beat_with_output(3, 42_000, 10_000, 2, 2, verdict="lock_wait"), 42 * S)
    assert command.verdict_held_ms(43 * S) == 11_000, "output came in between"
    command.apply(beat_with_output(4, 52_000, 20_000, 2, 2, verdict="sleeping"), 52 * S)
    assert command.verdict_held_ms(53 * S) == 1_000
    command.apply(activity(seq=60), 60 * S)
    assert (command.verdict_stands, command.verdict_held_ms(90 * S)) == (False, 0)


def test_output_that_only_repeats_itself_ends_no_verdict() -> None:
    def wrote(seq: int, elapsed_s: int, *, repeats: bool) -> Frame:
        fields = {"elapsedMs": elapsed_s * 1000, "lastOutputAgeMs": 0, "repeats": repeats}
        return activity(seq=seq) | fields

    command = Command(started(), 0)
    command.apply(verdict(seq=1, name="lock_wait"), 0)
    command.apply(wrote(2, 10, repeats=True), 10 * S)
    assert not command.verdict_stands, "it was about a silence before"
    command.apply(verdict(seq=3, name="polling") | {"elapsedMs": 14_000, "sinceMs": 1000}, 14 * S)
    command.apply(wrote(4, 30, repeats=True), 30 * S)
    assert (command.verdict_stands, command.verdict_held_ms(33 * S)) == (True, 20_000)
    command.apply(wrote(5, 40, repeats=False), 40 * S)
    assert (command.verdict_stands, command.repeats) == (False, False)


def test_a_replay_tells_for_how_long_a_verdict_has_held() -> None:
    command = Command(started(replay=True), 1000 * S)
    for seq in (1, 9):
        command.apply(beat(seq=seq, verdict="lock_wait", replay=True), 1000 * S)
    assert command.verdict_held_ms(1005 * S) == 85_000


def test_newer_evidence_for_the_same_verdict_is_no_event() -> None:
    command = Command(started(), 0)
    for seq in range(1, 4):
        command.apply(verdict(seq=seq, name="sleeping", evidence=[f"{seq} s left"]), 0)
    assert [item.seq for item in command.beats.kept] == [1]
    assert command.evidence == ["3 s left"]


def test_a_verdict_between_beats_knows_the_age_of_the_output() -> None:
    command = Command(started(), 0)
    command.apply(verdict(seq=1, name="sleeping"), 1 * S)
    command.apply(activity(seq=2), 2 * S)
    command.apply(verdict(seq=3, name="awaiting_input"), 4 * S)
    assert [item.last_output_age_ms for item in command.beats.kept] == [None, 2000]


@pytest.mark.parametrize("reason", ["exited", "signaled", "timeout", "silence_timeout", "cancelled"])
def test_the_end_has_the_last_word_on_all_counts(reason: str) -> None:
    command = Command(started(), 0)
    command.apply(beat(seq=1), 0)
    end = settled(seq=2, reason=reason, beats=3) | {"totalBytes": 7, "totalLines": 2, "longestSilenceMs": 55}
    assert command.apply(end, 0)
    assert (command.lifecycle.state, command.lifecycle.reason) == ("settled", reason)
    assert (command.heartbeat_count, command.total_bytes, command.total_lines) == (3, 7, 2)
    assert command.longest_silence_ms == 55
    assert command.elapsed_ms(10**15) == 90
    assert not command.silent


@pytest.mark.parametrize("reason", ["lost", "spawn_failed", "", "bored", "EXITED"])
def test_a_reason_that_a_producer_cannot_have_changes_nothing(reason: str) -> None:
    command = Command(started(), 0)
    before = state(command)
    with pytest.raises(FrameError):
        command.apply(settled(seq=1, reason=reason), 0)
    assert state(command) == before
    assert command.apply(settled(seq=1), 0), "the seq was not used up"


def test_a_second_start_with_a_new_number_is_an_error_and_changes_nothing() -> None:
    command = Command(started(), 0)
    before = state(command)
    with pytest.raises(FrameError):
        command.apply(started(seq=1), 0)
    assert state(command) == before


def test_after_the_end_nothing_changes_any_more() -> None:
    command = Command(started(), 0)
    command.apply(settled(seq=1), 0)
    before = state(command)
    for frame in (beat(seq=2), activity(seq=3), verdict(seq=4), settled(seq=5), started(seq=6)):
        assert not command.apply(frame, 50 * S)
    assert state(command) == before
    with pytest.raises(LifecycleError):
        command.lose(0)


def test_a_lost_command_settles_with_what_was_known() -> None:
    command = Command(started(), 0)
    command.apply(beat_with_output(4, 30_000, 10_000, 12, 840, heartbeatCount=2), 30 * S)
    end = command.lose(35 * S)
    assert wire.parse(wire.encode(end)) == end
    assert end["seq"] == 5
    assert (end["reason"], end["elapsedMs"], end["heartbeatCount"]) == ("lost", 35_000, 2)
    assert (end["totalBytes"], end["totalLines"], end["lastOutputAgeMs"]) == (840, 12, 15_000)
    assert end["longestSilenceMs"] == 15_000
    assert command.lifecycle.reason == "lost"


def test_a_command_lost_without_output_has_no_age_of_it() -> None:
    command = Command(started(), 0)
    end = command.lose(3 * S)
    assert "lastOutputAgeMs" not in end
    assert end["longestSilenceMs"] == end["elapsedMs"] == 3000


FRAMES_OF_A_LIFE = st.lists(st.tuples(st.sampled_from(["write", "beat", "judge"]), st.integers(1, 20_000)), max_size=25)


@given(life=FRAMES_OF_A_LIFE, ends=st.booleans(), data=st.data())
def test_frames_that_come_again_change_nothing(life: list[tuple[str, int]], ends: bool, data: st.DataObject) -> None:
    clock = FakeClock()
    script = ScriptedCommand(clock)
    once = script.start()
    frames: list[tuple[int, Frame]] = []
    twice = Command(once.identity, clock.monotonic_ns())
    for what, step_ms in life:
        clock.advance(step_ms / 1000)
        if what == "write":
            frame = script.write()
        elif what == "beat":
            frame = script.beat(data.draw(st.sampled_from([None, "computing", "lock_wait"])))
        else:
            frame = script.judge("pipe_wait", ["read of a pipe"])
        frames.append((clock.monotonic_ns(), frame))
    if ends:
        frames.append((clock.monotonic_ns(), script.settle()))
    for number, (now_ns, frame) in enumerate(frames):
        assert twice.apply(frame, now_ns)
        for _, earlier in data.draw(st.lists(st.sampled_from(frames[: number + 1]), max_size=3)):
            assert not twice.apply({**earlier, "replay": True}, now_ns + 5 * S)
        assert not twice.apply(once.identity, now_ns)
    at_end_ns = clock.monotonic_ns()
    assert state(twice) == state(once)
    assert twice.elapsed_ms(at_end_ns) == once.elapsed_ms(at_end_ns)
    assert twice.heartbeat_count == sum(frame["type"] == wire.PROGRESS for _, frame in frames)


def test_the_fact_is_that_of_when_the_verdict_was_new_in_this_silence() -> None:
    clock = FakeClock()
    script = ScriptedCommand(clock)
    command = script.start()
    assert command.fact == ""
    facts = []
    for number in range(3):
        clock.advance(10)
        script.beat("network_wait", [f"heard {number} s ago"])
        facts.append(command.fact)
        script.judge("computing", [f"{number} s of CPU"])
        facts.append(command.fact)
    assert facts == ["heard 0 s ago", "0 s of CPU"] * 3
    script.write()
    clock.advance(10)
    script.beat("network_wait", ["heard 7 s ago"])
    clock.advance(10)
    script.beat("network_wait", ["heard 17 s ago"])
    assert command.fact == "heard 7 s ago"
    script.judge("unknown")
    assert command.fact == ""
