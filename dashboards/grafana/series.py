"""PromQL out of the registry: no query names a metric or a label that the daemon does not have.

A query never comes back empty: with `or_zero` nothing is 0. Whether anybody reports at all is a panel of its own.
"""

from __future__ import annotations

from typing import Final

from sidecar.telemetry.conventions.metrics import METRICS, SDK_METRICS

WHOSE: Final = 'job=~"$job",instance=~"$instance"'
"""In every selector, so that the variables at the top of the page hold for every panel."""


def series(name: str, *matchers: str, part: str = "") -> str:
    """A selector for the metric `name` of the registry, as Prometheus has it.

    `matchers` are PromQL (`state="silent"`); `part` is "bucket", "sum" or "count" of a histogram.
    Names: OpenTelemetry's prometheus_and_openmetrics specification, Metric Metadata.
    """
    metric = {**METRICS, **SDK_METRICS}[name]
    labels = {label.replace(".", "_") for label in metric.attributes}
    for matcher in matchers:
        label = matcher.partition("=")[0].rstrip("!")
        if label not in labels:
            raise ValueError(f"{name} has no label {label}")
    found = name.replace(".", "_") + ("_seconds" if metric.unit == "s" else "")
    if metric.instrument == "counter":
        found += "_total"
    if part:
        found += f"_{part}"
    return f"{found}{{{','.join((WHOSE, *matchers))}}}"


def one_of(label: str, names: tuple[str, ...]) -> str:
    """A matcher for any of `names`."""
    return f'{label}=~"{"|".join(names)}"'


def or_zero(expression: str, **labels: str) -> str:
    """`expression`, or one series of 0 with `labels` where it gives nothing.

    `on()` makes it an either-or: without it the 0 would stand beside every series that has labels.
    """
    zero = "vector(0)"
    for label, value in labels.items():
        zero = f'label_replace({zero}, "{label}", "{value}", "", "")'
    return f"{expression} or on() {zero}"


def increase(selector: str, over: str = "$__rate_interval") -> str:
    return f"increase({selector}[{over}])"
