"""Each point of the checklist for dashboards (test_dashboards.py) notices a page that breaks it."""

from collections.abc import Callable, Iterator
from copy import deepcopy
from functools import partial
from typing import Any

import pytest
import test_dashboards as checks

from dashboards.grafana.files import panels_of

Page = dict[str, Any]
Checks = Callable[[str], Iterator[Callable[[], None]]]
"""One check of a page by its name, of each thing that it is about."""
FLEET, SESSION = "sidecar.json", "session.json"


def panel(page: Page, title: str) -> Page:
    (found,) = (each for each in panels_of(page) if each["title"] == title)
    return found


def target(page: Page, title: str) -> Page:
    first: Page = panel(page, title)["targets"][0]
    return first


def defaults(page: Page, title: str) -> Page:
    found: Page = panel(page, title)["fieldConfig"]["defaults"]
    return found


def variable(page: Page, name: str) -> Page:
    (found,) = (each for each in page["templating"]["list"] if each["name"] == name)
    chosen: Page = found
    return chosen


def asks(title: str, right: str, wrong: str) -> Callable[[Page], None]:
    """A slip in the query of a panel."""

    def slip(page: Page) -> None:
        asked = target(page, title)
        assert right in asked["expr"]
        asked["expr"] = asked["expr"].replace(right, wrong, 1)

    return slip


def of_page(check: Callable[[str], None]) -> Checks:
    return lambda name: iter([partial(check, name)])


def alone(check: Callable[[], None]) -> Checks:
    return lambda name: iter([check])


def of_panels(check: Callable[[Page], None], kind: str = "") -> Checks:
    def every(name: str) -> Iterator[Callable[[], None]]:
        for each in panels_of(checks.MADE[name]):
            if each["type"] != "row" and kind in each["type"]:
                yield partial(check, each)

    return every


def of_queries(check: Callable[[Page, Page], None], kind: str = "") -> Checks:
    def every(name: str) -> Iterator[Callable[[], None]]:
        for each in panels_of(checks.MADE[name]):
            for query in each.get("targets", ()):
                if kind in query["datasource"]["type"]:
                    yield partial(check, each, query)

    return every


UID = of_page(checks.test_a_page_has_a_fixed_uid_and_panels_fixed_ids)
NAMED = of_panels(checks.test_a_panel_has_title_description_and_unit)
APART = of_page(checks.test_panels_lie_within_the_page_and_not_on_each_other)
VARIABLES = alone(checks.test_variables_and_what_they_default_to)
CHOSEN = of_queries(checks.test_no_query_names_a_data_source_of_its_own)
WHOSE = of_queries(checks.test_every_selector_has_job_and_instance, "prometheus")
RANGES = of_queries(checks.test_ranges_are_grafanas_and_not_fixed, "prometheus")
ZERO = of_queries(checks.test_nothing_is_zero_and_not_no_data)
ATTRIBUTES = of_queries(checks.test_log_queries_name_attributes_of_the_registry, "loki")
COLUMNS = of_panels(checks.test_the_columns_of_a_table_are_the_labels_of_its_query, "table")
EVIDENCE = alone(checks.test_the_suspects_have_their_evidence)
LINKS = alone(checks.test_links_of_the_suspects_lead_to_the_trace_and_the_session)
PAGES = alone(checks.test_pages_lead_to_each_other_and_variables_go_along)
HISTORY = alone(checks.test_history_is_of_the_chosen_programs)
PROGRAMS = alone(checks.test_each_program_has_a_row_of_its_own)

SLIPS: list[tuple[str, str, Checks, Callable[[Page], None]]] = [
    ("no uid", FLEET, UID, lambda page: page.update(uid=None)),
    ("another uid", SESSION, UID, lambda page: page.update(uid="a1b2c3")),
    ("an id twice", FLEET, UID, lambda page: panel(page, "Dropped").update(id=panel(page, "In flight")["id"])),
    ("an id twice in a closed row", FLEET, UID, lambda page: panel(page, "Verdicts: $family").update(id=1)),
    ("no title", FLEET, NAMED, lambda page: panel(page, "Dropped").update(title="")),
    ("no description", FLEET, NAMED, lambda page: panel(page, "Durations: $family").update(description="")),
    ("no unit", SESSION, NAMED, lambda page: defaults(page, "Started").update(unit="")),
    ("no query", FLEET, NAMED, lambda page: panel(page, "Dropped").update(targets=[])),
    ("over its neighbour", FLEET, APART, lambda page: panel(page, "In flight")["gridPos"].update(w=4)),
    ("over the row below", SESSION, APART, lambda page: panel(page, "Evidence")["gridPos"].update(h=9)),
    (
        "over another in a closed row",
        FLEET,
        APART,
        lambda page: panel(page, "Durations: $family")["gridPos"].update(x=11),
    ),
    ("beyond the edge", FLEET, APART, lambda page: panel(page, "Telemetry dropped")["gridPos"].update(w=5)),
    ("of no size", FLEET, APART, lambda page: panel(page, "Suspects")["gridPos"].update(h=0)),
    (
        "a variable is gone",
        FLEET,
        VARIABLES,
        lambda page: page["templating"]["list"].remove(variable(page, "instance")),
    ),
    ("only one daemon", FLEET, VARIABLES, lambda page: variable(page, "instance").update(multi=False)),
    (
        "an uid of chance",
        FLEET,
        VARIABLES,
        lambda page: variable(page, "datasource")["current"].update(value="P1809F7CD0C75ACF3"),
    ),
    ("a data source by name", FLEET, CHOSEN, lambda page: target(page, "Dropped")["datasource"].update(uid="main")),
    ("of the panel, too", SESSION, CHOSEN, lambda page: panel(page, "Events")["datasource"].update(uid="loki")),
    ("no job", FLEET, WHOSE, asks("In flight", 'job=~"$job",', "")),
    ("no instance", FLEET, WHOSE, asks("Verdicts: $family", ',instance=~"$instance"', "")),
    ("one selector of two", FLEET, WHOSE, asks("Telemetry dropped", ',instance=~"$instance"', "")),
    ("no selector", FLEET, WHOSE, asks("Suspects", '{job=~"$job",instance=~"$instance"}', "")),
    ("a fixed range", FLEET, RANGES, asks("Verdicts", "$__rate_interval", "5m")),
    ("the interval of a step", FLEET, RANGES, asks("Longest silences", "$__rate_interval", "$__interval")),
    ("a number of the last minute", FLEET, RANGES, asks("Telemetry dropped", "$__range", "$__rate_interval")),
    ("an average", FLEET, RANGES, asks("Started", "increase(", "delta(")),
    ("no zero", FLEET, ZERO, asks("In flight", " or on() vector(0)", "")),
    ("no zero of logs", SESSION, ZERO, asks("Ended", " or vector(0)", "")),
    ("no zero in a closed row", FLEET, ZERO, lambda page: defaults(page, "Heartbeats: $family").pop("noValue")),
    ("no word for an empty table", FLEET, ZERO, lambda page: defaults(page, "Suspects").pop("noValue")),
    ("an attribute that is not", SESSION, ATTRIBUTES, asks("Evidence", "sidecar_evidence", "sidecar_evidences")),
    ("a label that is not", FLEET, ATTRIBUTES, asks("Evidence", "service_instance_id", "instance")),
    ("a column without a label", FLEET, COLUMNS, asks("Suspects", "evidence, ", "")),
    (
        "a column by another name",
        FLEET,
        COLUMNS,
        lambda page: panel(page, "Lost lately")["fieldConfig"]["overrides"][1]["matcher"].update(options="Traces"),
    ),
    (
        "no evidence",
        FLEET,
        EVIDENCE,
        lambda page: panel(page, "Suspects")["transformations"][0]["options"]["renameByName"].update(evidence="Why"),
    ),
    ("no link to the trace", FLEET, LINKS, lambda page: panel(page, "Suspects")["fieldConfig"].update(overrides=[])),
    ("variables stay behind", FLEET, PAGES, lambda page: page["links"][0].update(includeVars=False)),
    ("of all programs", FLEET, HISTORY, asks("Durations", ',family=~"$family"', "")),
    ("of all programs in a row", FLEET, HISTORY, asks("Durations: $family", ',family=~"$family"', "")),
    ("the row is open", FLEET, PROGRAMS, lambda page: page["panels"][-1].update(collapsed=False)),
    ("the row is one", FLEET, PROGRAMS, lambda page: page["panels"][-1].pop("repeat")),
    (
        "no heat map",
        FLEET,
        PROGRAMS,
        lambda page: page["panels"][-1]["panels"].remove(panel(page, "Durations: $family")),
    ),
]


def complaints(check: Checks, name: str) -> int:
    found = 0
    for each in check(name):
        try:
            each()
        except (AssertionError, LookupError, ValueError):
            found += 1
    return found


@pytest.mark.parametrize(("name", "check", "slip"), [each[1:] for each in SLIPS], ids=[each[0] for each in SLIPS])
def test_a_slip_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    check: Checks,
    slip: Callable[[Page], None],
) -> None:
    assert complaints(check, name) == 0
    page = deepcopy(checks.MADE[name])
    slip(page)
    monkeypatch.setitem(checks.MADE, name, page)
    assert complaints(check, name) == 1
