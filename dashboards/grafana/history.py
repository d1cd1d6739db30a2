"""The part of sidecar.json that tells what was: of the chosen programs together, and of each by itself.

What there is of each program is in a row of its own, which Grafana repeats and which is closed: it asks nothing of
Prometheus before somebody opens it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from grafana_foundation_sdk.builders import dashboard

from dashboards.alerts.parameters import BAD_OUTCOMES
from dashboards.grafana import panels, sources
from dashboards.grafana.series import increase, one_of, or_zero, series

if TYPE_CHECKING:
    from grafana_foundation_sdk.builders import heatmap, timeseries

    from dashboards.grafana.panels import Query

_FAMILY = 'family=~"$family"'
_ACTIVE = series("sidecar.commands.active", _FAMILY)
_VERDICTS = increase(series("sidecar.verdicts", _FAMILY))
_BEATS = increase(series("sidecar.heartbeats", _FAMILY))
_STARTED = increase(series("sidecar.commands.started", _FAMILY))
_LOST = increase(series("sidecar.commands.lost", _FAMILY))
_SILENCES = increase(series("sidecar.command.silence.duration", _FAMILY, part="bucket"))
_DURATIONS = increase(series("sidecar.command.duration", _FAMILY, part="bucket"))
_ENDED = increase(series("sidecar.command.duration", _FAMILY, part="count"))
_BADLY = increase(series("sidecar.command.duration", _FAMILY, one_of("outcome", BAD_OUTCOMES), part="count"))


def history(made: dashboard.Dashboard) -> dashboard.Dashboard:
    """Of all programs that are chosen at the top of the page."""
    made = made.with_row(dashboard.Row("History"))
    for panel in (
        _in_flight(),
        panels.curves(
            "In flight by program",
            "Commands that run, by program; what is not on the list of families is other.",
            [sources.range_query(or_zero(f"sum by (family) ({_ACTIVE}) > 0", family="none"), "{{family}}")],
            panels.COMMANDS,
            stacked=True,
        ),
        _verdicts(),
        _beats(),
        panels.curves(
            "Verdicts by program",
            "Changes of verdict, by program: whose silences are told anew again and again.",
            [_by("family", _VERDICTS)],
            panels.PLAIN,
            stacked=True,
        ),
        panels.curves(
            "Heartbeats by program",
            "Heartbeats of silent commands, by program: which of them are silent, and for how much of the time.",
            [_by("family", _BEATS)],
            panels.PLAIN,
            stacked=True,
        ),
        panels.curves(
            "Started",
            "Commands started, by program.",
            [_by("family", _STARTED)],
            panels.COMMANDS,
            stacked=True,
        ),
        panels.curves(
            "Lost",
            "Commands whose supervisor died, by program.",
            [_by("family", _LOST)],
            panels.COMMANDS,
            stacked=True,
        ),
        _silences(),
        _durations(),
        panels.curves(
            "Longest silence by program, 95th percentile",
            "Of the commands that ended within the rate interval; as coarse as the buckets are.",
            [
                sources.range_query(
                    _some(f"histogram_quantile(0.95, sum by (family, le) ({_SILENCES}))", "family"), "{{family}}"
                )
            ],
            panels.SECONDS,
        ),
        panels.curves(
            "Duration by program, 95th percentile",
            "Of the commands that ended within the rate interval; as coarse as the buckets are.",
            [
                sources.range_query(
                    _some(f"histogram_quantile(0.95, sum by (family, le) ({_DURATIONS}))", "family"), "{{family}}"
                )
            ],
            panels.SECONDS,
        ),
        _ended(),
        panels.curves(
            "Lost or stopped by a limit, by program",
            "What the error budget is spent on: commands that were lost, or stopped by a limit of time or of silence.",
            [_by("family", _BADLY)],
            panels.COMMANDS,
            stacked=True,
        ),
    ):
        made = made.with_panel(panel)
    return made


def by_program(made: dashboard.Dashboard) -> dashboard.Dashboard:
    """A closed row for each of them. It is the last of the page: opened ones push nothing away."""
    of = ": $family"
    row = dashboard.Row("Program: $family").repeat("family")
    for panel in (_in_flight(of), _ended(of), _verdicts(of), _beats(of), _silences(of), _durations(of)):
        row = row.with_panel(panel)
    return made.with_row(row)


def _in_flight(of: str = "") -> timeseries.Panel:
    return panels.curves(
        f"In flight by state{of}",
        "Commands that run: running while output flows, silent once an interval (10 s) passed without.",
        [sources.range_query(or_zero(f"sum by (state) ({_ACTIVE})", state="running"), "{{state}}")],
        panels.COMMANDS,
        stacked=True,
    )


def _verdicts(of: str = "") -> timeseries.Panel:
    return panels.curves(
        f"Verdicts{of}",
        "Changes of verdict, by the new one: why commands have fallen silent.",
        [_by("verdict", _VERDICTS)],
        panels.PLAIN,
        stacked=True,
    )


def _beats(of: str = "") -> timeseries.Panel:
    return panels.curves(
        f"Heartbeats{of}",
        "Heartbeats of silent commands, by the verdict they carried: how much of the silence was of which kind.",
        [_by("verdict", _BEATS)],
        panels.PLAIN,
        stacked=True,
    )


def _silences(of: str = "") -> heatmap.Panel:
    return panels.heat(
        f"Longest silences{of}",
        "Each ended command's longest silence. A budget belongs above what is normal here.",
        sources.heatmap_query(or_zero(f"sum by (le) ({_SILENCES})", le="+Inf")),
    )


def _durations(of: str = "") -> heatmap.Panel:
    return panels.heat(
        f"Durations{of}",
        "How long ended commands ran.",
        sources.heatmap_query(or_zero(f"sum by (le) ({_DURATIONS})", le="+Inf")),
    )


def _ended(of: str = "") -> timeseries.Panel:
    return panels.curves(
        f"Ended by outcome{of}",
        "How commands ended: exited, signaled, timeout, silence_timeout, cancelled, spawn_failed or lost.",
        [_by("outcome", _ENDED)],
        panels.COMMANDS,
        stacked=True,
    )


def _by(label: str, expression: str) -> Query:
    """The sums of an expression, a curve for each value of a label."""
    return sources.range_query(_some(f"sum by ({label}) ({expression})", label), f"{{{{{label}}}}}")


def _some(expression: str, label: str) -> str:
    """Only what is not 0; where all is, one line of 0. Else a hundred flat lines would hide the others."""
    return or_zero(f"{expression} > 0", **{label: "none"})
