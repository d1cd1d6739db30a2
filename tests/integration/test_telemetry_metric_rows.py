"""Each metric of the registry, by its name, unit, kind, labels and value: at a scrape and at an OTLP receiver alike."""

import threading
import time
import urllib.request
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest
from prometheus_client import Metric as Family
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text
from supervised import closed_port

from sidecar.core.command import Command
from sidecar.core.lifecycle import SETTLE_REASONS
from sidecar.core.verdict_names import ALL
from sidecar.telemetry.conventions.metrics import DURATION_BOUNDS_S, METRICS, Metric
from sidecar.telemetry.families import DEFAULT_FAMILIES, OTHER
from sidecar.telemetry.newborn import EXPORTS_AT_ZERO
from sidecar.telemetry.pipeline import Telemetry
from sidecar.telemetry.settings import TelemetrySettings
from sidecar.testing import FakeClock
from sidecar.testing.otlp import OtlpReceiver
from sidecar.testing.received import ReceivedMetric
from sidecar.testing.scripted import ScriptedCommand

OPENMETRICS = "application/openmetrics-text; version=1.0.0"
FAMILIES = (*DEFAULT_FAMILIES, OTHER)
METRICS_ONLY = {"OTEL_TRACES_EXPORTER": "none", "OTEL_LOGS_EXPORTER": "none"}
NO_OTLP = {**METRICS_ONLY, "OTEL_METRICS_EXPORTER": "none"}
# Nobody else's resource attributes may break a scrape: names that become one, a digit first, a quote, a new line.
ODD = "a.b=1,a_b=2,1x=3,caf%C3%A9=4,deployment.environment=x%22y%0Az%5C"

Labels = tuple[tuple[str, str], ...]


def scrape(url: str, accept: str = "text/plain") -> str:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    request = urllib.request.Request(url, headers={"Accept": accept})
    with opener.open(request, timeout=60) as response:
        return str(response.read().decode())


def samples(families: Iterable[Family]) -> dict[tuple[str, Labels], float]:
    """(name, labels) -> value; fails where one series is there twice, as Prometheus does."""
    found: dict[tuple[str, Labels], float] = {}
    for family in families:
        for sample in family.samples:
            key = sample.name, tuple(sorted(sample.labels.items()))
            assert key not in found, key
            found[key] = sample.value
    return found


def labels(**given: str) -> Labels:
    return tuple(sorted(given.items()))


class Rig:
    """Telemetry with both readers (or, without a receiver, with /metrics alone) on a fake clock."""

    def __init__(self, receiver: OtlpReceiver | None, **settings: Any) -> None:
        self.clock = FakeClock()
        self.running: dict[str, Command] = {}
        with closed_port() as port:  # until it is taken
            self._telemetry_of(receiver, port, settings)

    def _telemetry_of(self, receiver: OtlpReceiver | None, port: int, settings: dict[str, Any]) -> None:
        made = {
            "otlp_endpoint": receiver.http_endpoint if receiver else None,
            "metric_export_interval_ns": 100_000_000,
            "prometheus_port": port,
            "environ": {**(METRICS_ONLY if receiver else NO_OTLP), "OTEL_RESOURCE_ATTRIBUTES": ODD},
            **settings,
        }
        self.telemetry = Telemetry(
            TelemetrySettings(**made), monotonic_ns=self.clock.monotonic_ns, unix_ns=self.clock.unix_ns
        )
        self.telemetry.observe(lambda: list(self.running.values()))
        self.url = self.telemetry.status()["prometheus"]

    def start(self, program: str, **identity: Any) -> ScriptedCommand:
        script = ScriptedCommand(self.clock, program, **identity)
        self.running[script.id] = script.start()
        self.telemetry.command_started(script.command)
        return script

    def beat(self, script: ScriptedCommand, verdict: str | None, evidence: list[str] | None = None) -> None:
        frame = script.beat(verdict, evidence)
        self.telemetry.heartbeat(script.command, frame)

    def end(self, script: ScriptedCommand) -> None:
        self.running.pop(script.id, None)
        self.telemetry.command_settled(script.command)


@dataclass
class Seen:
    """The same moment, at both ends: `before` anything ran, and after a scripted few commands: at the first scrape
    (`newborn`), and once all counts are shown. `history` is what came by OTLP since the commands ran."""

    before: dict[tuple[str, Labels], float]
    newborn: dict[tuple[str, Labels], float]
    kinds: dict[str, str]
    scraped: dict[tuple[str, Labels], float]
    openmetrics: dict[tuple[str, Labels], float]
    before_otlp: dict[tuple[str, Labels], ReceivedMetric]
    otlp: dict[tuple[str, Labels], ReceivedMetric]
    history: list[ReceivedMetric]
    hung: ScriptedCommand
    gone: ScriptedCommand
    unix_s: float


def key(metric: ReceivedMetric) -> tuple[str, Labels]:
    return metric.name, labels(**metric.attributes)


def received(receiver: OtlpReceiver, exports: int = 2) -> dict[tuple[str, Labels], ReceivedMetric]:
    """The latest point of each series, after so many more exports: of two one is whole."""
    for _ in range(exports):
        seen = len(receiver.requests)
        deadline_s = time.monotonic() + 60
        while len(receiver.requests) == seen:
            assert time.monotonic() < deadline_s
            time.sleep(0.01)
    return {key(m): m for m in receiver.metrics if m.name.startswith("sidecar.")}


@pytest.fixture(scope="module")
def seen() -> Iterator[Seen]:
    with OtlpReceiver() as receiver:
        # Half a second, so that a busy machine does not make the second export one after the 0.
        rig = Rig(receiver, metric_export_interval_ns=500_000_000)
        before = samples(parse_text(scrape(rig.url)))
        before_otlp = received(receiver)
        receiver.clear()
        hung = rig.start("make", sessionId='s "1"\\', heartbeatIntervalMs=5000)
        rig.clock.advance(10)
        rig.beat(hung, "network_peer_dead", ['no answer from "10.0.0.7"'])
        waiting = [rig.start("git", sessionId=f"s-{number}", timeoutMs=20_000) for number in range(6)]
        rig.clock.advance(5)
        for script in waiting:
            rig.beat(script, "awaiting_input")
        rig.clock.advance(60)
        rig.start("pytest")
        gone = rig.start("./odd name")
        rig.clock.advance(1)
        gone.lose()
        rig.end(gone)
        rig.telemetry.loop_alive()
        newborn = samples(parse_text(scrape(rig.url)))
        otlp = received(receiver, EXPORTS_AT_ZERO + 2)
        families = list(parse_text(scrape(rig.url)))
        yield Seen(
            before,
            newborn,
            {family.name: family.type for family in families},
            samples(families),
            samples(parse_openmetrics(scrape(rig.url, OPENMETRICS))),
            before_otlp,
            otlp,
            list(receiver.metrics),
            hung,
            gone,
            rig.clock.unix_ns() / 1e9,
        )
        rig.telemetry.shutdown(5)


KINDS = {"counter": "counter", "observable up-down counter": "gauge", "observable gauge": "gauge"}
OTLP_KINDS = {"counter": "sum", "observable up-down counter": "sum", "observable gauge": "gauge"}
SUFFIXES = {"s": "_seconds", "1": "_ratio"}


def prometheus_name(metric: Metric) -> str:
    name, suffix = metric.name.replace(".", "_"), SUFFIXES.get(metric.unit, "")
    return name if name.endswith(suffix) else name + suffix


@pytest.mark.parametrize("metric", METRICS.values(), ids=METRICS)
def test_name_unit_kind_and_labels_at_both_ends(seen: Seen, metric: Metric) -> None:
    name = prometheus_name(metric)
    assert seen.kinds[name] == KINDS.get(metric.instrument, metric.instrument)
    suffixes = {"counter": ("_total",), "histogram": ("_bucket", "_count", "_sum")}.get(metric.instrument, ("",))
    for suffix in suffixes:
        found = [dict(series) for sample, series in seen.scraped if sample == name + suffix]
        assert found
        extra = {"le"} if suffix == "_bucket" else set()
        assert {frozenset(series) for series in found} == {frozenset({*metric.attributes, *extra})}
    points = [point for (sample, _), point in seen.otlp.items() if sample == metric.name]
    assert points
    for point in points:
        assert (point.unit, point.description) == (metric.unit, metric.brief)
        assert point.kind == OTLP_KINDS.get(metric.instrument, metric.instrument)
        assert point.monotonic == (metric.instrument == "counter")
        assert set(point.attributes) == set(metric.attributes)
        assert point.cumulative or point.kind == "gauge"


def test_nothing_that_is_not_in_the_registry(seen: Seen) -> None:
    ours = {name for name in seen.kinds if name.startswith("sidecar")}
    assert ours == {prometheus_name(metric) for metric in METRICS.values()}
    assert {name for name, _ in seen.otlp} == set(METRICS)


def test_born_at_zero_at_both_ends(seen: Seen) -> None:
    born: dict[tuple[str, Labels], float] = {}
    for family in FAMILIES:
        born["sidecar.commands.started", labels(family=family)] = 0
        born["sidecar.commands.lost", labels(family=family)] = 0
        for state in ("running", "silent"):
            born["sidecar.commands.active", labels(family=family, state=state)] = 0
    for gauge in ("sidecar.output.age", "sidecar.silence.ratio", "sidecar.suspect.hidden"):
        born[gauge, ()] = 0
    for (name, series), value in born.items():
        sample = prometheus_name(METRICS[name]) + ("_total" if METRICS[name].instrument == "counter" else "")
        assert seen.before[sample, series] == value
        assert seen.before_otlp[name, series].value == value
    # The rest is born when there is something to count.
    later = ("sidecar_verdicts", "sidecar_heartbeats", "sidecar_command_duration", "sidecar_command_silence")
    assert not [name for name, _ in seen.before if name.startswith(later)]


def test_what_is_born_later_is_0_at_first_at_both_ends(seen: Seen) -> None:
    """That is what makes the first of each show in `increase()`. Heartbeats are seen at once."""
    assert seen.newborn["sidecar_heartbeats_total", labels(family="git", verdict="awaiting_input")] == 6
    verdict = labels(family="git", verdict="awaiting_input")
    ended = labels(family="other", outcome="lost")
    for name, series in (
        ("sidecar_verdicts_total", verdict),
        ("sidecar_command_duration_seconds_count", ended),
        ("sidecar_command_duration_seconds_sum", ended),
        ("sidecar_command_duration_seconds_bucket", labels(**dict(ended), le="+Inf")),
        ("sidecar_command_silence_duration_seconds_count", labels(family="other")),
    ):
        assert seen.newborn[name, series] == 0, name
        assert seen.scraped[name, series] > 0, name
    for name, series in (
        ("sidecar.verdicts", verdict),
        ("sidecar.command.duration", ended),
        ("sidecar.command.silence.duration", labels(family="other")),
    ):
        counts = [m.histogram.count if m.histogram else m.value for m in seen.history if key(m) == (name, series)]
        assert counts[:2] == [0, 0], name
        assert counts[-1] == (6 if series == verdict else 1), name
        assert counts == sorted(counts)


def test_values_at_both_ends(seen: Seen) -> None:
    expected: dict[tuple[str, Labels], float] = {
        ("sidecar.commands.active", labels(family="make", state="silent")): 1,
        ("sidecar.commands.active", labels(family="git", state="silent")): 6,
        ("sidecar.commands.active", labels(family="pytest", state="running")): 1,
        ("sidecar.commands.active", labels(family="other", state="running")): 0,
        ("sidecar.commands.started", labels(family="git")): 6,
        ("sidecar.commands.started", labels(family="other")): 1,
        ("sidecar.commands.lost", labels(family="other")): 1,
        ("sidecar.commands.lost", labels(family="make")): 0,
        ("sidecar.heartbeats", labels(family="git", verdict="awaiting_input")): 6,
        ("sidecar.heartbeats", labels(family="make", verdict="network_peer_dead")): 1,
        ("sidecar.verdicts", labels(family="git", verdict="awaiting_input")): 6,
        ("sidecar.output.age", ()): 76,
        ("sidecar.output.oldest.timestamp", ()): seen.unix_s - 76,
        ("sidecar.silence.ratio", ()): 66 / 20,
        ("sidecar.suspect.hidden", ()): 2,
        ("sidecar.daemon.loop.timestamp", ()): seen.unix_s,
    }
    whose = {"family": "make", "trace_id": seen.hung.trace_id, "session": 's "1"\\'}
    worst = labels(**whose, verdict="network_peer_dead", evidence='no answer from "10.0.0.7"')
    expected["sidecar.suspect.output.age", worst] = 76
    expected["sidecar.heartbeat.delay", labels(**whose)] = 61
    lost = labels(family="other", trace_id=seen.gone.trace_id, session="")
    expected["sidecar.lost.timestamp", lost] = seen.unix_s
    for (name, series), value in expected.items():
        sample = prometheus_name(METRICS[name]) + ("_total" if METRICS[name].instrument == "counter" else "")
        assert seen.scraped[sample, series] == pytest.approx(value), name
        assert seen.otlp[name, series].value == pytest.approx(value), name
    ages = [value for (name, _), value in seen.scraped.items() if name == "sidecar_suspect_output_age_seconds"]
    assert sorted(ages) == [66, 66, 66, 66, 76]


def test_histograms_at_both_ends(seen: Seen) -> None:
    lost = {"family": "other", "outcome": "lost"}
    for name, series in (("command.duration", lost), ("command.silence.duration", {"family": "other"})):
        point = seen.otlp[f"sidecar.{name}", labels(**series)]
        assert point.histogram is not None
        assert (point.histogram.count, point.histogram.sum) == (1, 1)
        scraped = f"sidecar_{name.replace('.', '_')}_seconds"
        assert seen.scraped[f"{scraped}_count", labels(**series)] == 1
        for bound, count in (("0.3", 0), ("1.0", 1), ("+Inf", 1)):
            assert seen.scraped[f"{scraped}_bucket", labels(**series, le=bound)] == count
        assert point.histogram.bounds == list(METRICS[f"sidecar.{name}"].bounds)


def test_both_text_formats_say_the_same(seen: Seen) -> None:
    def ours(found: dict[tuple[str, Labels], float]) -> dict[tuple[str, Labels], float]:
        return {key: value for key, value in found.items() if key[0].startswith("sidecar")}

    assert ours(seen.scraped) == ours(seen.openmetrics)
    (info,) = [dict(series) for name, series in seen.scraped if name == "target_info"]
    assert info["deployment_environment"] == 'x"y\nz\\'
    assert info["service_name"] == "sidecar"


def test_no_labels_that_churn(seen: Seen) -> None:
    names = {label for _, series in seen.scraped for label, _ in series}
    assert not [name for name in names if name.startswith("otel_scope")]


def test_two_scrapes_at_once_are_both_whole() -> None:
    """Both collections go through one queue of the SDK's; the barrier has both in it before either is taken out."""
    rig = Rig(None)
    inner = rig.telemetry._outputs.prometheus.reader._collector  # type: ignore[union-attr]
    add, both = inner.add_metrics_data, threading.Barrier(2)

    def add_and_wait(data: Any) -> None:
        add(data)
        try:
            both.wait(0.3)
        except threading.BrokenBarrierError:
            pass  # one at a time

    inner.add_metrics_data = add_and_wait
    with ThreadPoolExecutor(2) as pool:
        one, two = pool.map(lambda _: samples(parse_text(scrape(rig.url))), range(2))
    assert one.keys() == two.keys()
    assert one
    rig.telemetry.shutdown(5)


def most_series() -> int:
    """By the default list of families: every program with every verdict, and ended in every way."""
    histogram = len(DURATION_BOUNDS_S) + 3
    each = 4 + 2 * len(ALL) + 1 + histogram * (1 + len(SETTLE_REASONS))
    return len(FAMILIES) * each + 29


def _played(rig: Rig, program: str, verdicts: Iterable[str | None], outcomes: Iterable[str]) -> None:
    for outcome in outcomes:
        if outcome == "spawn_failed":
            failed = ScriptedCommand(rig.clock, program)
            failed.fail_to_spawn()
            rig.telemetry.command_settled(failed.command)
            continue
        script = rig.start(program)
        for verdict in verdicts:
            rig.clock.advance(10)
            rig.beat(script, verdict)
        if outcome == "lost":
            script.lose()
        else:
            script.settle(outcome)
        rig.end(script)


def _series(rig: Rig) -> int:
    scrape(rig.url)
    return len(samples(parse_text(scrape(rig.url))))


def test_as_many_series_as_the_pages_say() -> None:
    """One that is idle; one with ten kinds of programs, three of them always quick; and the worst that could be."""
    rig = Rig(None, metric_export_interval_ns=1)
    counts = [_series(rig)]
    quick, usual = ("bash", "git", "npm"), ("node", "python", "pytest", "make")
    for program in (*quick, *usual, "cargo", "curl", "docker"):
        if program in quick:
            _played(rig, program, (), ("exited",))
        elif program in usual:
            _played(rig, program, (None, "computing", "network_wait"), ("exited", "signaled"))
        else:
            waits = (None, "computing", "network_wait", "sleeping", "awaiting_input", "child_wait")
            _played(rig, program, waits, ("exited", "signaled", "timeout"))
    counts.append(_series(rig))
    for program in FAMILIES:
        _played(rig, program, (None, *ALL), SETTLE_REASONS)
    for _ in range(6):
        rig.beat(rig.start("make"), "frozen")
    counts.append(_series(rig))
    rig.telemetry.shutdown(5)
    idle, busy, most = counts
    print(counts)
    assert idle < 290
    assert busy < 830
    assert most <= most_series() < 13_500


def test_20000_commands_of_20000_names_sessions_and_traces() -> None:
    with OtlpReceiver() as receiver:
        rig = Rig(receiver, metric_export_interval_ns=3_600_000_000_000)
        verdicts = (*ALL, *(f"verdict-{number}" for number in range(500)))
        for number in range(20_000):
            script = rig.start(
                f"tool-{number} --key={number}" if number % 3 else f"{DEFAULT_FAMILIES[number % 67]}",
                sessionId=f"session-{number}",
                toolCallId=f"call-{number}",
                commandLine=f"make target-{number}",
            )
            rig.beat(script, verdicts[number % len(verdicts)])
            if number < 18_000:
                script.settle("exited", exitCode=number % 256)
                rig.end(script)
        started_s = time.process_time()  # of this process, whatever else the machine does
        series = samples(parse_text(scrape(rig.url)))
        took_s = time.process_time() - started_s
        counted = {name: sum(each[0] == name for each in series) for name in {each[0] for each in series}}
        families = len(FAMILIES)
        assert counted["sidecar_commands_started_total"] == counted["sidecar_commands_lost_total"] == families
        assert counted["sidecar_commands_active"] == 2 * families
        assert counted["sidecar_heartbeats_total"] <= families * (len(ALL) + 1)
        assert counted["sidecar_verdicts_total"] <= families * len(ALL)
        assert counted["sidecar_command_silence_duration_seconds_count"] <= families
        assert counted["sidecar_suspect_output_age_seconds"] == 5
        assert len(series) < most_series()
        assert not [each for each in series if "tool-" in str(each)]
        assert "otel_metric_overflow" not in {label for _, found in series for label, _ in found}
        assert took_s < 4, "20,000 command lines as labels took 5.6 s"
        rig.telemetry.shutdown(60)
        exported = {key(m): m.value for m in receiver.metrics}
        assert len(exported) < len(series)
        assert exported["sidecar.commands.started", labels(family=OTHER)] == 13_333
