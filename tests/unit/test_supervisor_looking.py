"""When the supervisor looks, which verdict it tells, and what output, a stop and an exit make of it."""

from collections.abc import Callable
from typing import Any

import pytest

from sidecar.core.finding import INFERRED, MEASURED, Verdict
from sidecar.core.heartbeat import BEAT, HeartbeatClock
from sidecar.core.output import OutputStats
from sidecar.core.values import parse_verdict_limits
from sidecar.core.verdict_limits import VerdictLimits
from sidecar.supervisor.looking import Looking
from sidecar.supervisor.lookout import Asked

S = 1_000_000_000
SLEEPING = Verdict("sleeping", MEASURED, evidence=("sleeps",))
COMPUTING = Verdict("computing", MEASURED)
PROMPT = Verdict("awaiting_input", MEASURED)
STOPPED = Verdict("stopped", MEASURED)


class FakeChild:
    pid = 4711
    canary = None
    not_of_the_tree: frozenset[int] = frozenset()
    stopped_by = None
    status: int | None = None


class FakeLookout:
    """Notes what is asked; the test says what comes of it."""

    descriptor = 99

    def __init__(self) -> None:
        self.asked: list[tuple[float, Asked]] = []
        self.busy_since_ns: int | None = None
        self.failure: str | None = None
        self.abandoned = 0
        self.result: Verdict | None = None
        self.can_begin = True

    def begin(self, asked: Asked, now_ns: int) -> bool:
        assert self.busy_since_ns is None, "one at a time"
        self.failure = None if self.can_begin else "can't start new thread"
        if self.can_begin:
            self.asked.append((now_ns / S, asked))
            self.busy_since_ns = now_ns
        return self.can_begin

    def abandon(self) -> None:
        self.abandoned += self.busy_since_ns is not None
        self.result = None

    def take(self) -> Verdict | None:
        self.busy_since_ns = None
        return self.result


class Stage:
    """A command that is silent from 0 on, and looked at. `run` lets time pass, `found` is what the looks find."""

    def __init__(self, interval_s: float = 10, after_s: float = 2, limits: str = "") -> None:
        self.child = FakeChild()
        self.stats = OutputStats(0)
        self.heartbeat = HeartbeatClock(int(interval_s * S), 0)
        self.lookout = FakeLookout()
        self.told: list[tuple[float, str]] = []
        self.stopped: list[tuple[float, str]] = []
        self.beats: list[tuple[float, str | None]] = []
        self.now_ns = 0
        self.after_ns = int(after_s * S)
        self.found: Callable[[float], Verdict | None] = lambda _: SLEEPING
        self.comes_back = True
        self.looking = Looking(
            self.child,  # type: ignore[arg-type]
            None,
            [],
            self.stats,
            self.heartbeat,
            self.after_ns,
            lambda fields, now_ns: self.told.append((now_ns / S, str(fields.get("limit", fields["verdict"])))),
            VerdictLimits(parse_verdict_limits(limits)) if limits else None,
            self.stop,
            make_lookout=lambda _pid, _terminal: self.lookout,  # type: ignore[arg-type,return-value]
        )
        self.next_ns: int | None = self.after_ns

    def run(self, until_s: float) -> None:
        """As the loop does: the looks come back after as long as they were asked to take, everything else in time."""
        while True:
            events = [at_ns for at_ns in (self.next_ns, self.heartbeat.deadline_ns) if at_ns is not None]
            back_ns = None
            if self.lookout.busy_since_ns is not None and self.comes_back:
                back_ns = self.lookout.busy_since_ns + int(self.lookout.asked[-1][1].seconds * S)
                events.append(back_ns)
            at_ns = max(min(events, default=int(until_s * S) + 1), self.now_ns)
            if at_ns > until_s * S:
                self.now_ns = int(until_s * S)
                return
            self.now_ns = at_ns
            if at_ns == back_ns:
                if not self.lookout.abandoned:
                    self.lookout.result = self.found(at_ns / S)
                self.lookout.abandoned = 0
                self.next_ns = self.looking.take(at_ns)
            if self.heartbeat.tick(at_ns) == BEAT:
                self.beats.append((at_ns / S, str(self.looking.fields(at_ns).get("verdict"))))
            if self.next_ns is not None and at_ns >= self.next_ns:
                self.next_ns = self.looking.tick(at_ns)

    def stop(self, words: str) -> None:
        self.stopped.append((self.now_ns / S, words))
        self.looking.end()

    def output(self) -> None:
        self.stats.record(b"x", self.now_ns)
        self.heartbeat.output(self.now_ns)
        self.next_ns = self.looking.output(self.now_ns)

    @property
    def looks(self) -> list[float]:
        return [at for at, _ in self.lookout.asked]


@pytest.fixture
def stage() -> Stage:
    return Stage()


def test_the_first_look_is_after_two_silent_seconds_and_a_second_one_confirms_it(stage: Stage) -> None:
    stage.run(9)
    assert stage.looks == [2, 2.5, 8.8], "and one in time for the beat"
    assert stage.told == [(3.5, "sleeping")]
    stage.run(31)
    assert stage.looks == [2, 2.5, 8.8, 18.8, 28.8], "one a beat"
    assert stage.told == [(3.5, "sleeping")], "what goes on is not repeated"
    assert stage.beats == [(10, "sleeping"), (20, "sleeping"), (30, "sleeping")]
    assert stage.looking.fields(31 * S)["sinceMs"] == 28_500, "since it was found first"


@pytest.mark.parametrize("verdict", [PROMPT, STOPPED])
def test_a_prompt_and_a_stop_are_told_at_once_within_three_seconds(stage: Stage, verdict: Verdict) -> None:
    stage.found = lambda _: verdict
    stage.run(5)
    assert stage.told == [(2.5, verdict.name)]


def test_another_verdict_is_told_once_it_was_found_twice_without_waiting_for_the_beat(stage: Stage) -> None:
    stage.found = lambda at: SLEEPING if at < 15 else COMPUTING
    stage.run(30)
    assert stage.told == [(3.5, "sleeping"), (20.8, "computing")]
    assert stage.beats[1] == (20, "sleeping")
    assert stage.looks[3:5] == [18.8, 19.8]


def test_a_verdict_that_never_comes_twice_costs_no_more_than_a_look_a_beat(stage: Stage) -> None:
    names = iter(["sleeping", "computing"] * 100)
    stage.found = lambda _: Verdict(next(names), INFERRED)
    stage.run(101)
    assert stage.told == []
    assert len(stage.looks) <= 4 + 10


def test_output_ends_the_look_in_flight_and_the_silence_begins_anew(stage: Stage) -> None:
    stage.run(2.2)
    stage.output()
    assert stage.lookout.abandoned == 1
    stage.run(4.1)
    assert stage.looks == [2]
    stage.run(6)
    assert stage.looks[1:] == [4.2, 4.7]
    assert stage.told == [(5.7, "sleeping")]
    stage.output()
    assert not stage.looking.has_verdict
    assert stage.looking.fields(6 * S) == {}
    stage.run(10)
    assert stage.told == [(5.7, "sleeping"), (9.5, "sleeping")], "the same anew, in another silence"


def test_output_that_flows_is_never_looked_at_again(stage: Stage) -> None:
    stage.run(5)
    looks = len(stage.looks)
    for _ in range(20):
        stage.output()
        stage.run(stage.now_ns / S + 1)
    assert len(stage.looks) == looks


def test_a_stop_of_the_child_is_looked_at_at_once(stage: Stage) -> None:
    stage.run(5)
    stage.found = lambda _: STOPPED
    stage.next_ns = stage.looking.hurry(stage.now_ns)
    stage.run(6)
    assert stage.told[-1] == (5.5, "stopped")
    stage.found = lambda _: SLEEPING
    stage.next_ns = stage.looking.hurry(stage.now_ns)
    stage.run(9)
    assert stage.told[-1] == (7.5, "sleeping"), "resumed is told too"


def test_nothing_is_told_once_a_stop_began(stage: Stage) -> None:
    stage.found = lambda _: PROMPT
    stage.run(2.2)
    stage.looking.end()
    stage.lookout.result = PROMPT
    assert stage.looking.take(stage.now_ns) is None
    assert stage.told == []


def test_a_look_that_does_not_come_back_is_said_and_no_other_is_begun(stage: Stage) -> None:
    stage.comes_back = False
    stage.run(31)
    assert stage.looks == [2]
    assert stage.told == [(17, "unknown")]
    evidence: Any = stage.looking.fields(31 * S)["evidence"]
    assert "has not come back" in evidence[0]
    assert [at for at, _ in stage.beats] == [10, 20, 30], "the beats are on time"


def test_a_supervisor_that_was_stopped_itself_does_not_take_its_own_time_for_the_kernels(stage: Stage) -> None:
    stage.comes_back = False
    stage.run(2)
    assert stage.looks == [2]
    stage.now_ns = 80 * S  # nobody called: the process was stopped
    stage.next_ns = stage.looking.tick(stage.now_ns)
    assert stage.told == []
    stage.run(94)
    assert stage.told == []
    stage.run(96)
    assert stage.told == [(95, "unknown")], "from then on it may well be the kernel"


def test_a_look_that_fails_says_why(stage: Stage) -> None:
    def fail(_: float) -> None:
        stage.lookout.failure = "KeyError: 'x'"

    stage.found = fail  # type: ignore[assignment]
    stage.run(12)
    assert stage.told == [(2.5, "unknown")]
    assert stage.looking.fields(12 * S)["evidence"] == ["the look failed: KeyError: 'x'"]


def test_without_a_thread_it_says_so_and_tries_again(stage: Stage) -> None:
    stage.lookout.can_begin = False
    stage.run(5)
    assert stage.told == [(2, "unknown")]
    stage.lookout.can_begin = True
    stage.run(20)
    assert stage.told[-1][1] == "sleeping"


def test_without_proc_it_says_so() -> None:
    told: list[Any] = []
    looking = Looking(
        FakeChild(),  # type: ignore[arg-type]
        None,
        [],
        OutputStats(0),
        HeartbeatClock(10 * S, 0),
        2 * S,
        lambda fields, _: told.append(fields),
        proc="/nonexistent",
    )
    assert looking.descriptor is None
    assert looking.tick(2 * S) is None
    assert [(fields["verdict"], fields["alive"]) for fields in told] == [("unknown", True)]
    assert "/proc" in told[0]["evidence"][0]


def test_the_exit_is_told_to_the_senses_and_an_empty_tree_is_no_verdict(stage: Stage) -> None:
    stage.run(5)
    stage.child.status = 0x300
    stage.next_ns = stage.looking.exited(stage.now_ns)
    stage.found = lambda _: Verdict("unknown", MEASURED, alive=False)
    stage.run(8)
    assert stage.looks[-1] == 7
    assert stage.lookout.asked[-1][1].exit_status == 3
    assert stage.told == [(3.5, "sleeping")]


def test_without_heartbeats_there_are_looks_all_the_same() -> None:
    stage = Stage(interval_s=0)
    stage.run(40)
    assert stage.looks == [2, 2.5, 13.5, 24.5, 35.5]


def test_a_prompt_that_has_held_for_long_enough_stops_the_command_on_the_evidence_of_a_fresh_look() -> None:
    stage = Stage(limits="awaiting_input:60s=cancel")
    stage.found = lambda _: Verdict("awaiting_input", MEASURED, evidence=("reads stdin, a pipe",))
    stage.run(200)
    ((at, words),) = stage.stopped
    assert 62.5 <= at <= 63.5, "not with the next beat only"
    assert words == "awaiting_input for 60 s (awaiting_input:1m=cancel): reads stdin, a pipe"
    assert stage.told == [(2.5, "awaiting_input"), (at, "awaiting_input:1m=cancel")]
    assert stage.looks[-1] == pytest.approx(at - 1), "and none after the stop"


def test_a_report_is_made_once_and_stops_nothing() -> None:
    stage = Stage(limits="needs_someone:30s=report")
    stage.found = lambda _: PROMPT
    stage.run(300)
    assert stage.told == [(2.5, "awaiting_input"), (32.5, "needs_someone:30s=report")]
    assert stage.stopped == []


def test_a_slow_query_is_ended_by_no_rule_for_prompts_and_hangs_whatever_a_single_look_says() -> None:
    """A SQL probe of 165 s: `network_wait` all the while, save for single looks that go wrong."""
    stage = Stage(limits="needs_someone:5s=cancel,may_be_hung:5s=cancel")
    looks = iter(range(1000))

    def found(_: float) -> Verdict:
        number = next(looks)
        if number % 7 == 3:
            return Verdict("deadlock_suspected" if number % 2 else "awaiting_input", INFERRED)
        return Verdict("network_wait", MEASURED)

    stage.found = found
    stage.run(165)
    assert stage.stopped == []
    assert not [told for _, told in stage.told if "=" in told]
    assert all(verdict != "deadlock_suspected" for _, verdict in stage.told)


def test_output_and_a_suspension_begin_the_age_anew() -> None:
    stage = Stage(limits="awaiting_input:60s=cancel")
    stage.found = lambda _: PROMPT
    for _ in range(5):
        stage.run(stage.now_ns / S + 50)
        stage.output()
    assert stage.stopped == []
