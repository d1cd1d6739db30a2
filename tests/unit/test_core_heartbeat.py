"""The heartbeat: examples to the tenth of a second, and every interleaving against a model."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.core.heartbeat import BEAT, NOTE, NOTE_NS, HeartbeatClock

S = 1_000_000_000
INTERVAL_NS = 10 * S


def fired(clock: HeartbeatClock, until_ns: int) -> list[tuple[int, str]]:
    """What the clock gives when it is ticked at each of its own deadlines, as the loop does."""
    given_out = []
    while clock.deadline_ns is not None and clock.deadline_ns <= until_ns:
        now_ns = clock.deadline_ns
        what = clock.tick(now_ns)
        if what is not None:
            given_out.append((now_ns, what))
    return given_out


def test_output_at_once_and_then_silence_beats_ten_seconds_after_it() -> None:
    clock = HeartbeatClock(INTERVAL_NS, 0)
    clock.output(S // 10)
    beats = [at_ns for at_ns, what in fired(clock, 25 * S) if what == BEAT]
    assert beats == [10 * S + S // 10, 20 * S + S // 10]
    assert clock.count == 2


def test_silence_from_the_start_beats_an_interval_after_the_start() -> None:
    clock = HeartbeatClock(INTERVAL_NS, 5 * S)
    assert fired(clock, 36 * S) == [(15 * S, BEAT), (25 * S, BEAT), (35 * S, BEAT)]


@pytest.mark.parametrize("interval_ns", [0, S // 2, INTERVAL_NS])
def test_flowing_output_never_beats_and_earns_a_note_a_second(interval_ns: int) -> None:
    clock = HeartbeatClock(interval_ns, 0)
    given_out = []
    for tenth in range(1, 601):
        clock.output(tenth * S // 10)
        given_out += fired(clock, (tenth + 1) * S // 10 - 1)
    assert clock.count == 0
    assert given_out == [(second * S, NOTE) for second in range(1, 61)]


def test_output_after_a_pause_is_told_at_once_and_that_of_the_first_second_after_it() -> None:
    clock = HeartbeatClock(INTERVAL_NS, 0)
    clock.output(S // 10)
    assert fired(clock, 5 * S) == [(S, NOTE)]
    clock.output(5 * S)
    assert clock.tick(5 * S) == NOTE
    assert not clock.is_untold


def test_what_another_frame_told_earns_no_note() -> None:
    clock = HeartbeatClock(INTERVAL_NS, 0)
    clock.output(3 * S)
    clock.told(3 * S)
    assert fired(clock, 13 * S - 1) == []
    clock.output(13 * S - 1)
    assert clock.tick(13 * S - 1) == NOTE


def test_output_that_is_not_taken_is_no_silence_and_earns_no_note() -> None:
    clock = HeartbeatClock(INTERVAL_NS, 0)
    for second in range(1, 61):
        clock.hold(second * S)
        assert fired(clock, (second + 1) * S - 1) == []
    assert fired(clock, 75 * S) == [(70 * S, BEAT)]


def test_output_on_the_very_moment_of_the_beat_holds_it_back() -> None:
    clock = HeartbeatClock(INTERVAL_NS, 0)
    clock.output(10 * S)
    assert clock.tick(10 * S) == NOTE
    assert clock.tick(20 * S - 1) is None
    assert clock.tick(20 * S) == BEAT


def test_an_interval_of_zero_never_beats() -> None:
    clock = HeartbeatClock(0, 0)
    assert clock.deadline_ns is None
    assert clock.tick(10**15) is None
    clock.output(10**15)
    assert clock.tick(10**15 + S) == NOTE
    assert clock.deadline_ns is None
    assert clock.count == 0


def test_a_very_late_tick_beats_once() -> None:
    clock = HeartbeatClock(INTERVAL_NS, 0)
    assert clock.tick(95 * S) == BEAT
    assert clock.tick(95 * S) is None
    assert clock.count == 1
    assert clock.deadline_ns == 100 * S


def test_a_late_tick_long_after_the_last_output_beats_and_gives_no_note() -> None:
    clock = HeartbeatClock(INTERVAL_NS, 0)
    clock.output(3 * S)
    assert clock.tick(40 * S) == BEAT
    assert clock.deadline_ns == 43 * S


def test_after_stop_there_is_nothing_to_wait_for() -> None:
    clock = HeartbeatClock(INTERVAL_NS, 0)
    clock.stop()
    clock.output(S)
    assert clock.deadline_ns is None
    assert clock.tick(100 * S) is None
    clock.stop()
    assert clock.count == 0


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["output", "output", "hold", "told", "tick", "tick", "deadline", "stop"]),
        # Around the time between two notes, and in small steps, where order matters.
        st.integers(0, 25) | st.integers(NOTE_NS // 3, 2 * NOTE_NS),
    ),
    max_size=60,
)


@given(interval=st.integers(1, 12) | st.integers(NOTE_NS // 2, 20 * NOTE_NS), start=st.integers(0, 5), steps=STEPS)
def test_every_interleaving_beats_when_the_model_says_so(
    interval: int, start: int, steps: list[tuple[str, int]]
) -> None:
    clock = HeartbeatClock(interval, start)
    now = silent_since = start
    next_beat = start + interval
    told_at = start
    stopped = untold = False
    beats = 0
    for what, step in steps:
        if what == "deadline" and clock.deadline_ns is not None:
            now = max(now, clock.deadline_ns)
        else:
            now += step
        if what == "stop":
            clock.stop()
            stopped = True
        elif what == "output":
            clock.output(now)
            silent_since, next_beat, untold = now, now + interval, True
        elif what == "hold":
            clock.hold(now)
            silent_since, next_beat = now, now + interval
        elif what == "told":
            clock.told(now)
            told_at, untold = now, False
        else:
            got = clock.tick(now)
            if not stopped and now >= next_beat:
                assert got == BEAT
                assert now - silent_since >= interval
                beats += 1
                next_beat = silent_since + ((now - silent_since) // interval + 1) * interval
                told_at, untold = now, False
            elif not stopped and untold and now >= told_at + NOTE_NS:
                assert got == NOTE
                told_at, untold = now, False
            else:
                assert got is None
        assert clock.count == beats
        assert clock.is_untold == untold
        if stopped:
            assert clock.deadline_ns is None
        else:
            # Never later than what is owed: the loop sleeps until then.
            assert clock.deadline_ns is not None
            assert clock.deadline_ns <= (min(next_beat, told_at + NOTE_NS) if untold else next_beat)


@given(outputs=st.lists(st.integers(0, 3 * NOTE_NS), max_size=80), interval=st.sampled_from([0, S // 3, INTERVAL_NS]))
def test_notes_keep_their_distance_and_no_output_waits_longer_for_one(outputs: list[int], interval: int) -> None:
    clock = HeartbeatClock(interval, 0)
    now, told = 0, []
    for step in outputs:
        until = now + step
        told += fired(clock, until)
        now = until
        clock.output(now)
        what = clock.tick(now)  # as the loop does in the turn of the output
        told += [] if what is None else [(now, what)]
        assert not clock.is_untold or now - max([0, *(at for at, _ in told)]) < NOTE_NS
    notes = [at for at, what in told if what == NOTE]
    assert all(later - earlier >= NOTE_NS for earlier, later in zip([0, *notes], notes, strict=False))
