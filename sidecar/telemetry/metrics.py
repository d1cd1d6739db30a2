"""The metrics: counters that are told, gauges that look at the running commands when they are asked.

All names, units and texts come from the registry. Every label is bounded: a program's name by the list of
families, a verdict by the list of verdicts. The counters of commands are there with 0 from the start: the first lost
command of a host raises an alarm at once. A heartbeat's 0 is there from when a command has the verdict that it would
bear. Those that would be thousands of zeros are born by `newborn`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from opentelemetry.metrics import CallbackOptions, Observation
from opentelemetry.sdk.metrics import Counter, Histogram, ObservableUpDownCounter
from opentelemetry.trace import NonRecordingSpan, set_span_in_context

from sidecar import __version__
from sidecar.core.lifecycle import SETTLE_REASONS
from sidecar.core.verdict_names import ALL, NO_VERDICT, label_of
from sidecar.telemetry.conventions.metrics import METRICS
from sidecar.telemetry.suspects import SHOWN, Lost, Suspect, beyond_hearing, most_overdue, suspects_among

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from opentelemetry import metrics as api
    from opentelemetry.trace import SpanContext

    from sidecar.core.command import Command
    from sidecar.telemetry.families import Families

    Look = Callable[[list[Command], int], Iterator[Observation]]

_NS_PER_S = 1_000_000_000

STATES = ("running", "silent")
DEFAULT_BUDGET_S = 60.0
"""Silence that a command without a timeout is granted in `sidecar.silence.ratio`."""

_TRIES = 5

BORN_BEFORE: Final = ("sidecar.commands.started", "sidecar.commands.lost", "sidecar.heartbeats")
"""Counters that have their 0 some seconds before they count: `newborn` need not hold them back."""


class Metrics:
    """The instruments on one meter provider.

    `provider` lists the running commands; it may be called on any thread. Without one nothing runs.
    `monotonic_ns` must be the clock that the commands' frames were received by.
    """

    def __init__(
        self,
        meters: api.MeterProvider,
        families: Families,
        monotonic_ns: Callable[[], int],
        unix_ns: Callable[[], int],
        *,
        daemon: bool,
        suspect_after_ns: int = 60 * _NS_PER_S,
    ) -> None:
        self.provider: Callable[[], Iterable[Command]] = tuple
        self._meter = meters.get_meter("sidecar", __version__)
        self._families = families
        self._monotonic_ns = monotonic_ns
        self._unix_ns = unix_ns
        self._loop_unix_ns = unix_ns()
        self._daemon = daemon
        self._suspect_after_ms = suspect_after_ns // 1_000_000
        self._lost_lately = Lost()
        self._started = self._counter("sidecar.commands.started")
        self._lost = self._counter("sidecar.commands.lost")
        self._heartbeats = self._counter("sidecar.heartbeats")
        self._verdicts = self._counter("sidecar.verdicts")
        self._duration = self._histogram("sidecar.command.duration")
        self._silence = self._histogram("sidecar.command.silence.duration")
        self._observe("sidecar.commands.active", self._active)
        self._observe("sidecar.output.age", self._output_age)
        self._observe("sidecar.output.oldest.timestamp", self._oldest_output)
        self._observe("sidecar.silence.ratio", self._silence_ratio)
        self._observe("sidecar.suspect.hidden", self._suspects_hidden)
        if daemon:
            # An inline process lives for one command: it has no loop, and zeros of its own tell nobody anything.
            self._observe("sidecar.daemon.loop.timestamp", self._loop)
            self._bear_at_zero()

    def started(self, command: Command) -> None:
        self._started.add(1, {"family": self._family(command)})
        self._may_beat(command, NO_VERDICT)

    def heartbeat(self, command: Command) -> None:
        verdict = label_of(command.standing_verdict)
        self._heartbeats.add(1, {"family": self._family(command), "verdict": verdict})

    def verdict(self, command: Command) -> None:
        self._verdicts.add(1, {"family": self._family(command), "verdict": label_of(command.verdict)})
        self._may_beat(command, label_of(command.verdict))

    def settled(self, command: Command, span: SpanContext) -> None:
        """`span` becomes the exemplar of the histograms, when it is sampled."""
        settled = command.settled or {}
        family, outcome = self._family(command), settled["reason"]
        context = set_span_in_context(NonRecordingSpan(span))
        self._duration.record(settled["elapsedMs"] / 1000, {"family": family, "outcome": outcome}, context)
        if outcome != "spawn_failed":
            self._silence.record(settled["longestSilenceMs"] / 1000, {"family": family}, context)
        if outcome == "lost":
            self._lost.add(1, {"family": family})
            self._lost_lately.add(command, self._families, self._unix_ns())

    def loop_alive(self) -> None:
        self._loop_unix_ns = self._unix_ns()

    def worst_suspects(self) -> tuple[list[Suspect], int]:
        """The suspects to show, and the wall time in ns."""
        suspects = suspects_among(
            self._running(), self._families, self._monotonic_ns(), self._suspect_after_ms
        )
        return suspects[:SHOWN], self._unix_ns()

    def named_commands(self) -> tuple[list[Suspect], int]:
        """The suspects to show, the one that is most overdue, those that are not heard of, those lost lately, and the
        wall time in ns."""
        suspects, unix_ns = self.worst_suspects()
        overdue = most_overdue(
            self._running(), self._families, self._monotonic_ns(), self._suspect_after_ms / 1000
        )
        unheard = beyond_hearing(self._running(), self._families, self._monotonic_ns(), self._suspect_after_ms)
        return [*suspects, *overdue, *unheard, *self._lost_lately.latest(unix_ns)], unix_ns

    def _bear_at_zero(self) -> None:
        for family in self._families.all:
            self._started.add(0, {"family": family})
            self._lost.add(0, {"family": family})

    def _may_beat(self, command: Command, verdict: str) -> None:
        # A verdict is there seconds before a heartbeat bears it: people who watch a command see each beat at once.
        if self._daemon:
            self._heartbeats.add(0, {"family": self._family(command), "verdict": verdict})

    def _family(self, command: Command) -> str:
        return self._families.of(command.identity["program"])

    def _running(self) -> list[Command]:
        for _ in range(_TRIES):
            try:
                return [command for command in self.provider() if command.settled is None]
            except RuntimeError:
                # The dict behind it changed size meanwhile: it belongs to another thread.
                continue
        return []

    def _active(self, commands: list[Command], now_ns: int) -> Iterator[Observation]:
        zeros = self._families.all if self._daemon else ()
        counts = {(family, state): 0 for family in zeros for state in STATES}
        for command in commands:
            key = self._family(command), STATES[command.silent]
            counts[key] = counts.get(key, 0) + 1
        for (family, state), count in counts.items():
            yield Observation(count, {"family": family, "state": state})

    def _output_age(self, commands: list[Command], now_ns: int) -> Iterator[Observation]:
        yield Observation(_worst_age_s(commands, now_ns))

    def _oldest_output(self, commands: list[Command], now_ns: int) -> Iterator[Observation]:
        # Now when nothing runs, so that `time() - x` is about 0 then, and grows only if this process dies.
        yield Observation(self._unix_ns() / _NS_PER_S - _worst_age_s(commands, now_ns))

    def _silence_ratio(self, commands: list[Command], now_ns: int) -> Iterator[Observation]:
        yield Observation(
            max((command.output_age_ms(now_ns) / 1000 / _budget_s(command) for command in commands), default=0.0)
        )

    def _suspects_hidden(self, commands: list[Command], now_ns: int) -> Iterator[Observation]:
        suspects = suspects_among(commands, self._families, now_ns, self._suspect_after_ms)
        yield Observation(max(0, len(suspects) - SHOWN))

    def _loop(self, commands: list[Command], now_ns: int) -> Iterator[Observation]:
        yield Observation(self._loop_unix_ns / _NS_PER_S)

    def _counter(self, name: str) -> api.Counter:
        known = METRICS[name]
        return self._meter.create_counter(name, known.unit, known.brief)

    def _histogram(self, name: str) -> api.Histogram:
        known = METRICS[name]
        return self._meter.create_histogram(
            name, known.unit, known.brief, explicit_bucket_boundaries_advisory=known.bounds
        )

    def _observe(self, name: str, look: Look) -> None:
        known = METRICS[name]

        def callback(options: CallbackOptions) -> Iterable[Observation]:
            return look(self._running(), self._monotonic_ns())

        create = (
            self._meter.create_observable_up_down_counter
            if known.instrument == "observable up-down counter"
            else self._meter.create_observable_gauge
        )
        create(name, [callback], known.unit, known.brief)


def cardinality_limits(families: Families) -> dict[type, int]:
    """The most label sets an instrument of each kind can have; above the SDK's own limit of 2,000 for counters, and for
    all of them where the list of families is long."""
    sdk, count = 2000, len(families.all)
    return {
        Counter: max(sdk, count * len((*ALL, NO_VERDICT))),
        Histogram: max(sdk, count * len(SETTLE_REASONS)),
        ObservableUpDownCounter: max(sdk, count * len(STATES)),
    }


def _worst_age_s(commands: list[Command], now_ns: int) -> float:
    return max((command.output_age_ms(now_ns) / 1000 for command in commands), default=0.0)


def _budget_s(command: Command) -> float:
    timeout_ms = command.identity.get("timeoutMs")
    return timeout_ms / 1000 if timeout_ms else DEFAULT_BUDGET_S
