"""session.json: one agent's run, or one trace: what its commands did and when, from traces and log events.

Loki has each attribute of a log event as structured metadata, with `_` for each dot (docs/collector.md). Nothing here
asks for the name of an event, which Loki keeps only since 2026.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from grafana_foundation_sdk.builders import dashboard, stat

from dashboards.grafana import panels, sources

if TYPE_CHECKING:
    from grafana_foundation_sdk.models import dashboard as model

    from dashboards.grafana.panels import Query
    from dashboards.grafana.sources import Traces

UID = "sidecar-session"

EVIDENCE_LINE = (
    'line_format "{{.process_executable_name}} {{.sidecar_verdict}} ({{.sidecar_verdict_confidence}}): '
    '{{.sidecar_evidence}} trace {{.trace_id}}"'
)

# Whoever leaves a field empty means all of them; the first characters of an id do, too. In backquotes: `:regex` puts
# a backslash before a dot and the like, and `\.` is an error in a string between double quotes.
_EVENTS = '{service_name="sidecar"} | session_id=~`${session:regex}.*` | trace_id=~`${trace:regex}.*`'


def session(traces: Traces) -> model.Dashboard:
    """`traces` is the kind of data source that has the spans."""
    source = sources.traces_ref(traces)
    made = panels.page(
        UID,
        "Sidecar: one session or trace",
        "One agent's run: its commands on a line of time, their verdicts and the evidence. Fill in the session, the "
        "trace, or both.",
        "now-6h",
        "30s",
    )
    for variable in (
        sources.choice("traces", "Traces", traces, "The data source that has the spans"),
        sources.choice("logs", "Logs", "loki", "The data source that has the log events"),
        _text("session", "Session", "The agent's session id, session.id; for the table of traces the whole of it"),
        _text("trace", "Trace", "A trace id; for the timeline the whole of it"),
    ):
        made = made.with_variable(variable)
    made = made.link(
        dashboard.DashboardLink("All commands")
        .url("/d/sidecar")
        .keep_time(True)
        .include_vars(True)
        .tooltip("The fleet")
    )
    made = made.with_row(dashboard.Row("The run"))
    for panel in (
        _count("Started", "Commands started in the time range.", '|~ " started$"'),
        _count("Ended", "Commands that ended, however they did.", '| sidecar_settle_reason!=""'),
        _count(
            "Ended badly",
            "Commands that ended with an error: another exit status than 0, a signal, a timeout, lost.",
            '| sidecar_settle_reason!="" | error_type!=""',
            "orange",
        ),
        panels.number(
            "Longest silence",
            "The longest time without output of a command that has ended.",
            sources.log_number(
                f"max_over_time({_EVENTS} | unwrap sidecar_silence_longest_ms [$__range]) by () or vector(0)"
            ),
            panels.MILLISECONDS,
            width=6,
            source=sources.LOGS,
        ),
        panels.rows(
            "Traces of the session",
            "The traces in which this session has commands. A click on one shows it below.",
            sources.traces_of_session(traces, "session"),
            source=source,
        )
        .no_value("no session chosen, or none of its traces in this time range")
        .override_by_regexp(
            "/^trace ?id$/i",
            panels.of_column(
                links=[
                    panels.link(
                        "Show it below",
                        address("var-trace=${__value.raw}&var-session=${session:percentencode}"),
                    )
                ]
            ),
        ),
    ):
        made = made.with_panel(panel)
    made = made.with_row(dashboard.Row("Timeline"))
    for each in (
        panels.traces_view(
            "Commands of the trace",
            "One bar for each command that has ended; of one that still runs, its start and its heartbeats, each of "
            "which reaches from the last output to then.",
            sources.one_trace(traces, "${trace}"),
            source,
        ),
        panels.bands(
            "Silence of each command",
            "At each heartbeat and change of verdict, the time since the last output, or since the start where there "
            "was none yet; nothing while output flows.",
            # Of a command that has not written yet there is no last output; then it is silent since its start.
            [
                _silence("unwrap shell_last_output_age_ms"),
                _silence('sidecar_settle_reason="" | shell_last_output_age_ms="" | unwrap sidecar_elapsed_ms'),
            ],
            panels.MILLISECONDS,
            panels.steps((None, "blue"), (60_000, "orange"), (600_000, "red")),
        ),
    ):
        made = made.with_panel(each)
    made = made.with_row(dashboard.Row("Why"))
    for line in (
        panels.lines(
            "Evidence",
            "The facts behind each verdict, the latest first.",
            sources.log_lines(f'{_EVENTS} | sidecar_evidence!="" | {EVIDENCE_LINE}'),
        ),
        panels.lines(
            "Events",
            "Everything the sidecar told of these commands: starts, heartbeats, changes of verdict, ends.",
            sources.log_lines(_EVENTS),
            12,
        ),
    ):
        made = made.with_panel(line)
    return panels.finished(made)


def address(variables: str) -> str:
    """A link to this page: with `variables`, and the data sources and the time of the page that it is on."""
    return f"/d/{UID}?{variables}&${{traces:queryparam}}&${{logs:queryparam}}&${{__url_time_range}}"


def _silence(which: str) -> Query:
    labels = ("process_executable_name", "sidecar_verdict", "sidecar_command_id")
    return sources.log_series(
        f"max_over_time({_EVENTS} | {which} [$__interval]) by ({', '.join(labels)})",
        " ".join(f"{{{{{label}}}}}" for label in labels),
    )


def _text(name: str, label: str, description: str) -> dashboard.TextBoxVariable:
    return dashboard.TextBoxVariable(name).label(label).description(description).default_value("")


def _count(title: str, description: str, which: str, colour: str = "green") -> stat.Panel:
    return panels.number(
        title,
        description,
        sources.log_number(f"sum(count_over_time({_EVENTS} {which} [$__range])) or vector(0)"),
        panels.COMMANDS,
        panels.steps((None, "green"), (1, colour)),
        6,
        sources.LOGS,
    )
