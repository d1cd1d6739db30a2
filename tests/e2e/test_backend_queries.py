"""What the dashboards ask Loki and Tempo, which are not run here: the queries of the committed JSON, and of the variant
for Tempo, are read by Grafana's own grammars and answered from what the Collector sends for Loki and
from the spans that a real Jaeger has (logql.py and traceql.py say how far that goes).

Variables are put in as Grafana 13 does; checked by hand against its own code (@grafana/scenes 8.19.0).
"""

import json
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import logql
import pytest
import traceql
from backends import eventually, tool
from installed import Sidecar, new_trace, suspect_frames
from query_trees import QueryRefusedError, string, tree
from stack import DATA_SOURCES, Stack, linked_queries

from dashboards.grafana.files import panels_of, texts

PAGES = {name: json.loads(text) for name, text in texts().items()}
FOR_TEMPO = {name: json.loads(text) for name, text in texts("tempo").items()}
MARK = new_trace()[1][:8]
# What an id may be: anything that can be printed. `.`, `+` and brackets mean something to a regular expression, and
# `\.` is no escape in a string; `"` ends one.
SESSION = f'run/2.5 (a+b) "c" [{MARK}]'
# Another to the letter, the same to a regular expression in which `.` was not escaped.
OTHER_SESSION = SESSION.replace("2.5", "2x5")
INSTANCES = ("a.b:1", "c")


def targets(pages: dict[str, Any], kind: str) -> list[Any]:
    return [
        pytest.param(target, id=f"{name}: {panel['title']} {target['refId']}")
        for name, page in pages.items()
        for panel in panels_of(page)
        for target in panel.get("targets", ())
        if target["datasource"]["type"] == kind
    ]


LOKI = targets(PAGES, "loki")
LINKED = re.search(r"query: '(\{.*)'", DATA_SOURCES)


def put_in(query: str, session: str = "", trace: str = "", instance: tuple[str, ...] = ()) -> str:
    """`query` as Grafana sends it. `instance` is what is chosen of a list; nothing is all of them."""
    chosen = [re.sub(r"[$^*{}\[\]+?.()|]", r"\\\\\g<0>", each) for each in instance]
    values = {"instance": "|".join(chosen) or ".*", "__range": "3600s", "__interval": "1s"}
    for name, value in (("session", session), ("trace", trace)):
        values |= {
            f"{name}:regex": re.sub(r"[\\^$*+?.()|[\]{}/]", r"\\\g<0>", value),
            f"{name}:doublequote": '"' + value.replace('"', '\\"') + '"',
            name: value,
        }
    done = re.sub(r"\$(?:\{([\w:]+)\}|(\w+))", lambda found: values[found[1] or found[2]], query)
    assert not re.search(r"\$[\w{]", done)
    return done


@dataclass
class Run:
    """What came to the place of Loki, and the traces of what was run."""

    entries: list[logql.Entry]
    traces: dict[str, str]

    def ask(self, panel: str, letter: str = "A", page: str = "session.json", **variables: Any) -> Any:
        (target,) = (
            target
            for each in panels_of(PAGES[page])
            if each["title"] == panel
            for target in each["targets"]
            if target["refId"] == letter
        )
        query = put_in(target["expr"], **variables)
        if page == "sidecar.json" or panel in {"Evidence", "Events"}:
            return logql.lines(query, self.entries)
        return logql.instant(query, self.entries, time.time())

    def number(self, panel: str, **variables: Any) -> float:
        ((labels, value),) = self.ask(panel, **variables)
        assert labels == {}
        return float(value)


@pytest.fixture(scope="module")
def run(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    folder = tmp_path_factory.mktemp("queries")
    traces: dict[str, str] = {}
    with Sidecar(folder, stack.collector.http, SUSPECT_AFTER="1s") as sidecar:

        def told(what: str, session: str, **attributes: Any) -> None:
            eventually(
                f"{what} of {session}",
                lambda: [
                    log
                    for log in stack.loki.logs
                    if log.attributes.get("session.id") == session
                    and (log.trace_id == traces[what])
                    and all(log.attributes.get(name) == value for name, value in attributes.items())
                ],
            )

        def start(what: str, session: str, *command: str) -> Any:
            parent, traces[what], _ = new_trace()
            return sidecar.start(*command, options=["--session-id", session], TRACEPARENT=parent)

        assert start("well", SESSION, "true").wait(20) == 0
        assert start("badly", SESSION, "sh", "-c", "exit 3").wait(20) == 3
        assert start("other", OTHER_SESSION, "sh", "-c", "exit 4").wait(20) == 4
        lost = start("lost", SESSION, "cat", "/dev/zero")
        start("spoke", SESSION, "sh", "-c", "echo begun; sleep 300")
        start("mute", SESSION, "sleep", "300")
        _, traces["suspect"], _ = new_trace()
        started, judged = suspect_frames(traces["suspect"], SESSION)
        why = {"confidence": "measured", "evidence": ["nothing for 9 s", 'peer "db" is gone']}
        with sidecar.send(started, judged | why):
            told("lost", SESSION)
            lost.send_signal(signal.SIGKILL)
            for what, session, reason in (
                ("well", SESSION, "exited"),
                ("badly", SESSION, "exited"),
                ("other", OTHER_SESSION, "exited"),
                ("lost", SESSION, "lost"),
            ):
                told(what, session, **{"sidecar.settle.reason": reason})
            told("suspect", SESSION, **{"sidecar.verdict": "network_peer_dead"})
            for what in ("spoke", "mute"):
                # The second heartbeat: of one that spoke, both have the age of its last output.
                eventually(f"heartbeats of {what}", lambda w=traces[what]: len(_heartbeats(stack, w)) > 1)
            yield Run([logql.kept(log) for log in stack.loki.logs], traces)


def _heartbeats(stack: Stack, trace_id: str) -> list[Any]:
    return [log for log in stack.loki.logs if log.trace_id == trace_id and log.event_name == "sidecar.heartbeat"]


@pytest.mark.parametrize("target", LOKI)
@pytest.mark.parametrize("session", ["", SESSION], ids=["all", "one"])
def test_a_log_query_is_one_of_logql_whatever_is_filled_in(run: Run, target: dict[str, Any], session: str) -> None:
    query = put_in(target["expr"], session=session, trace=run.traces["suspect"][:4], instance=INSTANCES)
    read = tree("logql", query)
    assert [string(each) for each in read.all("String")]
    # And is in the part of the language that the tests below can answer.
    if target["queryType"] == "instant" or "_over_time" in query:
        logql.instant(query, run.entries, time.time())
    else:
        logql.lines(query, run.entries)


def wrong(page: dict[str, Any]) -> list[str]:
    """What the types of Grafana 13 say of a dashboard."""
    done = subprocess.run(
        [tool("grafana"), "types"], input=json.dumps(page), capture_output=True, text=True, check=True
    )
    found: list[str] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("pages", [PAGES, FOR_TEMPO], ids=["jaeger", "tempo"])
@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_of_grafanas_types(pages: dict[str, Any], name: str) -> None:
    assert wrong(pages[name]) == []


def test_a_slip_in_a_page_is_found() -> None:
    page = json.loads(json.dumps(PAGES["session.json"]))
    (band,) = (panel for panel in page["panels"] if panel["type"] == "state-timeline")
    row = {"type": "row", "title": "closed", "collapsed": True, "panels": [json.loads(json.dumps(band))]}
    row["panels"][0] |= {"title": "within", "options": band["options"] | {"mergeValue": True}}
    band["options"] |= {"rowHeigth": 1}
    band["fieldConfig"]["defaults"]["color"]["mode"] = "threshold"
    page["templating"]["list"][0]["hide"] = "never"
    page["panels"][-1]["type"] = "text"
    page["panels"].append(row)
    assert sorted(each.partition(":")[0] for each in wrong(page)) == [
        band["title"], "a panel of a kind that is not known here", "the page", "the page", "within"
    ]  # fmt: skip


def test_a_slip_in_a_query_is_found() -> None:
    with pytest.raises(QueryRefusedError, match="at 36"):
        tree("logql", 'sum(count_over_time({a="b"} [5m]) by')
    with pytest.raises(QueryRefusedError, match="at 15"):
        tree("traceql", "{ span.a = 1 &&& span.b = 2 }")
    with pytest.raises(QueryRefusedError, match="no escape in Go"):
        logql.lines(r'{a=~"1\.5"}', [logql.Entry(0, {"a": "1.5"}, "")])
    with pytest.raises(logql.NotKnownError):
        logql.lines('{a="b"} | json', [logql.Entry(0, {"a": "b"}, "")])


def test_the_counts_are_those_of_the_session(run: Run) -> None:
    assert run.number("Started", session=SESSION) == 6
    assert run.number("Ended", session=SESSION) == 3
    assert run.number("Ended badly", session=SESSION) == 2
    assert run.number("Ended badly", session=OTHER_SESSION) == 1
    # The first characters will do, and none at all mean everybody.
    assert run.number("Ended", session=SESSION[:6]) == 3
    assert run.number("Started") >= 7
    assert run.number("Started", trace=run.traces["mute"]) == 1
    for panel in ("Started", "Ended", "Ended badly", "Longest silence"):
        assert run.number(panel, session="nobody's") == 0


def test_the_longest_silence_is_that_of_what_has_ended(run: Run) -> None:
    said = [int(each.labels["sidecar_silence_longest_ms"]) for each in run.ask("Events", session=SESSION)
            if "sidecar_settle_reason" in each.labels and "sidecar_silence_longest_ms" in each.labels]  # fmt: skip
    assert said
    assert run.number("Longest silence", session=SESSION) == max(said)


@pytest.mark.parametrize(("letter", "what", "program"), [("A", "spoke", "sh"), ("B", "mute", "sleep")])
def test_each_silent_command_has_a_band(run: Run, letter: str, what: str, program: str) -> None:
    """Of one that wrote something the age of that, of one that never did the time since its start; never both."""
    found = []
    since_s = max(each.time_s for each in run.entries) - 60  # however long ago that is by now
    (target,) = (each.values[0] for each in LOKI if "Silence" in str(each.id) and each.values[0]["refId"] == letter)
    query = put_in(target["expr"], session=SESSION, trace=run.traces[what])
    for second in range(61):
        found += logql.instant(query, run.entries, since_s + second)
    assert found
    for labels, value in found:
        shown = re.sub(r"\{\{(\w+)\}\}", lambda each, of=labels: of.get(each[1], ""), target["legendFormat"])
        assert shown.split()[0] == program
        assert value > 0
    assert not run.ask("Silence of each command", {"A": "B", "B": "A"}[letter], session=SESSION, trace=run.traces[what])


def test_the_evidence_says_which_command_why_and_the_trace(run: Run) -> None:
    said = (
        f'npm network_peer_dead (measured): ["nothing for 9 s","peer \\"db\\" is gone"] trace {run.traces["suspect"]}'
    )
    assert said in [each.line for each in run.ask("Evidence", session=SESSION)]
    assert said in [each.line for each in run.ask("Evidence", page="sidecar.json")]
    (whose,) = {each.labels["service_instance_id"] for each in run.ask("Evidence", session=SESSION)}
    assert said in [each.line for each in run.ask("Evidence", page="sidecar.json", instance=(whose, "another"))]
    assert run.ask("Evidence", page="sidecar.json", instance=("another",)) == []


def test_the_events_are_all_of_the_session(run: Run) -> None:
    events = run.ask("Events", session=SESSION)
    assert {each.labels["trace_id"] for each in events} == set(run.traces.values()) - {run.traces["other"]}
    assert all(each.line and each.labels["service_name"] == "sidecar" for each in events)


def test_an_event_is_within_lokis_limits(run: Run) -> None:
    """Loki's own `max_structured_metadata_entries_count` and `max_structured_metadata_size`."""
    for each in run.entries:
        assert len(each.labels) <= 128
        assert sum(len(name) + len(value.encode()) for name, value in each.labels.items()) <= 64_000


def test_a_spans_link_leads_to_the_log_events_of_its_trace(run: Run) -> None:
    assert LINKED is not None
    asked = LINKED[1].replace("$${__trace.traceId}", run.traces["badly"])
    assert {each.labels["trace_id"] for each in logql.lines(asked, run.entries)} == {run.traces["badly"]}


def test_an_exemplars_link_leads_to_the_log_events_of_its_trace(run: Run) -> None:
    (asked,) = (found for found in linked_queries() if "service_name" in found)
    asked = asked.replace("$${__value.raw}", run.traces["badly"])
    assert {each.labels["trace_id"] for each in logql.lines(asked, run.entries)} == {run.traces["badly"]}


def test_tempo_is_asked_for_the_traces_of_the_session_while_they_run(run: Run, stack: Stack) -> None:
    queries = [each.values[0]["query"] for each in targets(FOR_TEMPO, "tempo")]
    assert "${trace}" in queries, "an id is a query as it is"
    (search,) = set(queries) - {"${trace}"}
    for what, expected in (dict.fromkeys(run.traces, True) | {"other": False}).items():
        spans = eventually(what, lambda w=run.traces[what]: stack.jaeger.trace(w))
        assert bool(traceql.spans(put_in(search, session=SESSION), spans)) == expected, what
    # The heartbeats of what still runs are found, not only its start.
    for what in ("spoke", "mute"):
        found = traceql.spans(put_in(search, session=SESSION), stack.jaeger.trace(run.traces[what]))
        roles = {span.role for span in found}
        assert roles == {"started", "heartbeat"}
