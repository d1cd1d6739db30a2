"""Where the panels' data comes from: the variables that choose a data source, and a query of each kind."""

from __future__ import annotations

from typing import Literal

from grafana_foundation_sdk.builders import dashboard, loki, prometheus
from grafana_foundation_sdk.cog import builder as cog
from grafana_foundation_sdk.cog import variants
from grafana_foundation_sdk.models.dashboard import DataSourceRef, VariableOption
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

Traces = Literal["jaeger", "tempo"]

METRICS = DataSourceRef("prometheus", "${datasource}")
LOGS = DataSourceRef("loki", "${logs}")


def traces_ref(kind: Traces) -> DataSourceRef:
    return DataSourceRef(kind, "${traces}")


def choice(name: str, label: str, kind: str, description: str) -> dashboard.DatasourceVariable:
    """A variable that chooses a data source of `kind`; at first the one whose uid is the kind, as deploy/ has them."""
    return (
        dashboard.DatasourceVariable(name)
        .label(label)
        .description(description)
        .type(kind)
        .current(VariableOption(True, kind, kind))
    )


def range_query(expression: str, legend: str = "") -> prometheus.Dataquery:
    return prometheus.Dataquery().ref_id("A").expr(expression).range().legend_format(legend).datasource(METRICS)


def instant_query(expression: str, legend: str = "") -> prometheus.Dataquery:
    return prometheus.Dataquery().ref_id("A").expr(expression).instant().legend_format(legend).datasource(METRICS)


def table_query(expression: str) -> prometheus.Dataquery:
    return instant_query(expression).format(PromQueryFormat.TABLE)


def heatmap_query(expression: str) -> prometheus.Dataquery:
    """With the traces of single commands as points, which lead to them."""
    return range_query(expression, "{{le}}").format(PromQueryFormat.HEATMAP).exemplar(True)


def log_lines(expression: str) -> loki.Dataquery:
    return loki.Dataquery().ref_id("A").expr(expression).query_type("range").datasource(LOGS)


def log_number(expression: str, legend: str = "") -> loki.Dataquery:
    return loki.Dataquery().ref_id("A").expr(expression).query_type("instant").legend_format(legend).datasource(LOGS)


def log_series(expression: str, legend: str) -> loki.Dataquery:
    return loki.Dataquery().ref_id("A").expr(expression).query_type("range").legend_format(legend).datasource(LOGS)


class _JaegerQuery(variants.Dataquery):
    """What Grafana's Jaeger data source calls a query; the SDK has no builder for it.

    Source: public/app/plugins/datasource/jaeger/types.ts of Grafana 11.
    """

    def __init__(self, **fields: object) -> None:
        self._fields = fields

    def to_json(self) -> dict[str, object]:
        return {"refId": "A", "datasource": traces_ref("jaeger"), **self._fields}


class _TempoQuery(variants.Dataquery):
    def __init__(self, **fields: object) -> None:
        self._fields = fields

    def to_json(self) -> dict[str, object]:
        return {"refId": "A", "datasource": traces_ref("tempo"), "queryType": "traceql", **self._fields}


class _Ready(cog.Builder[variants.Dataquery]):
    def __init__(self, query: variants.Dataquery) -> None:
        self._query = query

    def build(self) -> variants.Dataquery:
        return self._query


def one_trace(kind: Traces, trace_id: str) -> cog.Builder[variants.Dataquery]:
    """The whole trace: both data sources take an id as the query itself."""
    return _Ready(_JaegerQuery(query=trace_id) if kind == "jaeger" else _TempoQuery(query=trace_id))


def traces_of_session(kind: Traces, variable: str, limit: int = 200) -> cog.Builder[variants.Dataquery]:
    """The traces that hold a span of the session which a variable of the page names, the latest `limit`."""
    # Quoted by Grafana: an id may have quotes in it.
    session = f"${{{variable}:doublequote}}"
    if kind == "jaeger":
        # Tags are logfmt here; Grafana makes the JSON of them that Jaeger's API takes.
        tags = f"session.id={session}"
        return _Ready(_JaegerQuery(queryType="search", service="sidecar", tags=tags, limit=limit))
    where = f'{{ resource.service.name = "sidecar" && span.session.id = {session} }}'
    return _Ready(_TempoQuery(query=where, limit=limit, tableType="traces"))
