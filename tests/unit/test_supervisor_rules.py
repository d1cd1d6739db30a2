"""The wire's rules 1 to 6, over random interleavings of time, output, stops and ends, in the supervisor's own loop.

The loop, its clocks, the reports and the counts are the real ones; the clock, the child and the delivery are not.
"""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.core import frame as wire
from sidecar.core.command import Command
from sidecar.core.curation import Curated
from sidecar.core.output import OutputStats
from sidecar.core.trace_context import begin_span
from sidecar.daemon.registry import Beat, Registry, Settled, Started
from sidecar.supervisor.loop import Loop
from sidecar.supervisor.options import RunOptions
from sidecar.supervisor.reports import Reports
from sidecar.supervisor.signals import SIGCHLD, SIGTERM, Received
from sidecar.testing.clock import FakeClock

MS = 1_000_000
CONTENT = b"zq9-very-secret-output\n"
ROUND_NS = 100 * MS
Frame = dict[str, Any]


class FakeChild:
    stopped_by = None
    continued = False
    canary = None
    not_of_the_tree: frozenset[int] = frozenset()

    def __init__(self) -> None:
        self.ended = False
        self.status: int | None = None
        self.told: list[str | int] = []
        self.left: list[int] = []

    def reap(self) -> bool:
        if self.ended and self.status is None:
            self.status = 0
            return True
        return False

    def send(self, number: int) -> None:
        self.told.append(number)

    def terminate(self, *, but_group: bool = False) -> int:
        self.told.append("terminate")
        return 1

    def kill(self) -> int:
        self.told.append("kill")
        return 1

    def survivors(self) -> list[str]:
        return []

    def others(self) -> list[int]:
        return self.left


class FakeDelivery:
    """Keeps what it is given, as the wire has it, and the moment."""

    link = None

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock
        self.sent: list[tuple[int, Frame]] = []
        self.lines: list[bytes] = []

    def send(self, frame: Frame) -> None:
        line = wire.encode(frame)
        checked = wire.parse(line)
        assert checked is not None
        self.lines.append(line)
        self.sent.append((self._clock.monotonic_ns(), checked))


class NoSignals:
    descriptor = -1
    tells_sender = False
    ignored_sigterm = False

    def read(self) -> list[Received]:
        return []


def options(interval_ns: int, timeout_ns: int | None, tool_call_id: str | None) -> RunOptions:
    return RunOptions(
        ["/usr/bin/make", "all"],
        {
            "bridge_id": None,
            "capture_command": False,
            "daemon_environment": (),
            "drain_grace_ns": 100 * MS,
            "frames_fd": None,
            "heartbeat_interval_ns": interval_ns,
            "inline": False,
            "kill_after_ns": 250 * MS,
            "log": None,
            "on_verdict": (),
            "pty": None,
            "session_id": "session-1",
            "silence_timeout_ns": None,
            "socket": None,
            "spool": None,
            "spool_max_bytes": 1 << 20,
            "timeout_ns": timeout_ns,
            "tool_call_id": tool_call_id,
            "tool_name": "run_shell_command",
            "verdict_after_ns": 2000 * MS,
            "verdicts": False,
        },
    )


class Played:
    """One command's life: `play` the steps, `settle` as `sidecar run` does. Notes what happened when."""

    def __init__(self, interval_ns: int, timeout_ns: int | None, tool_call_id: str | None = "call_1") -> None:
        self.clock = FakeClock()
        self.started_ns = self.clock.monotonic_ns()
        self.interval_ns = interval_ns
        self.timeout_ns = timeout_ns
        self.child = FakeChild()
        self.delivery = FakeDelivery(self.clock)
        self.stats = OutputStats(self.started_ns)
        chosen = options(interval_ns, timeout_ns, tool_call_id)
        context = begin_span(None, None, bytes(range(24)))
        self.reports = Reports(chosen, context, io="pipe", started_ns=self.started_ns, unix_ms=1)
        self.loop = Loop(
            chosen,
            self.child,  # type: ignore[arg-type]
            [],
            NoSignals(),  # type: ignore[arg-type]
            self.stats,
            self.reports,
            self.delivery,  # type: ignore[arg-type]
            None,
            None,
            self.clock.monotonic_ns,
        )
        self.delivery.send(self.reports.started(4711))
        self.outputs: list[tuple[int, int]] = []  # (frames sent before it, when)
        self.stopped_ns: int | None = None
        self.stopped_at_frame: int | None = None
        self.first_stop: str | None = None

    def step(self, what: str, amount: int) -> None:
        now_ns = self.clock.monotonic_ns()
        if what == "time":
            self.clock.advance(amount / 100)
        elif what == "output":
            self.stats.record(CONTENT * (amount + 1), now_ns)
            self.loop.heartbeat.output(now_ns)
            self.outputs.append((len(self.delivery.sent), now_ns))
        elif what == "turn":
            live = self.child.status is None and self.first_stop is None
            self.loop._clocks(now_ns)
            if live and self.timeout_ns is not None and now_ns >= self.started_ns + self.timeout_ns:
                self._note_end("timeout")
        elif what == "term":
            if self.child.status is None:
                self._note_end("cancelled")
            self.loop.reactions.signal(Received(SIGTERM, 0, 1))
        elif what == "exit":
            self.child.ended = True
            self.loop.reactions.signal(Received(SIGCHLD, 0, 4711))
            self._note_end(None)

    def _note_end(self, reason: str | None) -> None:
        if self.first_stop is None:
            self.first_stop = reason
        if self.stopped_at_frame is None:
            self.stopped_at_frame = len(self.delivery.sent)

    def settle(self) -> None:
        if self.child.status is None:
            self.step("exit", 0)
        self.loop.lifecycle.exited(by_signal=False)
        reason = self.loop.lifecycle.reason
        assert reason is not None
        now_ns = self.clock.monotonic_ns()
        extra: Frame = {"exitCode": 0, "descendantsLeft": 0}
        self.delivery.send(self.reports.settled(reason, self.stats, self.loop.heartbeat.count, now_ns, extra))

    @property
    def frames(self) -> list[Frame]:
        return [frame for _, frame in self.delivery.sent]


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("time"), st.integers(1, 40)),
        st.tuples(st.just("output"), st.integers(0, 3)),
        st.tuples(st.just("turn"), st.just(0)),
        st.tuples(st.just("turn"), st.just(0)),
        st.tuples(st.sampled_from(["term", "exit", "turn"]), st.just(0)),
    ),
    max_size=50,
)
LIVES = st.builds(
    lambda interval, timeout, call, steps: (Played(interval * MS, timeout and timeout * MS, call), steps),
    st.sampled_from([0, 100, 100, 130]),
    st.sampled_from([None, None, 150, 900]),
    st.sampled_from([None, "call_1", "toolu_\u00e9"]),
    STEPS,
)


def play(life: tuple[Played, list[tuple[str, int]]]) -> Played:
    played, steps = life
    for what, amount in steps:
        played.step(what, amount)
    played.settle()
    settled_at = len(played.delivery.sent)
    # Whatever still comes after the end is not told to anybody.
    for what in ("output", "time", "turn", "term", "turn", "exit", "turn"):
        if what == "term":
            played.loop.stop("cancelled", "cancel")
        else:
            played.step(what, 300)
    assert len(played.delivery.sent) == settled_at
    return played


@settings(max_examples=200)
@given(LIVES)
def test_a_beat_comes_only_after_a_full_interval_without_output(life: tuple[Played, list[tuple[str, int]]]) -> None:
    played = play(life)
    beats = [
        (number, at_ns, frame)
        for number, (at_ns, frame) in enumerate(played.delivery.sent)
        if frame["type"] == wire.PROGRESS
    ]
    if played.interval_ns == 0:
        assert not beats
    for number, at_ns, frame in beats:
        last_ns = max((out_ns for sent_before, out_ns in played.outputs if sent_before <= number), default=None)
        assert at_ns - (played.started_ns if last_ns is None else last_ns) >= played.interval_ns
        payload = frame["shellProgress"]
        assert wire.is_shell_progress(payload)
        assert payload["elapsedMs"] == (at_ns - played.started_ns) // MS
        assert payload.get("lastOutputAgeMs") == (None if last_ns is None else (at_ns - last_ns) // MS)
        assert payload.get("timeoutMs") == (None if played.timeout_ns is None else played.timeout_ns // MS)
    assert [frame["heartbeatCount"] for _, _, frame in beats] == list(range(1, len(beats) + 1))


@settings(max_examples=200)
@given(LIVES)
def test_no_beat_before_the_start_after_a_stop_or_after_the_end(life: tuple[Played, list[tuple[str, int]]]) -> None:
    played = play(life)
    kinds = [frame["type"] for frame in played.frames]
    assert kinds[0] == wire.STARTED
    assert kinds[-1] == wire.SETTLED
    assert kinds.count(wire.STARTED) == kinds.count(wire.SETTLED) == 1
    assert played.stopped_at_frame is not None
    # A turn sends its beat before it looks at the timeout; nothing but the end comes behind either.
    assert kinds[played.stopped_at_frame :] == [wire.SETTLED]
    assert played.frames[-1]["reason"] == (played.first_stop or "exited")


@given(LIVES)
def test_ids_and_sequence_are_the_commands_own_and_content_is_nowhere(
    life: tuple[Played, list[tuple[str, int]]],
) -> None:
    played = play(life)
    frames = played.frames
    assert [frame["seq"] for frame in frames] == list(range(len(frames)))
    assert {frame["commandId"] for frame in frames} == {played.reports.command_id}
    call = frames[0].get("toolCallId")
    assert call in (None, "call_1", "toolu_\u00e9")
    for frame in frames[1:]:
        assert frame.get("toolCallId") in (None, call)
        if frame["type"] == wire.PROGRESS:
            assert wire.native(frames[0], frame).get("toolCallId") == call
    text = b"".join(played.delivery.lines)
    assert b"zq9" not in text
    assert b"secret" not in text
    assert b"/usr/bin" not in text


def assert_same_counts(command: Command, played: Played) -> None:
    assert command.settled is not None
    assert command.heartbeat_count == played.loop.heartbeat.count
    assert command.lifecycle.reason == (played.first_stop or "exited")
    last = played.frames[-1]
    assert (command.total_bytes, command.total_lines) == (last["totalBytes"], last["totalLines"])
    assert command.longest_silence_ms == last["longestSilenceMs"]
    assert command.has_output == (command.total_bytes > 0)


@given(LIVES, st.data())
def test_a_reader_of_the_frames_counts_what_the_supervisor_counted(
    life: tuple[Played, list[tuple[str, int]]], data: st.DataObject
) -> None:
    played = play(life)
    frames = played.frames
    # Each frame is told once, and any earlier part again at any time, as a producer that reconnects does.
    told: list[Frame] = []
    for number, frame in enumerate(frames):
        told.append(frame)
        again = data.draw(st.integers(0, number + 1), label="told again from the start")
        if data.draw(st.booleans()):
            told += [{**earlier, "replay": True} for earlier in frames[:again]]
    command = Command(told[0], 0)
    taken = [frame["seq"] for frame in told[1:] if command.apply(frame, 0)]
    assert taken == list(range(1, len(frames)))
    assert_same_counts(command, played)

    registry = Registry()
    events = [event for frame in told for event in registry.feed(frame, 0)]
    assert sum(isinstance(event, Started) for event in events) == 1
    assert sum(isinstance(event, Beat) for event in events) == played.loop.heartbeat.count
    assert isinstance(events[-1], Settled)
    assert sum(isinstance(event, Settled) for event in events) == 1
    assert_same_counts(events[-1].command, played)
    assert not registry.running


@given(LIVES, st.integers(0, 60))
def test_a_new_daemon_that_is_told_a_selection_counts_the_same(
    life: tuple[Played, list[tuple[str, int]]], crash: int
) -> None:
    played = play(life)
    frames = played.frames
    crash = min(crash, len(frames) - 1)
    kept: Curated[Frame] = Curated(first=1, changes=1, last=1)
    for frame in frames[1:crash]:
        if frame["type"] == wire.PROGRESS:
            kept.add(frame)
    registry = Registry()
    events = []
    for frame in (frames[0], *kept.kept):
        events += registry.feed({**frame, "replay": True}, 0)
    for frame in frames[max(1, crash) :]:
        events += registry.feed(frame, 0)
    assert isinstance(events[-1], Settled)
    assert_same_counts(events[-1].command, played)


def test_the_whole_tree_is_terminated_once_and_killed_after_the_grace() -> None:
    played = Played(100 * MS, 200 * MS)
    played.step("time", 20)
    played.step("turn", 0)
    assert played.child.told == ["terminate"]
    played.step("time", 24)
    played.step("turn", 0)
    assert played.child.told == ["terminate"]
    played.step("time", 1)
    played.step("turn", 0)
    assert played.child.told == ["terminate", "kill"]
    played.step("time", 100)
    played.step("turn", 0)
    assert played.child.told == ["terminate", "kill"]


def test_a_term_in_the_grace_goes_to_the_command_and_changes_neither_grace_nor_reason() -> None:
    played = Played(100 * MS, 200 * MS)
    played.step("time", 20)
    played.step("turn", 0)
    played.step("term", 0)
    played.step("turn", 0)
    assert played.child.told == ["terminate", SIGTERM]
    played.settle()
    assert played.frames[-1]["reason"] == "timeout"


def test_a_beat_that_is_due_in_the_turn_of_the_timeout_is_not_sent() -> None:
    played = Played(1000 * MS, 2000 * MS)
    for _ in range(2):
        played.step("time", 100)
        played.step("turn", 0)
    played.settle()
    assert [frame["type"] for frame in played.frames] == [wire.STARTED, wire.PROGRESS, wire.SETTLED]
    assert played.frames[-1]["reason"] == "timeout"


def test_a_command_that_exits_in_time_meets_no_timeout() -> None:
    played = Played(100 * MS, 200 * MS)
    played.step("exit", 0)
    played.step("time", 500)
    played.step("turn", 0)
    assert played.child.told == []
    played.settle()
    assert played.frames[-1]["reason"] == "exited"


def test_the_end_waits_for_the_rest_of_a_tree_that_is_being_stopped() -> None:
    played = Played(0, None)
    played.step("term", 0)
    played.step("exit", 0)
    played.child.left = [99]
    played.step("time", 20)
    assert not played.loop._done(played.clock.monotonic_ns())
    played.child.left = []
    assert played.loop._done(played.clock.monotonic_ns())


def test_a_process_that_does_not_die_of_kill_is_given_up() -> None:
    played = Played(0, None)
    played.step("term", 0)
    played.child.left = [99]
    played.step("time", 25)
    played.step("turn", 0)
    assert played.child.told == ["terminate", "kill"]
    assert not played.loop._done(played.clock.monotonic_ns())
    played.step("time", 200)
    assert played.loop._done(played.clock.monotonic_ns())
