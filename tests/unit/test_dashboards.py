"""The dashboards: what is committed is what the code makes, and each point of the checklist that needs no backend."""

import json
import re
import subprocess
import sys
from itertools import combinations
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from dashboards.grafana.files import HERE, panels_of, texts
from dashboards.grafana.series import or_zero, series
from sidecar.telemetry.conventions import attributes
from sidecar.telemetry.conventions.metrics import METRICS, SDK_METRICS

FILES = ("session.json", "sidecar.json")
MADE = {name: json.loads(text) for name, text in texts().items()}
PANELS = [
    pytest.param(panel, id=f"{name}: {panel['title']}")
    for name, made in MADE.items()
    for panel in panels_of(made)
    if panel["type"] != "row"
]
QUERIES = [
    pytest.param(panel, target, id=f"{name}: {panel['title']} {target['refId']}")
    for name, made in MADE.items()
    for panel in panels_of(made)
    for target in panel.get("targets", ())
]
PROM = [each for each in QUERIES if each.values[1]["datasource"]["type"] == "prometheus"]
LOKI = [each for each in QUERIES if each.values[1]["datasource"]["type"] == "loki"]


def test_what_is_committed_is_what_the_code_makes() -> None:
    assert sorted(path.name for path in HERE.glob("*.json")) == sorted(MADE) == sorted(FILES)
    for name, text in texts().items():
        assert (HERE / name).read_text(encoding="utf-8") == text, "run `python -m dashboards.grafana --write`"


def test_the_command_writes_them(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "dashboards.grafana", "--write", str(tmp_path / "new")]
    subprocess.run(words, check=True, capture_output=True, cwd=HERE.parents[1])
    for name, text in texts().items():
        assert (tmp_path / "new" / name).read_text(encoding="utf-8") == text


@pytest.mark.parametrize("name", FILES)
def test_a_page_has_a_fixed_uid_and_panels_fixed_ids(name: str) -> None:
    made = MADE[name]
    assert made["uid"] == {"sidecar.json": "sidecar", "session.json": "sidecar-session"}[name]
    assert made["title"]
    assert made["description"]
    ids = [panel["id"] for panel in panels_of(made)]
    assert ids == sorted(set(ids))


@pytest.mark.parametrize("panel", PANELS)
def test_a_panel_has_title_description_and_unit(panel: dict[str, Any]) -> None:
    assert panel["title"]
    assert panel["description"].endswith(".")
    assert panel["fieldConfig"]["defaults"]["unit"]
    assert panel["targets"]


@pytest.mark.parametrize("name", FILES)
def test_panels_lie_within_the_page_and_not_on_each_other(name: str) -> None:
    places = [(panel["title"], panel["gridPos"]) for panel in panels_of(MADE[name])]
    for title, place in places:
        assert place["w"] > 0 < place["h"], title
        assert 0 <= place["x"] <= place["x"] + place["w"] <= 24, title
    for (one, a), (other, b) in combinations(places, 2):
        apart = (
            a["x"] + a["w"] <= b["x"]
            or b["x"] + b["w"] <= a["x"]
            or a["y"] + a["h"] <= b["y"]
            or b["y"] + b["h"] <= a["y"]
        )
        assert apart, f"{one} lies on {other}"


def test_variables_and_what_they_default_to() -> None:
    names = {name: [each["name"] for each in made["templating"]["list"]] for name, made in MADE.items()}
    assert names["sidecar.json"] == ["datasource", "job", "instance", "family", "traces", "logs"]
    assert names["session.json"] == ["traces", "logs", "session", "trace"]
    for made in MADE.values():
        for each in made["templating"]["list"]:
            assert each["label"]
            assert each["description"]
            if each["type"] == "datasource":
                # The uids that deploy/ gives them.
                assert each["current"]["value"] == each["query"]
            if each["type"] == "query":
                assert each["datasource"]["uid"] == "${datasource}"
                assert (each["multi"], each["includeAll"], each["allValue"]) == (True, True, ".*")


@pytest.mark.parametrize(("panel", "target"), QUERIES)
def test_no_query_names_a_data_source_of_its_own(panel: dict[str, Any], target: dict[str, Any]) -> None:
    chosen = {"prometheus": "${datasource}", "loki": "${logs}", "jaeger": "${traces}"}
    for whose in (target, panel):
        assert whose["datasource"]["uid"] == chosen[whose["datasource"]["type"]]


@pytest.mark.parametrize(("panel", "target"), PROM)
def test_every_selector_has_job_and_instance(panel: dict[str, Any], target: dict[str, Any]) -> None:
    expression = target["expr"]
    selectors = re.findall(r"\b(?:sidecar|otel)_\w+(\{.*?\})?", expression)
    assert selectors
    for selector in selectors:
        assert 'job=~"$job"' in selector
        assert 'instance=~"$instance"' in selector


@pytest.mark.parametrize(("panel", "target"), PROM)
def test_ranges_are_grafanas_and_not_fixed(panel: dict[str, Any], target: dict[str, Any]) -> None:
    """Of one number the range of the page; of a curve the interval that holds at least four samples."""
    wanted = "$__range" if panel["type"] == "stat" else "$__rate_interval"
    assert set(re.findall(r"\[(.*?)\]", target["expr"])) <= {wanted}
    assert len(re.findall(r"\bincrease\(", target["expr"])) == target["expr"].count(f"[{wanted}]")


@pytest.mark.parametrize(("panel", "target"), QUERIES)
def test_nothing_is_zero_and_not_no_data(panel: dict[str, Any], target: dict[str, Any]) -> None:
    """Numbers and curves come back as 0. Of lists that are empty, and rightly so, it is said in words."""
    if panel["type"] in {"logs", "table", "traces", "state-timeline"}:
        assert panel["type"] == "traces" or panel["fieldConfig"]["defaults"]["noValue"]
    else:
        assert "vector(0)" in target["expr"]
        assert panel["fieldConfig"]["defaults"]["noValue"] == "0"


@pytest.mark.parametrize(("panel", "target"), LOKI)
def test_log_queries_name_attributes_of_the_registry(panel: dict[str, Any], target: dict[str, Any]) -> None:
    known = {each.name.replace(".", "_") for each in attributes.ATTRIBUTES.values()}
    # Loki's own, of every record of OTLP.
    known |= {"service_name", "service_instance_id", "trace_id", "span_id"}
    asked = target["expr"]
    named = re.findall(r"\{\{\.(\w+)\}\}", asked) + re.findall(r"unwrap (\w+)", asked)
    named += re.findall(r'[|{] *(\w+) *(?:=|!=|=~)["`]', asked)
    named += [name.strip() for group in re.findall(r"by \(([^)]*)\)", asked) for name in group.split(",") if name]
    named += re.findall(r"\{\{(\w+)\}\}", target.get("legendFormat", ""))
    assert named
    assert set(named) <= known


def test_a_query_cannot_name_what_the_registry_lacks() -> None:
    with pytest.raises(KeyError):
        series("sidecar.commands.imagined")
    with pytest.raises(ValueError, match="no label pid"):
        series("sidecar.commands.active", 'pid="1"')


@pytest.mark.parametrize("name", [*METRICS, *SDK_METRICS])
def test_names_are_as_prometheus_has_them(name: str) -> None:
    metric = {**METRICS, **SDK_METRICS}[name]
    selector = series(name, part="bucket" if metric.instrument == "histogram" else "")
    assert selector.partition("{")[0].endswith("_total") == (metric.instrument == "counter")
    assert "." not in selector.partition("{")[0]


def test_a_zero_of_labels() -> None:
    assert or_zero("x") == "x or on() vector(0)"
    assert or_zero("x", a="b") == 'x or on() label_replace(vector(0), "a", "b", "", "")'


def test_links_of_the_suspects_lead_to_the_trace_and_the_session() -> None:
    (suspects, overdue, unheard, lost) = [
        panel for panel in panels_of(MADE["sidecar.json"]) if panel["type"] == "table"
    ]
    assert suspects["fieldConfig"]["overrides"] == overdue["fieldConfig"]["overrides"]
    links, of_unheard, of_lost = (
        {
            link["title"]: link["url"]
            for override in panel["fieldConfig"]["overrides"]
            for each in override["properties"]
            if each["id"] == "links"
            for link in each["value"]
        }
        for panel in (suspects, unheard, lost)
    )
    assert links == of_unheard == of_lost
    assert set(links) == {"Evidence and spans", "Trace", "The session"}
    for title in ("Evidence and spans", "The session"):
        path, _, query = links[title].partition("?")
        assert path == f"/d/{MADE['session.json']['uid']}"
        variable = query.partition("=")[0].removeprefix("var-")
        assert variable in {each["name"] for each in MADE["session.json"]["templating"]["list"]}
        # Who has chosen data sources keeps them.
        assert "&${traces:queryparam}&${logs:queryparam}&" in query
    panes = json.loads(unquote(links["Trace"].partition("panes=")[2]))
    assert panes == {"t": {"datasource": "${traces}", "queries": [{"refId": "A", "query": "${__value.raw}"}]}}


def test_pages_lead_to_each_other_and_variables_go_along() -> None:
    for name, other in (("session.json", "sidecar.json"), ("sidecar.json", "session.json")):
        (link,) = MADE[name]["links"]
        assert link["url"] == f"/d/{MADE[other]['uid']}"
        assert (link["keepTime"], link["includeVars"]) == (True, True)


@pytest.mark.parametrize("panel", [each for each in PANELS if each.values[0]["type"] == "table"])
def test_the_columns_of_a_table_are_the_labels_of_its_query(panel: dict[str, Any]) -> None:
    """A column that is renamed or given links by a name that does not exist is simply not there, without a word."""
    if panel["datasource"]["type"] != "prometheus":
        return
    (target,), (arranged,) = panel["targets"], panel["transformations"]
    (by,) = re.findall(r"by \(([^)]*)\)", target["expr"])
    columns = {"Value", *by.split(", ")}
    assert set(arranged["options"]["renameByName"]) == set(arranged["options"]["indexByName"]) == columns
    shown = set(arranged["options"]["renameByName"].values())
    assert {override["matcher"]["options"] for override in panel["fieldConfig"]["overrides"]} <= shown


def test_the_suspects_have_their_evidence() -> None:
    """Age, verdict and evidence, linked to the trace."""
    (suspects,) = [panel for panel in panels_of(MADE["sidecar.json"]) if panel["title"] == "Suspects"]
    options = suspects["transformations"][0]["options"]
    columns = [options["renameByName"][name] for name in sorted(options["indexByName"], key=options["indexByName"].get)]
    assert columns[:5] == ["Last output", "Program", "Verdict", "Evidence", "Trace"]


def test_history_is_of_the_chosen_programs() -> None:
    rows = [(panel["title"], panel["type"]) for panel in MADE["sidecar.json"]["panels"]]
    begin, end = rows.index(("History", "row")), rows.index(("Telemetry health", "row"))
    of_history = MADE["sidecar.json"]["panels"][begin + 1 : end]
    assert len(of_history) == 14
    for panel in (*of_history, *MADE["sidecar.json"]["panels"][-1]["panels"]):
        for target in panel["targets"]:
            assert target["expr"].count('family=~"$family"') == target["expr"].count("sidecar_"), panel["title"]


def test_each_program_has_a_row_of_its_own() -> None:
    """Closed, so that forty of them ask nothing; and the last of the page, since what is opened moves what is below."""
    row = MADE["sidecar.json"]["panels"][-1]
    assert (row["type"], row["repeat"], row["collapsed"]) == ("row", "family", True)
    assert "$family" in row["title"]
    kinds = {panel["title"].removesuffix(": $family"): panel["type"] for panel in row["panels"]}
    assert kinds == {
        "In flight by state": "timeseries",
        "Ended by outcome": "timeseries",
        "Verdicts": "timeseries",
        "Heartbeats": "timeseries",
        "Longest silences": "heatmap",
        "Durations": "heatmap",
    }


def test_the_provisioned_data_sources_are_those_the_pages_begin_with() -> None:
    """Read as text: no YAML library is installed for the tests."""
    text = (HERE.parents[1] / "deploy/compose/grafana/datasources/sidecar.yaml").read_text(encoding="utf-8")
    variables = [each for made in MADE.values() for each in made["templating"]["list"]]
    begun = {each["query"] for each in variables if each["type"] == "datasource"}
    assert begun == set(re.findall(r"^    uid: (\w+)$", text, re.MULTILINE)) == {"prometheus", "jaeger", "loki"}
    known = {series(name).partition("{")[0] for name in (*METRICS, *SDK_METRICS)}
    asked = re.findall(r"query: \S*?(sidecar_\w+)\{", text)
    assert asked
    assert set(asked) <= known


def test_the_addresses_that_the_data_sources_lead_to() -> None:
    """From a metric to log events, from a log event to metrics and to the page of its run."""
    text = (HERE.parents[1] / "deploy/compose/grafana/datasources/sidecar.yaml").read_text(encoding="utf-8")
    found = re.findall(r"^          url: '?(/[^'\n]+)'?$", text, re.MULTILINE)
    # A single `$` would be a variable of Grafana's environment.
    assert [address.count("$${__value.raw}") for address in found] == [address.count("$") // 2 for address in found]
    panes = [json.loads(unquote(address.partition("panes=")[2])) for address in found if "panes=" in address]
    assert panes == [
        {"t": {"datasource": uid, "queries": [{"refId": "A", "expr": asked}]}}
        for uid, asked in (
            ("loki", '{service_name="sidecar"} | trace_id="$${__value.raw}"'),
            ("prometheus", '{trace_id="$${__value.raw}"}'),
        )
    ]
    page = MADE["session.json"]
    assert f"/d/{page['uid']}?var-trace=$${{__value.raw}}" in found
    assert "trace" in [each["name"] for each in page["templating"]["list"]]


def test_whoever_follows_a_link_of_the_data_sources_is_let_in() -> None:
    compose = (HERE.parents[1] / "deploy/compose.yaml").read_text(encoding="utf-8")
    assert "GF_AUTH_ANONYMOUS_ORG_ROLE: Viewer" in compose
    # They lead to Explore.
    assert 'GF_USERS_VIEWERS_CAN_EDIT: "true"' in compose


def test_with_tempo_instead_of_jaeger() -> None:
    made = texts("tempo")
    assert "jaeger" not in "".join(made.values()).lower()
    targets = [each for panel in panels_of(json.loads(made["session.json"])) for each in panel.get("targets", ())]
    asked = [each["query"] for each in targets if each["datasource"]["type"] == "tempo"]
    assert asked == ['{ resource.service.name = "sidecar" && span.session.id = ${session:doublequote} }', "${trace}"]
