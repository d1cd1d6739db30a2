"""Each metric of the registry, read back from a real Prometheus by PromQL: by way of the Collector, and from the
daemon's own /metrics."""

import json
import os
import re
import signal
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
from backends import ROOT, eventually, free_port, tool
from installed import EVIDENCE, Sidecar, new_trace, suspect_frames
from prometheus_backend import Prometheus
from stack import Stack

from sidecar.telemetry.conventions.metrics import DURATION_BOUNDS_S, METRICS, Metric

# Of whom a series is. By way of the Collector `instance` is the daemon's id, and `collector` whom Prometheus scrapes;
# what is scraped itself has its address.
OF_COLLECTOR = {"job", "instance", "host_name", "collector"}
OF_DAEMON = {"job", "instance"}
ROUTES = [pytest.param("collector", OF_COLLECTOR, id="collector"), pytest.param("daemon", OF_DAEMON, id="daemon")]
TRACEPARENT, TRACE_ID, _ = new_trace()


@dataclass(frozen=True, slots=True)
class Measured:
    """What Prometheus saw of one daemon, on both ways, while one command was silent, one was suspect, one had
    ended and one was lost."""

    collector: Prometheus
    daemon: Prometheus
    instance: str
    run_another: Callable[[], int]

    def ask(self, route: str, name: str, **labels: str) -> list[tuple[dict[str, str], float]]:
        labels["instance"] = self.instance if route == "collector" else self.daemon_instance
        wanted = ",".join(f'{key}="{value}"' for key, value in labels.items())
        prometheus: Prometheus = getattr(self, route)
        return prometheus.ask(f"{name}{{{wanted}}}")

    def value(self, route: str, name: str, **labels: str) -> float:
        (series,) = self.ask(route, name, **labels)
        return series[1]

    def has(self, route: str, value: float, name: str, **labels: str) -> bool:
        """Whether there is just one such series by now, and says so."""
        return [found for _, found in self.ask(route, name, **labels)] == [value]

    @property
    def daemon_instance(self) -> str:
        return self.daemon.targets["daemon"]


@pytest.fixture(scope="module")
def measured(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Measured]:
    folder = tmp_path_factory.mktemp("metrics")
    port = free_port()
    with (
        Sidecar(folder, stack.collector.http, PROMETHEUS_PORT=str(port), SUSPECT_AFTER="2s") as sidecar,
        Prometheus(folder, {"daemon": f"127.0.0.1:{port}"}) as scraping_daemon,
    ):
        # Prometheus begins five seconds after its start; what rises before that is not seen to rise.
        for prometheus in (stack.prometheus, scraping_daemon):
            eventually("this daemon's zeros", lambda p=prometheus: p.values("sum(sidecar_commands_started_total) == 0"))
        sidecar.start("sleep", "300", options=("--session-id", "s-8"))
        assert sidecar.start("true", TRACEPARENT=TRACEPARENT).wait(10) == 0
        lost = sidecar.start("cat", "/dev/zero", options=("--session-id", "s-9"))
        with sidecar.send(*suspect_frames(TRACE_ID, "s-7")):
            started = 'sidecar_commands_started_total{family="cat"}'
            eventually("cat has started", lambda: scraping_daemon.values(started) == [1])
            lost.send_signal(signal.SIGKILL)
            suspects = f'sidecar_suspect_output_age_seconds{{trace_id="{TRACE_ID}"}}'
            ((suspect, _),) = eventually("the series of this daemon", lambda: stack.prometheus.ask(suspects))
            seen = Measured(
                stack.prometheus,
                scraping_daemon,
                suspect["instance"],
                lambda: sidecar.start("true", TRACEPARENT=TRACEPARENT).wait(10),
            )
            for route in ("collector", "daemon"):
                eventually(
                    f"all of it, by way of the {route}",
                    lambda route=route: (
                        seen.has(route, 1, "sidecar_commands_lost_total", family="cat")
                        and seen.has(route, 1, "sidecar_commands_active", family="sleep", state="silent")
                        and seen.ask(route, "sidecar_heartbeats_total", family="sleep")
                        and seen.has(route, 1, "sidecar_verdicts_total", family="npm", verdict="network_peer_dead")
                        and seen.has(route, 1, "sidecar_command_duration_seconds_count", outcome="lost")
                        and seen.ask(route, "sidecar_suspect_output_age_seconds")
                        and seen.ask(route, "sidecar_overdue_output_age_seconds")
                        and seen.ask(route, "sidecar_heartbeat_delay_seconds")
                    ),
                )
            yield seen


def prometheus_names(metric: Metric) -> list[str]:
    """As the OpenTelemetry specification translates them (prometheus_and_openmetrics, Metric Metadata)."""
    name = metric.name.replace(".", "_") + ("_seconds" if metric.unit == "s" else "")
    if metric.instrument == "counter":
        return [f"{name}_total"]
    if metric.instrument == "histogram":
        return [f"{name}_bucket", f"{name}_sum", f"{name}_count"]
    return [name]


@pytest.mark.parametrize("name", METRICS)
@pytest.mark.parametrize(("route", "whose"), ROUTES)
def test_it_is_there_with_its_labels_and_no_others(measured: Measured, route: str, whose: set[str], name: str) -> None:
    for each in prometheus_names(METRICS[name]):
        series = measured.ask(route, each)
        assert series, f"{each} is not in Prometheus"
        own = {"le"} if each.endswith("_bucket") else set()
        labels = {"__name__", *METRICS[name].attributes} | whose | own
        assert {key for found, _ in series for key in found} == labels


@pytest.mark.parametrize(("route", "whose"), ROUTES)
def test_the_values_are_those_of_what_happened(measured: Measured, route: str, whose: set[str]) -> None:
    def value(name: str, **labels: str) -> float:
        return measured.value(route, name, **labels)

    assert value("sidecar_commands_started_total", family="sleep") == 1
    assert value("sidecar_commands_started_total", family="other") == 1  # true
    assert value("sidecar_commands_lost_total", family="cat") == 1
    assert value("sidecar_commands_lost_total", family="make") == 0, "born at 0"
    assert value("sidecar_verdicts_total", family="npm", verdict="network_peer_dead") == 1
    assert value("sidecar_command_duration_seconds_count", family="cat", outcome="lost") == 1
    assert value("sidecar_command_duration_seconds_bucket", family="other", outcome="exited", le="+Inf") == 1
    assert value("sidecar_suspect_hidden") == 0
    assert 1 < value("sidecar_output_age_seconds") < 300
    assert 0 < value("sidecar_silence_ratio") < 2
    assert abs(time.time() - value("sidecar_daemon_loop_timestamp_seconds")) < 60
    age = value("sidecar_output_age_seconds")
    assert abs(time.time() - value("sidecar_output_oldest_timestamp_seconds") - age) < 60
    # `cat` was one too while it waited for its reader, and a pushed series outlives what it tells of.
    suspects = measured.ask(route, "sidecar_suspect_output_age_seconds")
    ((suspect, age),) = [(labels, age) for labels, age in suspects if labels["trace_id"] == TRACE_ID]
    expected = {"family": "npm", "verdict": "network_peer_dead", "trace_id": TRACE_ID, "session": "s-7"}
    expected["evidence"] = EVIDENCE
    assert {key: suspect[key] for key in expected} == expected
    assert age > 0
    bounds = {float(found["le"]) for found, _ in measured.ask(route, "sidecar_command_duration_seconds_bucket")}
    assert bounds == {*DURATION_BOUNDS_S, float("inf")}


@pytest.mark.parametrize(("route", "whose"), ROUTES)
@pytest.mark.parametrize(
    "counted",
    [
        'sidecar_command_duration_seconds_count{family="other",outcome="exited"',
        'sidecar_command_duration_seconds_bucket{family="cat",outcome="lost",le="+Inf"',
        'sidecar_command_silence_duration_seconds_count{family="cat"',
        'sidecar_verdicts_total{family="npm",verdict="network_peer_dead"',
        'sidecar_commands_lost_total{family="cat"',
        'sidecar_commands_started_total{family="sleep"',
    ],
)
def test_the_first_of_a_kind_shows_in_an_increase(
    measured: Measured, route: str, whose: set[str], counted: str
) -> None:
    """It would not if its series began with 1."""
    instance = measured.instance if route == "collector" else measured.daemon_instance
    prometheus: Prometheus = getattr(measured, route)
    (risen,) = prometheus.values(f'increase({counted},instance="{instance}"}}[1h])')
    assert risen > 0
    earliest = f'min_over_time({counted},instance="{instance}"}}[1h])'
    assert prometheus.values(earliest) == [0]


def test_by_way_of_the_collector_a_series_says_whose_it_is(measured: Measured) -> None:
    ((labels, _),) = measured.ask("collector", "sidecar_output_age_seconds")
    assert (labels["job"], labels["host_name"]) == ("sidecar", os.uname().nodename)
    ((target, _),) = measured.ask("collector", "target_info")
    assert target["service_version"]


def test_the_trace_of_a_duration_is_beside_it(measured: Measured) -> None:
    """An exemplar: from a slow bucket to the trace of the command that was slow."""
    query = f'sidecar_command_duration_seconds_bucket{{outcome="exited",instance="{measured.instance}"}}'

    def is_there() -> bool:
        # It is in one export only, and what the Collector shows is the latest one: a scrape may come too late for it.
        assert measured.run_another() == 0
        return TRACE_ID in {exemplar.get("trace_id") for exemplar in measured.collector.exemplars(query)}

    eventually("an exemplar", is_there)


@pytest.mark.parametrize("panel", ["Durations", "Longest silences"])
def test_a_heat_map_leads_to_traces(measured: Measured, panel: str) -> None:
    """Grafana asks for exemplars with the panel's own query."""
    page = json.loads((ROOT / "dashboards" / "grafana" / "sidecar.json").read_text())
    ((target,),) = (each["targets"] for each in page["panels"] if each["title"] == panel)
    assert target["exemplar"]
    query = target["expr"].replace("$__rate_interval", "1m").replace("$job", ".*")
    query = re.sub(r"\$\w+", ".*", query.replace("$instance", measured.instance))

    def is_there() -> bool:
        assert measured.run_another() == 0
        return TRACE_ID in {exemplar.get("trace_id") for exemplar in measured.collector.exemplars(query)}

    eventually("an exemplar", is_there)


def test_promtool_has_nothing_against_the_page(measured: Measured) -> None:
    with urllib.request.urlopen(f"http://{measured.daemon_instance}/metrics", timeout=10) as answer:
        page = answer.read()
    checked = subprocess.run([tool("promtool"), "check", "metrics"], input=page, capture_output=True, check=False)
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, b"", b"")
