"""The dashboards against real backends: every query, variable and legend of the committed JSON gives data.

What Grafana would do with them is done here: its variables are put in, as its Prometheus data source does, and the
backend is asked by the API that Grafana asks. By both ways that metrics can take: a Collector, and the daemon itself.
"""

import json
import os
import re
import signal
import time
import urllib.parse
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import pytest
from backends import ROOT, eventually, free_port, get
from installed import Sidecar, new_trace, suspect_frames
from prometheus_backend import Prometheus
from stack import DATA_SOURCES, Stack, linked_queries

from dashboards.grafana.files import panels_of

FOLDER = ROOT / "dashboards" / "grafana"
PAGES = {name: json.loads((FOLDER / name).read_text()) for name in ("sidecar.json", "session.json")}
TARGETS = [
    pytest.param(panel, target, id=f"{panel['title']} {target['refId']}")
    for panel in panels_of(PAGES["sidecar.json"])
    for target in panel.get("targets", ())
    if target["datasource"]["type"] == "prometheus"
]
ROUTES = ("collector", "daemon")
SUSPECTS = {"npm": "network_peer_dead", "pip": "awaiting_input", "make": "stopped"}
SESSION = f"run/1.5 (a+b) {new_trace()[1]}"
# A queue of 16,384 spans that is full cannot be staged here; the counter itself must be there.
CANNOT_BE_STAGED = ',error_type!=""'
FALLBACK = re.compile(r' or (?:on\(\) )?(?:label_replace\()?vector\(0\)(?:, "\w+", "[^"]*", "", ""\))?')


@dataclass
class Fleet:
    """One daemon, seen on both ways, after something of everything has happened to it."""

    prometheus: dict[str, Prometheus]
    traces: dict[str, str]
    whose: dict[str, dict[str, str]] = field(default_factory=dict)

    def put_in(self, route: str, expression: str, interval: str = "4s") -> str:
        """`expression` with the variables as Grafana puts them in, one job and one daemon chosen."""
        chosen = {name: re.sub(r"[\\^$*+?.()|[\]{}]", r"\\\\\g<0>", value) for name, value in self.whose[route].items()}
        values = {"family": ".*", "__rate_interval": interval, "__range": "1h", **chosen}
        done = re.sub(r"\$(\w+)", lambda found: values[found[1]], expression)
        assert "$" not in done
        return done

    def ask(self, route: str, expression: str) -> list[dict[str, str]]:
        return [labels for labels, value in self.prometheus[route].ask(expression) if value == value]


@pytest.fixture(scope="module")
def fleet(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    folder = tmp_path_factory.mktemp("dashboards")
    port = free_port()
    with ExitStack() as until:
        sidecar = until.enter_context(
            Sidecar(folder, stack.collector.http, PROMETHEUS_PORT=str(port), SUSPECT_AFTER="1s")
        )
        scraping = until.enter_context(Prometheus(folder, {"daemon": f"127.0.0.1:{port}"}))
        seen = Fleet({"collector": stack.prometheus, "daemon": scraping}, {})

        for prometheus in seen.prometheus.values():
            # Seen before anything rises.
            eventually("this daemon's zeros", lambda p=prometheus: p.values("sum(sidecar_commands_started_total) == 0"))
        # One that never wrote, and one that wrote before it fell silent.
        sidecar.start("sleep", "300", options=["--session-id", SESSION])
        sidecar.start("sh", "-c", "echo begun; sleep 300", options=["--session-id", SESSION])
        lost = sidecar.start("cat", "/dev/zero", options=["--session-id", SESSION])
        for family, verdict in SUSPECTS.items():
            _, trace_id, _ = new_trace()
            started, judged = suspect_frames(trace_id, SESSION)
            why = {"verdict": verdict, "confidence": "measured", "evidence": ["nothing for 9 s"]}
            until.enter_context(sidecar.send(started | {"program": family}, judged | why))
            seen.traces[verdict] = trace_id
        eventually("cat has started", lambda: scraping.values('sidecar_commands_started_total{family="cat"} > 0'))
        lost.send_signal(signal.SIGKILL)
        assert sidecar.start("sh", "-c", "exit 3", options=["--session-id", SESSION]).wait(20) == 3
        for verdict, trace_id in seen.traces.items():
            for route, prometheus in seen.prometheus.items():
                named = f'sidecar_suspect_output_age_seconds{{trace_id="{trace_id}"}}'
                ((labels, _),) = eventually(verdict, lambda p=prometheus, q=named: p.ask(q))
                seen.whose[route] = {name: labels[name] for name in ("job", "instance")}
        # The last counters have risen before the last scrape.
        for route in seen.prometheus:
            whose = 'job=~"$job",instance=~"$instance"'
            gone = seen.put_in(route, f'sidecar_commands_lost_total{{family="cat",{whose}}} == 1')
            eventually("cat is lost", lambda r=route, q=gone: seen.ask(r, q))
            for counted, what in (
                ("heartbeats_total", f'family="sleep",{whose}'),
                ("command_duration_seconds_count", f'outcome="exited",{whose}'),
                ("command_duration_seconds_count", f'outcome="lost",{whose}'),
                *(("verdicts_total", f'family="{family}",{whose}') for family in SUSPECTS),
            ):
                risen = seen.put_in(route, f"increase(sidecar_{counted}{{{what}}}[1h]) > 0")
                eventually(risen, lambda r=route, q=risen: seen.ask(r, q))
        yield seen
    # The next daemon on this host is the same instance to the Collector: it must not inherit these suspects.
    ours = f'{{__name__=~"sidecar_(suspect|overdue)_output_age_seconds",session="{SESSION}"}}'
    eventually("an end of the suspects", lambda: not stack.prometheus.ask(ours))


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize(("panel", "target"), TARGETS)
def test_a_query_gives_data_and_its_legend_labels(
    fleet: Fleet, panel: dict[str, Any], target: dict[str, Any], route: str
) -> None:
    labels = set(re.findall(r"\{\{(\w+)\}\}", target.get("legendFormat", "")))
    as_shown = fleet.ask(route, fleet.put_in(route, target["expr"]))
    assert as_shown, "Grafana would show: No data"
    assert all(series.get(label) for series in as_shown for label in labels)
    if CANNOT_BE_STAGED in target["expr"]:
        return
    # What happened is in it, not only the zero that stands for nothing.
    real = fleet.ask(route, fleet.put_in(route, FALLBACK.sub("", target["expr"]), "1h"))
    assert real
    assert all(series.get(label) for series in real for label in labels)


@pytest.mark.parametrize(
    ("title", "slip"),
    [
        ("Heartbeats: $family", {"legendFormat": "{{verdicts}}"}),
        ("Heartbeats: $family", {"expr": 'sum(sidecar_heartbeat_total{job=~"$job"}) or on() vector(0)'}),
        ("In flight by state", {"expr": 'sum by (state) (sidecar_commands_active{state="slient"}) or on() vector(0)'}),
        ("Suspects", {"expr": 'sidecar_suspect_output_age_seconds{verdict="deadlocked"}'}),
        ("In flight", {"expr": "sum(sidecar_commands_active) or on() vector(0)) by (job)"}),
    ],
    ids=["a legend", "a metric", "a value", "a table", "no PromQL"],
)
def test_a_slip_in_a_query_is_noticed(fleet: Fleet, title: str, slip: dict[str, str]) -> None:
    (panel,) = (each for each in panels_of(PAGES["sidecar.json"]) if each["title"] == title)
    for route in ROUTES:
        test_a_query_gives_data_and_its_legend_labels(fleet, panel, panel["targets"][0], route)
        with pytest.raises((AssertionError, OSError)):
            test_a_query_gives_data_and_its_legend_labels(fleet, panel, panel["targets"][0] | slip, route)


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize(("panel", "target"), TARGETS)
def test_every_selector_of_a_query_finds_series(
    fleet: Fleet, panel: dict[str, Any], target: dict[str, Any], route: str
) -> None:
    selectors = re.findall(r"\b(?:sidecar|otel)_\w+\{.*?\}", target["expr"])
    assert selectors
    for selector in selectors:
        asked = fleet.put_in(route, selector.replace(CANNOT_BE_STAGED, ""))
        assert fleet.ask(route, asked), asked


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize(
    "variable",
    [each for each in PAGES["sidecar.json"]["templating"]["list"] if each["type"] == "query"],
    ids=lambda each: str(each["name"]),
)
def test_a_variable_has_values_and_the_right_one_among_them(fleet: Fleet, variable: dict[str, Any], route: str) -> None:
    asked = re.fullmatch(r"label_values\((.*), (\w+)\)", variable["query"])
    assert asked is not None
    match = urllib.parse.urlencode({"match[]": fleet.put_in(route, asked[1])})
    url = f"{fleet.prometheus[route].url}/api/v1/label/{asked[2]}/values?{match}"
    values = json.loads(get(url))["data"]
    expected = {**fleet.whose[route], "family": "npm"}
    assert expected[variable["name"]] in values


@pytest.mark.parametrize("route", ROUTES)
def test_the_numbers_are_those_of_what_happened(fleet: Fleet, route: str) -> None:
    expected = {
        "In flight": 5,
        "May be hung": 1,
        "Awaiting input": 1,
        "Needs someone": 1,
        "Suspects not named": 0,
        "Telemetry dropped": 0,
        "Daemons reporting": 1,
    }
    queries = {
        panel["title"]: fleet.put_in(route, panel["targets"][0]["expr"])
        for panel in panels_of(PAGES["sidecar.json"])
        if panel["type"] == "stat"
    }

    def look() -> dict[str, float] | None:
        # Not at once: what an earlier test's daemon left in the Collector has to expire.
        found = {title: fleet.prometheus[route].values(asked)[0] for title, asked in queries.items()}
        return found if {title: found[title] for title in expected} == expected else None

    shown = eventually(f"{expected}", look)
    # `increase` extrapolates to the ends of the range.
    assert round(shown["Lost"]) >= 1
    assert shown["Worst silence / budget"] > 0


@pytest.mark.parametrize("route", ROUTES)
def test_all_is_zero_where_nobody_reports(fleet: Fleet, route: str) -> None:
    nobody = Fleet(fleet.prometheus, {}, {route: {"job": "nobody", "instance": "nowhere"}})
    for panel in panels_of(PAGES["sidecar.json"]):
        for target in panel.get("targets", ()):
            if target["datasource"]["type"] == "prometheus" and panel["type"] != "table":
                found = fleet.prometheus[route].ask(nobody.put_in(route, target["expr"]))
                assert [value for _, value in found] == [0], panel["title"]


def test_the_table_of_suspects_names_the_traces(fleet: Fleet) -> None:
    (panel,) = [each for each in panels_of(PAGES["sidecar.json"]) if each["title"] == "Suspects"]
    for route in ROUTES:
        asked = fleet.put_in(route, panel["targets"][0]["expr"])

        def ours(route: str = route, asked: str = asked) -> list[dict[str, str]]:
            return [each for each in fleet.ask(route, asked) if each["session"] == SESSION]

        found = eventually("those three", lambda look=ours: len(look()) == len(SUSPECTS) and look())
        assert {each["verdict"]: each["trace_id"] for each in found} == fleet.traces
        assert {each["evidence"] for each in found} == {"nothing for 9 s"}


def test_a_log_events_link_leads_to_the_metrics_that_name_its_trace(fleet: Fleet) -> None:
    (asked,) = (found for found in linked_queries() if "service_name" not in found)
    for route in ROUTES:
        shown = fleet.ask(route, asked.replace("$${__value.raw}", fleet.traces["stopped"]))
        assert "sidecar_suspect_output_age_seconds" in {each["__name__"] for each in shown}
        assert {each["trace_id"] for each in shown} == {fleet.traces["stopped"]}


def test_a_spans_link_leads_to_the_suspects_of_its_host(fleet: Fleet) -> None:
    """`$__tags` is what the span's tags are as labels: `host.name` as `host_name`, which a Collector sets."""
    (asked,) = re.findall(r"^            query: (.*)$", DATA_SOURCES, re.MULTILINE)
    for host, count in ((os.uname().nodename, len(SUSPECTS)), ("another", 0)):
        query = asked.replace("$$__tags", f'host_name="{host}"')
        # Not at once, as above.
        eventually(query, lambda q=query, n=count: fleet.prometheus["collector"].values(q) == [n])


def test_the_table_of_the_lost_names_the_trace(fleet: Fleet) -> None:
    (panel,) = [each for each in panels_of(PAGES["sidecar.json"]) if each["title"] == "Lost lately"]
    for route in ROUTES:
        shown = fleet.ask(route, fleet.put_in(route, panel["targets"][0]["expr"]))
        # By way of the Collector one that another test lost may still be there.
        (found,) = (each for each in shown if each["session"] == SESSION)
        assert (found["family"], len(found["trace_id"])) == ("cat", 32)


def test_the_traces_of_a_session_are_in_jaeger(fleet: Fleet, stack: Stack) -> None:
    """As Grafana's Jaeger data source asks: tags as JSON, times in microseconds; then one trace by its id."""
    targets = {
        panel["title"]: target
        for panel in panels_of(PAGES["session.json"])
        for target in panel.get("targets", ())
        if target["datasource"]["type"] == "jaeger"
    }
    searched = targets["Traces of the session"]
    name, _, value = searched["tags"].partition("=")
    asked = {
        "service": searched["service"],
        "tags": json.dumps({name: value.replace("${session:doublequote}", SESSION)}),
        "limit": searched["limit"],
        "start": int((time.time() - 3600) * 1e6),
        "end": int((time.time() + 60) * 1e6),
        "lookback": "custom",
    }
    url = f"{stack.jaeger.query}/api/traces?{urllib.parse.urlencode(asked)}"

    def found() -> set[str]:
        ids = {trace["traceID"] for trace in json.loads(get(url))["data"]}
        return ids if len(ids) >= 7 else set()

    # sleep, cat, twice sh, and the three suspects, which still run.
    traces = eventually("seven traces", found)
    assert set(fleet.traces.values()) <= traces
    assert len(traces) == 7
    trace_id = targets["Commands of the trace"]["query"].replace("${trace}", fleet.traces["stopped"])
    assert {span.role for span in stack.jaeger.trace(trace_id)} >= {"started", "heartbeat"}
