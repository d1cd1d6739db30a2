"""The heartbeat: examples to the tenth of a second, and every interleaving against a model."""

from hypothesis import given
from hypothesis import strategies as st

from sidecar.core.heartbeat import BEAT, NOTE, HeartbeatClock

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


def test_flowing_output_never_beats_and_earns_a_note_an_interval() -> None:
    clock = HeartbeatClock(INTERVAL_NS, 0)
    given_out = []
    for second in range(1, 121):
        given_out += fired(clock, second * S - 1)
        clock.output(second * S)
    assert clock.count == 0
    assert {what for _, what in given_out} == {NOTE}
    assert 10 <= len(given_out) <= 13


def test_output_on_the_very_moment_of_the_beat_holds_it_back() -> None:
    clock = HeartbeatClock(INTERVAL_NS, 0)
    clock.output(10 * S)
    assert clock.tick(10 * S) == NOTE
    assert clock.tick(20 * S - 1) is None
    assert clock.tick(20 * S) == BEAT


def test_an_interval_of_zero_never_beats() -> None:
    clock = HeartbeatClock(0, 0)
    assert clock.deadline_ns is None
    clock.output(S)
    assert clock.tick(10**15) is None
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
    st.tuples(st.sampled_from(["output", "tick", "tick", "deadline", "stop"]), st.integers(0, 25)), max_size=60
)


@given(interval=st.integers(1, 12), start=st.integers(0, 5), steps=STEPS)
def test_every_interleaving_beats_when_the_model_says_so(
    interval: int, start: int, steps: list[tuple[str, int]]
) -> None:
    clock = HeartbeatClock(interval, start)
    now = silent_since = start
    next_beat = start + interval
    stopped = output_since_note = False
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
            silent_since, next_beat, output_since_note = now, now + interval, True
        else:
            got = clock.tick(now)
            if not stopped and now >= next_beat:
                assert got == BEAT
                assert now - silent_since >= interval
                beats += 1
                next_beat = silent_since + ((now - silent_since) // interval + 1) * interval
                output_since_note = False
            elif got is not None:
                assert got == NOTE
                assert output_since_note
                assert not stopped
                output_since_note = False
        assert clock.count == beats
        if stopped:
            assert clock.deadline_ns is None
        else:
            # Never later than the beat that is owed: the loop sleeps until then.
            assert clock.deadline_ns is not None
            assert clock.deadline_ns <= next_beat


@given(outputs=st.lists(st.integers(0, 30), max_size=80))
def test_notes_do_not_come_faster_than_output_can_earn_them(outputs: list[int]) -> None:
    clock = HeartbeatClock(10, 0)
    now, notes = 0, []
    for step in outputs:
        now += step
        notes += [at for at, what in fired(clock, now) if what == NOTE]
        clock.output(now)
    assert all(later - earlier >= 10 for earlier, later in zip(notes, notes[2:], strict=False))
