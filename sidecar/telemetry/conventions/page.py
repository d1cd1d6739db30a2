"""The registry as a page of the documentation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sidecar.core.curation import CHANGES, FIRST, LAST
from sidecar.telemetry.conventions.attributes import ATTRIBUTES, EVENTS_DROPPED, RESOURCE, Attribute
from sidecar.telemetry.conventions.metrics import DURATION_BOUNDS_S, LABELS, METRICS, SDK_LABELS, SDK_METRICS, Metric
from sidecar.telemetry.conventions.signals import LOG_EVENTS, SPAN_EVENTS, SPANS, Signal

if TYPE_CHECKING:
    from collections.abc import Iterable

_INTRODUCTION = """\
# Semantic conventions

Printed by `python -m sidecar.telemetry.conventions`; the registry in that module is what the code emits from.
*Stable* names will not change without a major version. *Origin* says whose name it is where it is not ours.
Absent means unknown or not applicable: no attribute is ever sent empty.
"""


def page() -> str:
    """docs/semantic-conventions.md, whole."""
    parts = [_INTRODUCTION, "## Resource\n", _attribute_table(RESOURCE.values())]
    parts += ["Other keys come from OTEL_RESOURCE_ATTRIBUTES.\n", "## Spans\n"]
    parts += [_signal("`sidecar.span.role` = ", span) for span in SPANS.values()]
    parts += ["## Span events\n", *(_signal("", event) for event in SPAN_EVENTS.values())]
    parts += [
        f"A command's span has at most {FIRST + CHANGES + LAST} of them: the first {FIRST}, up to {CHANGES} changes of "
        f"verdict (of more, the first and the last half of that), the last {LAST}. The rest is counted in "
        f"`{EVENTS_DROPPED}`.\n",
        "## Log events\n",
        "Log records with an `event_name`, in the command's span context, sampled or not.\n",
        *(_signal("", event) for event in LOG_EVENTS.values()),
        "## Attributes\n",
        _attribute_table(ATTRIBUTES.values()),
        "## Metrics\n",
        "Cumulative, unless OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE says otherwise. In Prometheus the names "
        "are `sidecar_commands_lost_total`, `sidecar_output_age_seconds` and so on. Histogram bounds in seconds: "
        + ", ".join(f"{bound:g}" for bound in DURATION_BOUNDS_S)
        + ".\n",
        _metric_table(METRICS.values()),
        "Each series of a counter or histogram begins with 0, so that `increase()` sees the first event: those born at "
        "0 are there from the daemon's start, heartbeats from when a command has the verdict that a beat would bear, "
        "the others from when there is something to count, which is shown three exports (30 s) later.\n",
        "Attributes of metrics. All of them are bounded, whatever runs: with the built-in list of families a host has "
        "at most 13,500 series (each program with every verdict, ended in every way), and one that runs ten kinds of "
        "programs about 820.\n",
        _attribute_table(LABELS.values()),
        "The SDK's own, which come beside them:\n",
        _metric_table(SDK_METRICS.values()),
        _attribute_table(SDK_LABELS.values()).rstrip("\n"),
    ]
    return "\n".join(parts) + "\n"


def _signal(prefix: str, signal: Signal) -> str:
    names = ", ".join(f"`{name}`" for name in dict.fromkeys(signal.attributes))
    head = f"### {prefix}`{signal.name}` ({signal.stability})"
    return f"{head}\n\n{signal.brief}\n\nExample: `{signal.example}`\n\nAttributes: {names}\n"


def _metric_table(metrics: Iterable[Metric]) -> str:
    return _table(
        ("name", "instrument", "unit", "attributes", "stability", "example", "what"),
        (
            (
                f"`{m.name}`",
                m.instrument,
                f"`{m.unit}`",
                ", ".join(m.attributes) or "-",
                m.stability,
                f"`{m.example}`",
                m.brief,
            )
            for m in metrics
        ),
    )


def _attribute_table(attributes: Iterable[Attribute]) -> str:
    return _table(
        ("name", "type", "unit", "stability", "origin", "example", "what"),
        (
            (f"`{a.name}`", a.type, a.unit or "-", a.stability, a.origin or "-", f"`{a.example}`", a.brief)
            for a in attributes
        ),
    )


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"
