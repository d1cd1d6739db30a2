"""sidecar.json: what runs and may be hung now, how it was, and whether what is shown can be believed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from urllib.parse import quote

from grafana_foundation_sdk.builders import dashboard, table
from grafana_foundation_sdk.models.dashboard import DataTransformerConfig, VariableOption, VariableRefresh, VariableSort

from dashboards.grafana import history, panels, session, sources
from dashboards.grafana.series import increase, one_of, or_zero, series
from sidecar.core.verdict_names import MAY_BE_HUNG, NEEDS_SOMEONE

if TYPE_CHECKING:
    from grafana_foundation_sdk.models import dashboard as model

    from dashboards.grafana.sources import Traces

UID = "sidecar"

_AGE = "sidecar.suspect.output.age"
_CAPPED = "Each daemon names its five worst suspects; `Suspects not named` counts the rest."
_EVERY = VariableOption(True, "All", "$__all")
_QUEUE_FULL = 'error_type!=""'

_DROPPED = (series("sidecar.spool.dropped"),)
_QUEUE_DROPPED = tuple(series(f"otel.sdk.processor.{each}.processed", _QUEUE_FULL) for each in ("span", "log"))


def fleet(traces: Traces) -> model.Dashboard:
    """`traces` is the kind of data source that the links to traces open."""
    made = panels.page(
        UID,
        "Sidecar: commands of agents",
        "Which commands run, which may be hung and why, how it was, and whether the telemetry can be believed.",
        "now-1h",
        "10s",
    )
    for variable in _variables(traces):
        made = made.with_variable(variable)
    made = made.link(
        dashboard.DashboardLink("One session")
        .url(f"/d/{session.UID}")
        .keep_time(True)
        .include_vars(True)
        .tooltip("One agent's run")
    )
    return panels.finished(history.by_program(_health(history.history(_now(made, traces)))))


def _variables(traces: Traces) -> list[dashboard.DatasourceVariable | dashboard.QueryVariable]:
    born = "sidecar_daemon_loop_timestamp_seconds"
    started = 'sidecar_commands_started_total{job=~"$job",instance=~"$instance"}'
    return [
        sources.choice("datasource", "Metrics", "prometheus", "The Prometheus that has the daemons' metrics"),
        _labels("job", "Job", "sidecar by way of a Collector, else the scrape job", f"label_values({born}, job)"),
        _labels(
            "instance",
            "Daemon",
            "One daemon of one user on one host; the metrics of docs/collector.md say which host",
            f'label_values({born}{{job=~"$job"}}, instance)',
        ),
        _labels("family", "Program", "Of History and the rows by program", f"label_values({started}, family)"),
        sources.choice("traces", "Traces", traces, "Where the links to traces lead"),
        sources.choice("logs", "Logs", "loki", "Where the evidence is read from"),
    ]


def _labels(name: str, label: str, description: str, query: str) -> dashboard.QueryVariable:
    found = dashboard.QueryVariable(name).label(label).description(description).query(query)
    found = found.datasource(sources.METRICS).multi(True).include_all(True).all_value(".*").current(_EVERY)
    return found.refresh(VariableRefresh.ON_TIME_RANGE_CHANGED).sort(VariableSort.ALPHABETICAL_ASC)


def _now(made: dashboard.Dashboard, traces: Traces) -> dashboard.Dashboard:
    alarm = panels.steps((None, "green"), (1, "red"))
    look = panels.steps((None, "green"), (1, "orange"))
    stuck = tuple(name for name in NEEDS_SOMEONE if name != "awaiting_input")
    made = made.with_row(dashboard.Row("Now"))
    for panel in (
        panels.number(
            "In flight",
            "Commands that run now, silent ones among them.",
            sources.instant_query(or_zero(f"sum({series('sidecar.commands.active')})")),
            panels.COMMANDS,
        ),
        panels.number(
            "May be hung",
            f"Commands under a verdict that may be a hang: {', '.join(MAY_BE_HUNG)}. {_CAPPED}",
            sources.instant_query(or_zero(f"count({series(_AGE, one_of('verdict', MAY_BE_HUNG))})")),
            panels.COMMANDS,
            alarm,
        ),
        panels.number(
            "Awaiting input",
            f"Commands that have waited for somebody to type for longer than suspect_after (60 s). {_CAPPED}",
            sources.instant_query(or_zero(f"count({series(_AGE, one_of('verdict', ('awaiting_input',)))})")),
            panels.COMMANDS,
            look,
        ),
        panels.number(
            "Needs someone",
            f"Commands that somebody must help on, other than by typing: {', '.join(stuck)}. {_CAPPED}",
            sources.instant_query(or_zero(f"count({series(_AGE, one_of('verdict', stuck))})")),
            panels.COMMANDS,
            look,
        ),
        panels.number(
            "Suspects not named",
            "Suspects beyond the five worst of each daemon: not in the table below, nor in the three counts before.",
            sources.instant_query(or_zero(f"sum({series('sidecar.suspect.hidden')})")),
            panels.COMMANDS,
            look,
        ),
        panels.number(
            "Lost",
            "Commands whose supervisor died, in the time range of the page: nobody knows how they ended. Those of the "
            "last quarter of an hour are named below.",
            sources.instant_query(or_zero(f"sum({increase(series('sidecar.commands.lost'), '$__range')})")),
            panels.COMMANDS,
            alarm,
        ).decimals(0),
        panels.number(
            "Worst silence / budget",
            "The longest silence of a running command, over its own budget: its timeout, or 60 s without one.",
            sources.instant_query(or_zero(f"max({series('sidecar.silence.ratio')})")),
            panels.RATIO,
            panels.steps((None, "green"), (0.8, "orange"), (1, "red")),
        ).decimals(0),
        panels.number(
            "Telemetry dropped",
            "Spans and log events given up in the time range of the page: by a full or old spool, a backend's refusal, "
            "or a full queue.",
            sources.instant_query(_dropped_in("$__range")),
            panels.RECORDS,
            alarm,
        ).decimals(0),
        _suspects(traces),
        _overdue(traces),
        _unheard(traces),
        _lost(traces),
        panels.lines(
            "Evidence",
            "The facts behind each verdict that may be a hang or needs someone, the latest first, with the trace "
            "they belong to. From the log events: needs Loki, and of single daemons the way by a Collector, where "
            "`instance` is the daemon's id.",
            sources.log_lines(
                '{service_name="sidecar"} | service_instance_id=~"$instance" '
                f"| {one_of('sidecar_verdict_group', ('may_be_hung', 'needs_someone'))} | {session.EVIDENCE_LINE}"
            ),
        ),
    ):
        made = made.with_panel(panel)
    return made


def _suspects(traces: Traces) -> table.Panel:
    return _named(
        traces,
        "Suspects",
        "Commands that may be hung, or have needed someone for a minute; the longest silence first, each with the "
        f"weightiest fact behind its verdict, as it was when the verdict was new. {_CAPPED} A click on the trace leads "
        "to all of the evidence and its spans. The table is empty when there is none.",
        _AGE,
    ).no_value("no suspects")


def _overdue(traces: Traces) -> table.Panel:
    return _named(
        traces,
        "Silent the longest",
        "Of each daemon the command without a timeout that has been silent for the longest, whatever its verdict: it "
        "may be in the best of health, but nothing will end it. Empty below suspect_after (60 s).",
        "sidecar.overdue.output.age",
    ).no_value("none")


def _unheard(traces: Traces) -> table.Panel:
    expression = f"sort_desc(max by (family, trace_id, session, job, instance) ({series('sidecar.heartbeat.delay')}))"
    return _table(
        traces,
        "Heartbeat overdue",
        "Commands whose supervisor says nothing any more, as one does that is stopped: by how long their heartbeat is "
        "overdue, the latest five of each daemon. What is said of them elsewhere is as old. Empty below "
        "suspect_after (60 s).",
        expression,
        {"Value": "Overdue", "family": "Program"},
    ).no_value("none")


def _lost(traces: Traces) -> table.Panel:
    expression = (
        f"sort(max by (family, trace_id, session, job, instance) (time() - {series('sidecar.lost.timestamp')}))"
    )
    return _table(
        traces,
        "Lost lately",
        "Commands whose supervisor died in the last quarter of an hour, the latest five of each daemon.",
        expression,
        {"Value": "Lost", "family": "Program"},
    ).no_value("none")


def _named(traces: Traces, title: str, description: str, metric: str) -> table.Panel:
    """A table of the running commands that a metric names."""
    labels = "verdict, evidence, family, trace_id, session, job, instance"
    expression = f"sort_desc(max by ({labels}) ({series(metric)}))"
    columns = {"Value": "Last output", "family": "Program", "verdict": "Verdict", "evidence": "Evidence"}
    colours = {"mode": "absolute", "steps": [{"value": None, "color": "orange"}, {"value": 600, "color": "red"}]}
    ages = panels.of_column(thresholds=colours, **{"custom.cellOptions": {"type": "color-text"}})
    wide = panels.of_column(**{"custom.width": 420})
    made = _table(traces, title, description, expression, columns)
    return made.override_by_name("Last output", ages).override_by_name("Evidence", wide)


def _table(traces: Traces, title: str, description: str, expression: str, columns: dict[str, str]) -> table.Panel:
    """Commands by name: `columns`, which begin with an age, then trace and session, with links, and daemon."""
    panel = panels.rows(title, description, sources.table_query(expression))
    wanted = {**columns, "trace_id": "Trace", "session": "Session", "instance": "Daemon", "job": "Job"}
    arranged: dict[str, object] = {
        "excludeByName": {"Time": True},
        "indexByName": {name: place for place, name in enumerate(wanted)},
        "renameByName": wanted,
    }
    panel = panel.with_transformation(DataTransformerConfig("organize", options=arranged))
    trace_links = [
        panels.link("Evidence and spans", session.address("var-trace=${__value.raw}")),
        panels.link("Trace", _explore(traces, "${__value.raw}")),
    ]
    session_links = [panels.link("The session", session.address("var-session=${__value.raw:percentencode}"))]
    return (
        panel.override_by_name(columns["Value"], panels.of_column(unit=panels.SECONDS))
        .override_by_name("Trace", panels.of_column(links=trace_links))
        .override_by_name("Session", panels.of_column(links=session_links))
    )


def _explore(traces: Traces, trace_id: str) -> str:
    """A link into Explore, with one pane. Grafana puts in what stands in ${}, so that stays as it is."""
    query: dict[str, object] = {"refId": "A", "query": trace_id}
    if traces == "tempo":
        query["queryType"] = "traceql"
    panes = json.dumps({"t": {"datasource": "${traces}", "queries": [query]}}, separators=(",", ":"))
    return f"/explore?schemaVersion=1&panes={quote(panes, safe='${}:,._')}"


def _health(made: dashboard.Dashboard) -> dashboard.Dashboard:
    loop = series("sidecar.daemon.loop.timestamp")
    made = made.with_row(dashboard.Row("Telemetry health"))
    for panel in (
        panels.number(
            "Daemons reporting",
            "Daemons whose metrics arrive. Where this is 0, the zeros of all other panels say nothing.",
            sources.instant_query(or_zero(f"count({loop})")),
            panels.PLAIN,
            panels.steps((None, "red"), (1, "green")),
            6,
        ),
        panels.number(
            "Stuck longest",
            "How long ago the loop of the slowest daemon last turned. By way of a Collector it ages by up to an export "
            "interval (10 s).",
            sources.instant_query(or_zero(f"max(time() - {loop})")),
            panels.SECONDS,
            panels.steps((None, "green"), (30, "orange"), (120, "red")),
            6,
        ),
        panels.number(
            "Spooled",
            "Spans and log events that wait for the Collector now.",
            sources.instant_query(or_zero(f"sum({series('sidecar.spool.items')})")),
            panels.RECORDS,
            panels.steps((None, "green"), (1000, "orange")),
            6,
        ),
        panels.number(
            "Size of the spool",
            "Of the fullest daemon's spool; spool_max_bytes, 64 MiB unless set, is where the oldest goes.",
            sources.instant_query(or_zero(f"max(sum by (job, instance) ({series('sidecar.spool.bytes')}))")),
            panels.BYTES,
            panels.steps((None, "green"), (32 << 20, "orange"), (58 << 20, "red")),
            6,
        ),
        panels.curves(
            "Spool by signal",
            "Spans and log events that wait for the Collector. A rise that does not end is an outage of it.",
            [
                sources.range_query(
                    or_zero(f"sum by (signal) ({series('sidecar.spool.items')})", signal="traces"), "{{signal}}"
                )
            ],
            panels.RECORDS,
        ),
        panels.curves(
            "Queues in memory",
            "Spans and log events on their way to the spool: normally gone within a second.",
            [
                sources.range_query(or_zero(f"sum({series(f'otel.sdk.processor.{each}.queue.size')})"), f"{each}s")
                for each in ("span", "log")
            ],
            panels.RECORDS,
        ),
        panels.curves(
            "Dropped",
            "Given up for good: by the spool (too many, too old, refused), and by a full queue in memory.",
            [
                sources.range_query(
                    or_zero(f"sum by (signal) ({increase(series('sidecar.spool.dropped'))})", signal="traces"),
                    "spool, {{signal}}",
                ),
                *(
                    sources.range_query(or_zero(f"sum({increase(each)})"), f"full queue, {what}")
                    for what, each in zip(("traces", "logs"), _QUEUE_DROPPED, strict=True)
                ),
            ],
            panels.RECORDS,
        ),
        panels.curves(
            "Age of the daemons' loop",
            "How long ago each daemon's loop last turned. A line that climbs is a daemon that is stuck.",
            [sources.range_query(or_zero(f"time() - {loop}", instance="none"), "{{instance}}")],
            panels.SECONDS,
        ),
    ):
        made = made.with_panel(panel)
    return made


def _dropped_in(over: str) -> str:
    parts = (f"(sum({increase(each, over)}) or vector(0))" for each in (*_DROPPED, *_QUEUE_DROPPED))
    return " + ".join(parts)
