"""The kinds of panels, each with a title, a description that says what it answers, and a unit.

Widths are in Grafana's 24 columns; the panels of one line have one height and fill it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from grafana_foundation_sdk.builders import common, dashboard, heatmap, logs, stat, statetimeline, table, timeseries
from grafana_foundation_sdk.models import common as shape
from grafana_foundation_sdk.models.dashboard import (
    DashboardCursorSync,
    DataSourceRef,
    DynamicConfigValue,
    FieldColorModeId,
    Panel,
    Threshold,
    ThresholdsMode,
)
from grafana_foundation_sdk.models.heatmap import HeatmapColorMode, HeatmapColorScale
from grafana_foundation_sdk.models.table import Options as TableOptions

from dashboards.grafana import sources

if TYPE_CHECKING:
    from grafana_foundation_sdk.cog import builder as cog
    from grafana_foundation_sdk.cog import variants
    from grafana_foundation_sdk.models import dashboard as model

    Query = cog.Builder[variants.Dataquery]

# Units, by Grafana's ids.
COMMANDS = RECORDS = "short"
SECONDS, MILLISECONDS = "s", "ms"
RATIO, BYTES, PLAIN = "percentunit", "bytes", "none"

Named = TypeVar("Named", stat.Panel, timeseries.Panel, table.Panel, heatmap.Panel, logs.Panel, statetimeline.Panel)


def steps(*bounds: tuple[float | None, str]) -> dashboard.ThresholdsConfig:
    """Colours from a value on; the first one's bound is None."""
    found = [Threshold(bound, colour) for bound, colour in bounds]
    return dashboard.ThresholdsConfig().mode(ThresholdsMode.ABSOLUTE).steps(found)


CALM = steps((None, "green"))


def number(
    title: str,
    description: str,
    query: Query,
    unit: str,
    colours: dashboard.ThresholdsConfig = CALM,
    width: int = 3,
    source: DataSourceRef = sources.METRICS,
) -> stat.Panel:
    """One value, coloured by what it means."""
    latest = common.ReduceDataOptions().calcs(["lastNotNull"])
    panel = stat.Panel().reduce_options(latest).thresholds(colours).no_value("0")
    panel = panel.color_mode(shape.BigValueColorMode.BACKGROUND).graph_mode(shape.BigValueGraphMode.NONE)
    return _named(panel, title, description, unit, width, 4, source).with_target(query)


def curves(
    title: str, description: str, queries: list[Query], unit: str, width: int = 12, *, stacked: bool = False
) -> timeseries.Panel:
    """Values over time; `stacked` where they are parts of a whole."""
    legend = common.VizLegendOptions().show_legend(True).placement(shape.LegendPlacement.BOTTOM)
    legend = legend.display_mode(shape.LegendDisplayMode.LIST)
    tooltip = common.VizTooltipOptions().mode(shape.TooltipDisplayMode.MULTI).sort(shape.SortOrder.DESCENDING)
    panel = timeseries.Panel().legend(legend).tooltip(tooltip).min(0).no_value("0").fill_opacity(10)
    if stacked:
        panel = panel.stacking(common.StackingConfig().mode(shape.StackingMode.NORMAL)).fill_opacity(40)
    return _named(panel, title, description, unit, width, 8).targets(_lettered(queries))


def heat(title: str, description: str, query: Query, width: int = 12) -> heatmap.Panel:
    """A histogram over time; its buckets are seconds."""
    colour = heatmap.HeatmapColorOptions().mode(HeatmapColorMode.SCHEME).scheme("Oranges").steps(64)
    colour = colour.scale(HeatmapColorScale.EXPONENTIAL).exponent(0.5)
    panel = heatmap.Panel().calculate(False).no_value("0").color(colour)
    panel = panel.y_axis(heatmap.YAxisConfig().unit(SECONDS)).cell_values(heatmap.CellValues().unit(COMMANDS))
    return _named(panel, title, description, SECONDS, width, 8).with_target(query)


def lines(title: str, description: str, query: Query, height: int = 8) -> logs.Panel:
    """Log events, the latest first."""
    panel = logs.Panel().no_value("none").show_time(True).wrap_log_message(True).enable_log_details(True)
    panel = panel.sort_order(shape.LogsSortOrder.DESCENDING).dedup_strategy(shape.LogsDedupStrategy.NONE)
    return _named(panel, title, description, PLAIN, 24, height, sources.LOGS).with_target(query)


def bands(
    title: str, description: str, queries: list[Query], unit: str, colours: dashboard.ThresholdsConfig
) -> statetimeline.Panel:
    """A line for each series, coloured by its value."""
    scheme = dashboard.FieldColor().mode(FieldColorModeId.THRESHOLDS)
    panel = statetimeline.Panel().merge_values(True).show_value(shape.VisibilityMode.AUTO).thresholds(colours)
    panel = panel.color_scheme(scheme).row_height(0.8).no_value("0")
    return _named(panel, title, description, unit, 24, 10, sources.LOGS).targets(_lettered(queries))


def rows(
    title: str,
    description: str,
    query: Query,
    unit: str = PLAIN,
    width: int = 24,
    height: int = 8,
    source: DataSourceRef = sources.METRICS,
) -> table.Panel:
    return _named(table.Panel().show_header(True), title, description, unit, width, height, source).with_target(query)


def traces_view(title: str, description: str, query: Query, source: DataSourceRef) -> dashboard.Panel:
    """Grafana's own view of one trace. It has no options, and no builder of its own."""
    panel = dashboard.Panel().type("traces").title(title).description(description).unit(PLAIN)
    return panel.datasource(source).span(24).height(16).with_target(query)


def link(title: str, url: str) -> dict[str, object]:
    return {"title": title, "url": url, "targetBlank": False}


def of_column(**properties: object) -> list[DynamicConfigValue]:
    return [DynamicConfigValue(name, value) for name, value in properties.items()]


def page(uid: str, title: str, description: str, first: str, refresh: str) -> dashboard.Dashboard:
    """An empty dashboard that shows the time from `first` (`now-1h`) on."""
    made = dashboard.Dashboard(title).uid(uid).description(description).tags(["sidecar"]).time(first, "now")
    return made.refresh(refresh).timezone("browser").readonly().tooltip(DashboardCursorSync.CROSSHAIR)


def finished(made: dashboard.Dashboard) -> model.Dashboard:
    """With ids, which links to single panels need; Grafana would give them at random."""
    whole = made.build()
    # Those of a closed row are in the row.
    every = [each for panel in whole.panels or () for each in (panel, *(getattr(panel, "panels", None) or ()))]
    for number_, panel in enumerate(every, 1):
        panel.id_val = number_
        # The SDK writes these out as they are without being asked for, and Grafana 13 no longer knows them.
        if isinstance(panel, Panel) and isinstance(panel.options, TableOptions):
            panel.options.footer = None
    for variable in (whole.templating and whole.templating.list_val) or ():
        variable.auto = variable.auto_count = variable.auto_min = None
    return whole


def _named(
    panel: Named,
    title: str,
    description: str,
    unit: str,
    width: int,
    height: int,
    source: DataSourceRef = sources.METRICS,
) -> Named:
    made: Any = panel
    named: Named = made.title(title).description(description).unit(unit).span(width).height(height).datasource(source)
    return named


def _lettered(queries: list[Query]) -> list[Query]:
    # Any: each builder has it, their common base has not.
    found: list[Query] = []
    for letter, query in zip("ABCDEF", queries, strict=False):
        lettered: Any = query
        found.append(lettered.ref_id(letter))
    return found
