"""LogQL over log records in memory: the answers that Loki documents, for as much of the language as the dashboards ask.

Loki itself is not run. What a query is comes from Grafana's grammar of LogQL (query_trees), what is
asked of from the real log records as a Collector sends them to Loki; what the words mean is this module's reading of
Loki's documentation: "LogQL: log query language" and, of the records, "Ingesting logs using OpenTelemetry". What it
does not know raises NotKnownError, so that no new query passes unread.
"""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from query_trees import Node, string, tree

from sidecar.testing.received import ReceivedLog

Labels = dict[str, str]
Series = list[tuple[Labels, float]]


class NotKnownError(Exception):
    """Something of LogQL that is not done here."""


class Entry(NamedTuple):
    """A log record as Loki keeps it: labels and structured metadata are asked alike."""

    time_s: float
    labels: Labels
    line: str


def kept(log: ReceivedLog) -> Entry:
    """Attributes of resource and record, with `_` for what no label may have, and as text."""
    found = {re.sub(r"\W", "_", key): _text(value) for key, value in {**log.resource, **log.attributes}.items()}
    found |= {"trace_id": log.trace_id, "span_id": log.span_id, "severity_text": log.severity}
    return Entry(log.time_unix_ns / 1e9, {key: value for key, value in found.items() if value}, str(log.body))


def lines(query: str, entries: Iterable[Entry]) -> list[Entry]:
    """What a query for lines finds, the earliest first."""
    expression = _inner(tree("logql", query))
    if expression.name != "LogExpr":
        raise NotKnownError(f"no query for lines: {query}")
    return sorted(_selected(expression, entries), key=lambda entry: entry.time_s)


def instant(query: str, entries: Iterable[Entry], at_s: float) -> Series:
    """What a query for numbers gives at one time."""
    return _metric(tree("logql", query), list(entries), at_s)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return json.dumps(value, separators=(",", ":")) if isinstance(value, list | dict) else str(value)


def _inner(node: Node) -> Node:
    while node.name in {"LogQL", "Expr", "MetricExpr"}:
        (node,) = node.children
    return node


def _selected(expression: Node, entries: Iterable[Entry]) -> list[Entry]:
    (selector,) = (child for child in expression.children if child.name == "Selector")
    found = [each for each in entries if all(_matches(matcher, each.labels) for matcher in selector.all("Matcher"))]
    pipeline = expression.child("PipelineExpr")
    for stage in pipeline.all("PipelineStage") if pipeline else ():
        found = [passed for each in found if (passed := _stage(stage, each))]
    return found


def _stage(stage: Node, entry: Entry) -> Entry | None:
    what = next(child for child in stage.children if child.name != "Pipe")
    if what.name == "LabelFilter" and [child.name for child in what.children] == ["Matcher"]:
        return entry if _matches(what.children[0], entry.labels) else None
    if what.name == "LineFilters":
        for each in what.all("LineFilter"):
            if each.child("Filter") is None or next(each.all("Filter")).text != "|~":
                raise NotKnownError(each.text)
            if not re.search(string(next(each.all("String"))), entry.line):
                return None
        return entry
    if what.name == "LineFormatExpr":
        form = string(next(what.all("String")))
        line = re.sub(r"\{\{\.(\w+)\}\}", lambda found: entry.labels.get(found[1], ""), form)
        if "{{" in line:
            raise NotKnownError(form)
        return entry._replace(line=line)
    raise NotKnownError(stage.text)


def _matches(matcher: Node, labels: Mapping[str, str]) -> bool:
    name, operator, wanted = matcher.children
    has = labels.get(name.text, "")
    value = string(wanted)
    # A regular expression is one of the whole value.
    answers = {
        "=": lambda: has == value,
        "!=": lambda: has != value,
        "=~": lambda: re.fullmatch(value, has, re.DOTALL) is not None,
        "!~": lambda: re.fullmatch(value, has, re.DOTALL) is None,
    }
    return answers[operator.text]()


def _metric(node: Node, entries: list[Entry], at_s: float) -> Series:
    node = _inner(node)
    if node.name == "RangeAggregationExpr":
        return _over_time(node, entries, at_s)
    if node.name == "VectorAggregationExpr":
        if node.child("Grouping") or next(node.all("VectorOp")).text != "sum":
            raise NotKnownError(node.text)
        found = _metric(next(node.all("MetricExpr")), entries, at_s)
        return [({}, sum(value for _, value in found))] if found else []
    if node.name == "VectorExpr":
        return [({}, float(next(node.all("Number")).text))]
    if node.name == "BinOpExpr":
        if node.child("Or") is None or (modifier := node.child("BinOpModifier")) is None or modifier.text:
            raise NotKnownError(node.text)
        left, right = (_metric(each, entries, at_s) for each in node.children if each.name == "Expr")
        there = [labels for labels, _ in left]
        return left + [(labels, value) for labels, value in right if labels not in there]
    raise NotKnownError(node.text)


def _over_time(node: Node, entries: list[Entry], at_s: float) -> Series:
    operation = next(node.all("RangeOp")).text
    (ranged,) = node.all("LogRangeExpr")
    since_s = at_s - _seconds(next(ranged.all("Duration")).text)
    unwrap = ranged.child("UnwrapExpr")
    wanted = next(unwrap.all("Identifier")).text if unwrap else None
    if (operation, wanted is not None) not in {("count_over_time", False), ("max_over_time", True)}:
        raise NotKnownError(node.text)
    grouping = node.child("Grouping")
    if grouping and grouping.child("By") is None:
        raise NotKnownError(grouping.text)
    by = {each.text for each in grouping.all("Identifier")} if grouping else None
    values: dict[tuple[tuple[str, str], ...], list[float]] = {}
    for entry in _selected(ranged, entries):
        # A line without the label that is unwrapped is left out; one where it is no number fails the query.
        if not since_s < entry.time_s <= at_s or (wanted and wanted not in entry.labels):
            continue
        key = {name: value for name, value in entry.labels.items() if name != wanted and (by is None or name in by)}
        values.setdefault(tuple(sorted(key.items())), []).append(float(entry.labels[wanted]) if wanted else 1)
    made = sum if operation == "count_over_time" else max
    return [(dict(key), made(found)) for key, found in values.items()]


def _seconds(duration: str) -> float:
    units = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
    return float(duration[:-1]) * units[duration[-1]]
