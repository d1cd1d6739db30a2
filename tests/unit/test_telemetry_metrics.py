"""The instruments: names, labels, zeros, and what the gauges say about the running commands."""

from typing import Any

import pytest
from opentelemetry.sdk.metrics import Counter, Histogram, MeterProvider, ObservableUpDownCounter
from opentelemetry.sdk.metrics.export import InMemoryMetricReader, Metric, MetricsData, ResourceMetrics, ScopeMetrics
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext

from sidecar.core.command import Command
from sidecar.core.lifecycle import SETTLE_REASONS
from sidecar.core.verdict_names import ALL, GROUPS, MAY_BE_HUNG, group_of, label_of
from sidecar.telemetry.conventions.metrics import METRICS
from sidecar.telemetry.families import Families
from sidecar.telemetry.metrics import Metrics, cardinality_limits
from sidecar.telemetry.suspects import Suspect, suspects_among, with_suspects
from sidecar.testing import FakeClock
from sidecar.testing.scripted import ScriptedCommand

SPAN = SpanContext(1, 2, False)


class Rig:
    """Metrics on a fake clock, with a reader that keeps what it read."""

    def __init__(self, *, daemon: bool = True, families: tuple[str, ...] = ("make", "pytest")) -> None:
        self.clock = FakeClock()
        self.commands: dict[str, Command] = {}
        self._reader = InMemoryMetricReader()
        meters = MeterProvider([self._reader], Resource({}), shutdown_on_exit=False)
        self.metrics = Metrics(meters, Families(families), self.clock.monotonic_ns, self.clock.unix_ns, daemon=daemon)
        self.metrics.provider = self.commands.values

    def start(self, program: str = "make", **identity: Any) -> ScriptedCommand:
        script = ScriptedCommand(self.clock, program, **identity)
        self.commands[script.id] = script.start()
        self.metrics.started(script.command)
        return script

    def end(self, script: ScriptedCommand) -> None:
        self.commands.pop(script.id, None)
        self.metrics.settled(script.command, SPAN)

    def read(self) -> dict[str, Metric]:
        data = self._reader.get_metrics_data()
        assert data is not None
        return {metric.name: metric for scope in data.resource_metrics[0].scope_metrics for metric in scope.metrics}

    def values(self, name: str) -> dict[tuple[str, ...], float]:
        """Label values (in the order of the registry) -> value."""
        labels = METRICS[name].attributes
        return {
            tuple(str((point.attributes or {})[label]) for label in labels): getattr(point, "value", 0)
            for point in self.read()[name].data.data_points
        }

    def value(self, name: str) -> float:
        return self.values(name)[()]


def test_counters_of_commands_are_there_from_the_start() -> None:
    rig = Rig()
    families = {("make",): 0, ("pytest",): 0, ("other",): 0}
    assert rig.values("sidecar.commands.started") == families
    assert rig.values("sidecar.commands.lost") == families
    # Every program times every verdict: those are born when there is something to count.
    script = rig.start("make")
    assert "sidecar.verdicts" not in rig.read()
    script.beat("sleeping")
    rig.metrics.verdict(script.command)
    assert rig.values("sidecar.verdicts") == {("make", "sleeping"): 1}


def test_a_heartbeat_has_its_0_before_it_comes() -> None:
    rig = Rig()
    assert "sidecar.heartbeats" not in rig.read()
    script = rig.start("make")
    assert rig.values("sidecar.heartbeats") == {("make", "none"): 0}
    script.beat("sleeping")
    rig.metrics.verdict(script.command)
    assert rig.values("sidecar.heartbeats") == {("make", "none"): 0, ("make", "sleeping"): 0}
    rig.metrics.heartbeat(script.command)
    assert rig.values("sidecar.heartbeats") == {("make", "none"): 0, ("make", "sleeping"): 1}


def test_inline_has_no_zeros_and_no_loop() -> None:
    rig = Rig(daemon=False)
    rig.start()
    read = rig.read()
    assert "sidecar.daemon.loop.timestamp" not in read
    assert rig.values("sidecar.commands.started") == {("make",): 1}
    assert rig.values("sidecar.commands.active") == {("make", "running"): 1}
    assert "sidecar.commands.lost" not in read


def test_names_units_and_labels_are_the_registrys() -> None:
    rig = Rig()
    script = rig.start()
    script.beat("sleeping")
    rig.metrics.heartbeat(script.command)
    rig.metrics.verdict(script.command)
    script.settle()
    rig.end(script)
    read = rig.read()
    # The suspects' ages are put in by the readers; the spool observes itself.
    named = ("sidecar.suspect.output.age", "sidecar.overdue.output.age", "sidecar.heartbeat.delay")
    elsewhere = {*named, "sidecar.lost.timestamp", *(name for name in METRICS if name.startswith("sidecar.spool."))}
    assert set(read) == set(METRICS) - elsewhere
    for name, metric in read.items():
        assert (metric.unit, metric.description) == (METRICS[name].unit, METRICS[name].brief)
        for point in metric.data.data_points:
            assert set(point.attributes or {}) == set(METRICS[name].attributes)


def test_active_is_zero_filled_and_tells_silence() -> None:
    rig = Rig()
    loud, quiet = rig.start("make"), rig.start("whatever")
    rig.clock.advance(10)
    quiet.beat()
    loud.write()
    active = rig.values("sidecar.commands.active")
    assert active[("make", "running")] == 1
    assert active[("other", "silent")] == 1
    assert sum(active.values()) == 2
    assert len(active) == 6
    for script in (loud, quiet):
        script.settle()
        rig.end(script)
    assert set(rig.values("sidecar.commands.active").values()) == {0}


def test_nothing_runs() -> None:
    rig = Rig()
    assert rig.value("sidecar.output.age") == 0
    assert rig.value("sidecar.silence.ratio") == 0
    assert rig.value("sidecar.suspect.hidden") == 0
    assert rig.value("sidecar.output.oldest.timestamp") == rig.clock.unix_ns() / 1e9


def test_ages_are_of_the_worst_and_grow_without_frames() -> None:
    rig = Rig()
    rig.start("make", timeoutMs=100_000)
    rig.clock.advance(20)
    rig.start("pytest")
    rig.clock.advance(30)
    assert rig.value("sidecar.output.age") == 50
    assert rig.value("sidecar.output.oldest.timestamp") == rig.clock.unix_ns() / 1e9 - 50
    # 50 of 100 s against 30 of 60 s: the same; then the one without a timeout is the worse.
    assert rig.value("sidecar.silence.ratio") == pytest.approx(0.5)
    rig.clock.advance(30)
    assert rig.value("sidecar.silence.ratio") == pytest.approx(1.0)


def test_loop_timestamp_ages_when_the_loop_is_stuck() -> None:
    rig = Rig()
    rig.clock.advance(60)
    assert rig.value("sidecar.daemon.loop.timestamp") == rig.clock.unix_ns() / 1e9 - 60
    rig.metrics.loop_alive()
    assert rig.value("sidecar.daemon.loop.timestamp") == rig.clock.unix_ns() / 1e9


def test_durations_and_losses() -> None:
    rig = Rig()
    script = rig.start("pytest")
    rig.clock.advance(42)
    script.lose()
    rig.end(script)
    failed = ScriptedCommand(rig.clock, "make")
    failed.fail_to_spawn()
    rig.end(failed)
    assert rig.values("sidecar.commands.lost")[("pytest",)] == 1
    read = rig.read()
    durations: dict[tuple[str, ...], Any] = {
        tuple(str((point.attributes or {})[label]) for label in ("family", "outcome")): point
        for point in read["sidecar.command.duration"].data.data_points
    }
    assert set(durations) == {("pytest", "lost"), ("make", "spawn_failed")}
    lost = durations["pytest", "lost"]
    assert lost.sum == 42
    assert (lost.explicit_bounds[0], lost.explicit_bounds[-1]) == (0.1, 3600)
    (silence,) = read["sidecar.command.silence.duration"].data.data_points
    assert silence.attributes == {"family": "pytest"}


def test_labels_are_bounded_whatever_a_producer_says() -> None:
    rig = Rig()
    for number in range(50):
        script = rig.start(f"program-{number}-x")
        script.beat(f"verdict_{number}")
        rig.metrics.heartbeat(script.command)
        rig.metrics.verdict(script.command)
    assert rig.values("sidecar.commands.started")[("other",)] == 50
    assert rig.values("sidecar.heartbeats") == {("other", "none"): 0, ("other", "unknown"): 50}
    assert rig.values("sidecar.verdicts") == {("other", "unknown"): 50}


@pytest.mark.parametrize("names", [Families().all, tuple(f"{number}x" for number in range(1500))], ids=("ours", "long"))
def test_all_labels_fit_the_limits(names: tuple[str, ...]) -> None:
    """Beyond its limit the SDK puts everything into one series that says nothing."""
    limits = cardinality_limits(Families(names))
    count = len(Families(names).all)
    assert limits[Counter] >= count * (len(ALL) + 1)
    assert limits[Histogram] >= count * len(SETTLE_REASONS)
    assert limits[ObservableUpDownCounter] >= count * 2


def test_a_provider_that_changes_meanwhile() -> None:
    rig = Rig()
    rig.start()
    calls = []

    def provider() -> list[Command]:
        calls.append(1)
        if len(calls) == 1:
            raise RuntimeError("dictionary changed size during iteration")
        return list(rig.commands.values())

    rig.metrics.provider = provider
    rig.clock.advance(7)
    assert rig.value("sidecar.output.age") == 7


def test_suspects_are_the_worst_five() -> None:
    rig = Rig()
    scripts = []
    for number in range(8):
        script = rig.start("make", sessionId=f"s-{number}")
        script.judge("network_peer_dead" if number else "sleeping")
        scripts.append(script)
        rig.clock.advance(10)
    suspects = suspects_among(rig.commands.values(), Families(["make"]), rig.clock.monotonic_ns(), 60_000)
    assert [suspect.labels["session"] for suspect in suspects] == [f"s-{number}" for number in range(1, 8)]
    assert suspects[0].value_s == 70
    assert set(suspects[0].labels) == set(METRICS["sidecar.suspect.output.age"].attributes)
    assert len(rig.metrics.worst_suspects()[0]) == 5
    assert rig.value("sidecar.suspect.hidden") == 2


def test_what_needs_someone_becomes_a_suspect_once_the_budget_is_over() -> None:
    rig = Rig()
    script = rig.start()
    rig.clock.advance(2)
    script.judge("awaiting_input")
    rig.clock.advance(59)
    assert rig.metrics.worst_suspects()[0] == []
    rig.clock.advance(1)
    (suspect,) = rig.metrics.worst_suspects()[0]
    assert suspect.value_s == 62
    assert suspect.labels["verdict"] == "awaiting_input"
    # Output: somebody has answered, and what the old verdict was about is over.
    script.write()
    assert rig.metrics.worst_suspects()[0] == []
    rig.clock.advance(10)
    script.beat("awaiting_input")
    rig.clock.advance(49)
    assert rig.metrics.worst_suspects()[0] == []
    rig.clock.advance(1)
    assert len(rig.metrics.worst_suspects()[0]) == 1


def test_a_command_that_writes_again_is_no_suspect() -> None:
    rig = Rig()
    script = rig.start()
    script.judge("network_peer_dead")
    assert len(rig.metrics.worst_suspects()[0]) == 1
    rig.clock.advance(5)
    script.write()
    assert rig.metrics.worst_suspects()[0] == []


def test_the_most_overdue_command_is_named_whatever_its_verdict() -> None:
    rig = Rig()
    quiet = {"heartbeatIntervalMs": 0}  # nobody is missed
    rig.start("pytest", timeoutMs=600_000, **quiet).judge("sleeping")
    rig.clock.advance(1)
    probe = rig.start("make", sessionId="s-1", **quiet)
    probe.judge("network_wait")
    rig.clock.advance(59)
    rig.start("make", **quiet).judge("sleeping")
    assert rig.metrics.named_commands()[0] == []
    rig.clock.advance(61)
    (overdue,) = rig.metrics.named_commands()[0]
    assert (overdue.metric, overdue.value_s) == ("sidecar.overdue.output.age", 120)
    assert overdue.labels["verdict"] == "network_wait"
    assert overdue.labels["session"] == "s-1"
    assert set(overdue.labels) == set(METRICS[overdue.metric].attributes)
    scope = ScopeMetrics(InstrumentationScope("sidecar"), [], "")
    data = MetricsData([ResourceMetrics(Resource({}), [scope], "")])
    probe.judge("network_peer_dead")
    joined = with_suspects(data, *rig.metrics.named_commands()).resource_metrics[0].scope_metrics[0]
    assert [metric.name for metric in joined.metrics] == ["sidecar.suspect.output.age", "sidecar.overdue.output.age"]


def test_the_evidence_of_a_suspect_is_a_label_that_stays() -> None:
    """As many series as without it: one for each verdict of a suspect, however its figures move."""
    rig = Rig()
    script = rig.start(timeoutMs=600_000)
    seen = set()
    for number in range(5):
        rig.clock.advance(10)
        script.beat("network_peer_dead", [f"10.0.0.7:5432: {number} retransmits unanswered", "another"])
        (suspect,) = rig.metrics.named_commands()[0]
        seen.add(suspect.labels["evidence"])
        # The verdict goes, and comes back.
        script.judge("computing", ["it computes"])
        assert rig.metrics.named_commands()[0] == []
    assert seen == {"10.0.0.7:5432: 0 retransmits unanswered"}
    # Another silence, another fact.
    script.write()
    rig.clock.advance(10)
    script.beat("network_peer_dead", ["10.0.0.8:5432: 9 retransmits unanswered"])
    (suspect,) = rig.metrics.named_commands()[0]
    assert suspect.labels["evidence"] == "10.0.0.8:5432: 9 retransmits unanswered"


def test_evidence_of_any_kind_is_a_label() -> None:
    rig = Rig()
    rig.start().judge("frozen", ["\x1b[2J\n" + "x" * 5000])
    rig.start().judge("deadlock_suspected")
    labels = sorted(suspect.labels["evidence"] for suspect in rig.metrics.worst_suspects()[0])
    assert labels[0] == ""
    assert labels[1].startswith("\\x1b[2J\\nxxx")
    assert len(labels[1].encode()) <= 200


def unheard(rig: Rig) -> list[Suspect]:
    return [each for each in rig.metrics.named_commands()[0] if each.metric == "sidecar.heartbeat.delay"]


def test_a_supervisor_that_says_nothing_is_noticed_beside_others_that_beat() -> None:
    rig = Rig()
    stopped = rig.start("make", sessionId="s-1", heartbeatIntervalMs=30_000)
    beats = rig.start("pytest")
    talks = rig.start("pytest")
    stopped.beat("computing")
    for _ in range(9):
        assert unheard(rig) == []
        rig.clock.advance(10)
        beats.beat("sleeping")
        talks.write()
    # A minute beyond its interval; nobody else's matters.
    (late,) = unheard(rig)
    assert late.value_s == 60
    assert set(late.labels) == set(METRICS[late.metric].attributes)
    assert (late.labels["session"], late.labels["trace_id"]) == ("s-1", stopped.trace_id)
    stopped.judge("sleeping")
    assert unheard(rig) == []


def test_no_heartbeat_is_overdue_where_none_is_owed() -> None:
    rig = Rig()
    rig.start(heartbeatIntervalMs=0)
    rig.start().judge("output_blocked")
    rig.start().judge("stopped")
    rig.clock.advance(9000)
    assert unheard(rig) == []


def test_of_many_the_latest_heartbeats_are_named() -> None:
    rig = Rig()
    for number in range(8):
        rig.start(sessionId=f"s-{number}")
        rig.clock.advance(10)
    rig.clock.advance(90)
    assert [each.labels["session"] for each in unheard(rig)] == [f"s-{number}" for number in range(5)]
    assert [each.value_s for each in unheard(rig)] == [160, 150, 140, 130, 120]


def test_lost_commands_are_named_for_a_quarter_of_an_hour() -> None:
    rig = Rig()
    for number in range(7):
        script = rig.start("pytest", sessionId=f"s-{number}")
        script.lose()
        rig.end(script)
        rig.clock.advance(10)
    named, unix_ns = rig.metrics.named_commands()
    assert [(each.metric, each.labels["session"]) for each in named] == [
        ("sidecar.lost.timestamp", f"s-{number}") for number in range(2, 7)
    ]
    assert [unix_ns / 1e9 - each.value_s for each in named] == [50, 40, 30, 20, 10]
    assert set(named[0].labels) == set(METRICS["sidecar.lost.timestamp"].attributes)
    rig.clock.advance(880)
    assert [each.labels["session"] for each in rig.metrics.named_commands()[0]] == ["s-6"]
    rig.clock.advance(10)
    assert rig.metrics.named_commands()[0] == []


def test_suspects_join_our_scope_only() -> None:
    rig = Rig()
    rig.start().judge("deadlock_suspected")
    shown, now_ns = rig.metrics.worst_suspects()
    scopes = [ScopeMetrics(InstrumentationScope(name), [], "") for name in ("opentelemetry-sdk", "sidecar")]
    data = MetricsData([ResourceMetrics(Resource({}), scopes, "")])
    joined = with_suspects(data, shown, now_ns).resource_metrics[0].scope_metrics
    assert [len(scope.metrics) for scope in joined] == [0, 1]
    assert with_suspects(data, [], now_ns) is data


def test_verdict_names() -> None:
    assert len(ALL) == len(set(ALL)) == sum(map(len, GROUPS.values()))
    assert group_of(MAY_BE_HUNG[0]) == "may_be_hung"
    assert group_of(None) == group_of("brand_new") == "unknown"
    assert (label_of(None), label_of("brand_new"), label_of("sleeping")) == ("none", "unknown", "sleeping")
