"""Eight hours of one command, on a fake clock, through the daemon's registry and the real SDK to a real receiver."""

from collections.abc import Callable, Iterator
from itertools import cycle

import pytest

from sidecar.core.curation import CHANGES, FIRST, LAST
from sidecar.daemon.registry import Beat, Event, Registry, Settled, Started, VerdictChanged
from sidecar.telemetry.pipeline import Telemetry
from sidecar.telemetry.settings import TelemetrySettings
from sidecar.testing import FakeClock
from sidecar.testing.otlp import OtlpReceiver
from sidecar.testing.received import ReceivedSpan
from sidecar.testing.scripted import ScriptedCommand

EIGHT_HOURS_S = 8 * 3600
SECOND_NS = 1_000_000_000

Step = Callable[["Life", int], None]


class Life:
    """One scripted command, its frames fed to a registry, and what the registry says told to the telemetry."""

    def __init__(self, receiver: OtlpReceiver) -> None:
        self.clock = FakeClock()
        self.script = ScriptedCommand(self.clock, "make")
        self.changes_s: list[int] = []
        self._verdict: str | None = None
        self._registry = Registry()
        # Time stands still for the SDK: eight hours of log events in a second are more than its queue holds.
        environ = {"OTEL_LOGS_EXPORTER": "none"}
        settings = TelemetrySettings(otlp_endpoint=receiver.http_endpoint, environ=environ)
        self._telemetry = Telemetry(settings, monotonic_ns=self.clock.monotonic_ns, unix_ns=self.clock.unix_ns)
        self._telemetry.observe(lambda: list(self._registry.running.values()))
        self.script.start()
        self._feed(self.script.command.identity)

    def beat(self, second: int, verdict: str) -> None:
        self._note(second, verdict)
        self._feed(self.script.beat(verdict))

    def judge(self, second: int, verdict: str) -> None:
        self._note(second, verdict)
        self._feed(self.script.judge(verdict))

    def write(self) -> None:
        self._feed(self.script.write())

    def live(self, step: Step) -> None:
        for second in range(1, EIGHT_HOURS_S + 1):
            self.clock.advance(1)
            step(self, second)
        self._feed(self.script.settle())
        self._telemetry.shutdown(60)
        assert self._telemetry.status()["problems"] == []

    def _note(self, second: int, verdict: str) -> None:
        if verdict != self._verdict:
            self._verdict = verdict
            self.changes_s.append(second)

    def _feed(self, frame: dict[str, object]) -> None:
        for event in self._registry.feed(frame, self.clock.monotonic_ns()):
            self._tell(event)

    def _tell(self, event: Event) -> None:
        """As `sidecar.daemon.server` does it."""
        if isinstance(event, Started):
            self._telemetry.command_started(event.command)
        elif isinstance(event, Beat):
            self._telemetry.heartbeat(event.command, event.frame)
        elif isinstance(event, VerdictChanged):
            self._telemetry.verdict_changed(event.command, event.frame)
        elif isinstance(event, Settled):
            self._telemetry.command_settled(event.command)


class Outcome:
    """What came of it at the receiver; times in seconds since the start."""

    def __init__(self, spans: list[ReceivedSpan], life: Life) -> None:
        self.count = len(spans)
        self.changes_s = life.changes_s
        self._start_ns = life.script.identity["startUnixMs"] * 1_000_000
        by_role = {role: [s for s in spans if s.attributes["sidecar.span.role"] == role] for role in ROLES}
        assert len(by_role["started"]) == len(by_role["command"]) == 1
        (self.command,) = by_role["command"]
        self.live_s = [self._second(span.end_unix_ns) for span in by_role["heartbeat"]]
        self.event_s = [self._second(event.time_unix_ns) for event in self.command.events]
        self.dropped = self.command.attributes["sidecar.heartbeat.events_dropped"]

    def _second(self, unix_ns: int) -> int:
        return round((unix_ns - self._start_ns) / SECOND_NS)


ROLES = ("started", "heartbeat", "command")


@pytest.fixture
def live() -> Iterator[Callable[[Step], Outcome]]:
    with OtlpReceiver() as receiver:

        def run(step: Step) -> Outcome:
            life = Life(receiver)
            life.live(step)
            outcome = Outcome(receiver.spans, life)
            # Whatever it was: these bounds hold.
            assert outcome.count < 600
            assert len(outcome.event_s) <= 128
            assert outcome.event_s == sorted(outcome.event_s)
            return outcome

        yield run


def test_silence(live: Callable[[Step], Outcome]) -> None:
    def step(life: Life, second: int) -> None:
        if second % 10 == 0:
            life.beat(second, "sleeping")

    outcome = live(step)
    assert outcome.count == 481 + 2
    assert outcome.live_s[:6] == [10, 30, 70, 130, 190, 250]
    assert outcome.command.attributes["shell.heartbeat_count"] == 2880
    assert outcome.event_s[:FIRST] == list(range(10, 10 * FIRST + 1, 10))
    assert outcome.event_s[-LAST:] == list(range(EIGHT_HOURS_S - 10 * (LAST - 1), EIGHT_HOURS_S + 1, 10))
    assert outcome.dropped == 2880 - FIRST - LAST


def test_every_change_of_a_calm_command_is_sent_at_once_and_kept(live: Callable[[Step], Outcome]) -> None:
    verdicts = ("sleeping", "network_wait", "computing", "lock_wait")

    def step(life: Life, second: int) -> None:
        verdict = verdicts[second // 607 % 4]  # a change every ten minutes, between beats
        if second % 607 == 0:
            life.judge(second, verdict)
        if second % 10 == 0:
            life.beat(second, verdict)

    outcome = live(step)
    assert len(outcome.changes_s) == 1 + EIGHT_HOURS_S // 607
    assert set(outcome.changes_s) <= set(outcome.live_s)
    assert set(outcome.changes_s) <= set(outcome.event_s)
    assert outcome.event_s[0] == 10
    assert outcome.event_s[-1] == EIGHT_HOURS_S
    assert outcome.dropped == 2880 + len(outcome.changes_s) - 1 - len(outcome.event_s)


def test_a_verdict_that_flaps_every_second(live: Callable[[Step], Outcome]) -> None:
    verdicts = cycle(("sleeping", "polling"))

    def step(life: Life, second: int) -> None:
        (life.beat if second % 10 == 0 else life.judge)(second, next(verdicts))

    outcome = live(step)
    assert len(outcome.changes_s) == EIGHT_HOURS_S
    assert outcome.live_s[:60] == list(range(1, 61))
    assert max(later - earlier for earlier, later in zip(outcome.live_s, outcome.live_s[1:], strict=False)) <= 60
    assert len(outcome.event_s) == FIRST + CHANGES + LAST
    assert (outcome.event_s[0], outcome.event_s[-1]) == (1, EIGHT_HOURS_S)
    assert outcome.dropped == EIGHT_HOURS_S - len(outcome.event_s)
    assert outcome.command.attributes["shell.heartbeat_count"] == 2880


def test_the_one_change_that_matters_comes_long_after_the_flapping(live: Callable[[Step], Outcome]) -> None:
    verdicts = cycle(("sleeping", "polling"))

    def step(life: Life, second: int) -> None:
        if second < 3600:
            life.judge(second, next(verdicts))
        if second == 7 * 3600 + 3:
            life.judge(second, "deadlock_suspected")
        if second % 10 == 0:
            life.beat(second, "deadlock_suspected" if second > 7 * 3600 + 3 else "polling")

    outcome = live(step)
    assert 7 * 3600 + 3 in outcome.live_s
    assert 7 * 3600 + 3 in outcome.event_s


@pytest.mark.parametrize("gap_s", [11, 25, 90])
def test_output_now_and_then(live: Callable[[Step], Outcome], gap_s: int) -> None:
    def step(life: Life, second: int) -> None:
        since = second % gap_s
        if since == 0:
            life.write()
        elif since % 10 == 0:
            life.beat(second, ("computing", "network_wait")[since // 10 % 2])

    outcome = live(step)
    beats = sum(second % gap_s > 0 and second % gap_s % 10 == 0 for second in range(1, EIGHT_HOURS_S + 1))
    assert outcome.command.attributes["shell.heartbeat_count"] == beats
    assert outcome.event_s[0] == 10
    assert outcome.dropped == beats - len(outcome.event_s)
    assert max(later - earlier for earlier, later in zip(outcome.live_s, outcome.live_s[1:], strict=False)) <= 90
