"""The traps of alerting rules that were met already: none of the rules is in one, and one that was would be noticed."""

import dataclasses
import re
from collections.abc import Iterator

import pytest

from dashboards.alerts.parameters import Parameters
from dashboards.alerts.rules import Alert, alerts

ALERTS = alerts(Parameters())
SELECTOR = r"\w*\{[^{}]*\}"
COME_AND_GO = re.compile(r"sidecar_(?:suspect_output_age|overdue_output_age|heartbeat_delay|lost_timestamp)_seconds")
"""Series that are there as long as their command is; what was pushed lives for five minutes more."""


def without_texts(expr: str) -> str:
    """`expr` with each string emptied: what is in them is no operator."""
    return re.sub(r'"[^"]*"', '""', expr)


def traps(alert: Alert) -> Iterator[str]:
    """What may be wrong with a rule, by the name of the trap."""
    expr = without_texts(alert.expr)
    # What follows `unless` holds an alert back, and does not make it wait.
    held = re.split(r"\nunless", expr)[0]
    if alert.for_s and re.search(r"(?:increase|rate|delta|_over_time)\(", held):
        yield "for beside a window"
    for counted in re.findall(rf"increase\(({SELECTOR})", expr):
        # The daemon's counters and histograms begin with 0 (telemetry/newborn.py). Others need a look at what is new.
        if not counted.startswith("sidecar_") and f"{counted} offset" not in re.sub(r"\[\w+\]", "", expr):
            yield "a counter born at 1"
    for argument in re.findall(r"absent(?:_over_time)?\(([^)]*)\)", expr):
        if not re.fullmatch(SELECTOR, argument):
            yield "absent of a comparison"
    yield from _unmatched(expr)
    for denominator in re.findall(r"/(?! on)(.*)|/ on \(\w+\)(.*)", expr):
        if not re.search(r">=? [1-9]\d*\)$", "".join(denominator).strip()):
            yield "0/0"
    for series in re.findall(SELECTOR, expr):
        fresh = rf"{re.escape(series)}\s+and\s+timestamp\({re.escape(series)}\) > time\(\) - \d+"
        if COME_AND_GO.match(series) and not re.search(fresh, expr):
            yield "a pushed series lives for five minutes"
    if re.search(r"\b(?:top|bottom)k\b", expr):
        yield "topk decides what fires"
    if any("{{" in value for value in alert.labels.values()):
        yield "a label that changes"


def _unmatched(expr: str) -> Iterator[str]:
    """`and`, `unless` and arithmetic match on all labels, where it is not said on which."""
    lines = [line.strip() for line in expr.splitlines()]
    for number, line in enumerate(lines):
        if line in ("and", "unless"):
            # One and the same series on both sides has the same labels on both.
            if lines[number - 1] not in lines[number + 1]:
                yield "no on"
        elif re.match(r"(?:and|unless|[-+/])\s(?!on \(|ignoring \()", line) and lines[number - 1].strip("(") not in (
            f"timestamp({line[2:]})",
        ):
            yield "no on"


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: f"{alert.name}{alert.labels.get('window', '')}")
def test_no_rule_is_in_a_trap(alert: Alert) -> None:
    assert list(traps(alert)) == []


@pytest.mark.parametrize(
    ("trap", "name", "good", "bad"),
    [
        ("a counter born at 1", "TelemetryDropped", " offset 15m", ""),
        ("a counter born at 1", "CommandLost", "(sidecar_commands_lost_total{", "(other_commands_lost_total{"),
        ("absent of a comparison", "Absent", 'absent(up{job=~"sidecar.*"})', 'absent(up{job=~"sidecar.*"} == 1)'),
        ("absent of a comparison", "Absent", 'absent(up{job=~"sidecar.*"})', 'absent(sum(up{job=~"sidecar.*"}))'),
        ("no on", "Absent", "unless on ()\n", "unless\n"),
        ("no on", "TargetDown", "unless on (job, instance)\n", "unless\n"),
        ("no on", "TargetDown", "unless on (job, instance)\nsum", "unless sum"),
        ("no on", "ProducerDeadWithWorkInFlight", "and on (job, instance)\n", "and\n"),
        ("no on", "ErrorBudgetBurn", "and on (job)\n", "and\n"),
        ("no on", "FleetHangRatioHigh", "  + on (job) sum", "  + sum"),
        ("no on", "FleetHangRatioHigh", "/ on (job) (sum", "/ (sum"),
        ("0/0", "FleetHangRatioHigh", " >= 10)", ")"),
        ("0/0", "FleetHangRatioHigh", " >= 10)", " >= 0)"),
        ("a pushed series lives for five minutes", "CommandHung", ") > time() - 60", ") > 0"),
        ("a pushed series lives for five minutes", "CommandSilentTooLong", "\n  and\n", "\n  or\n"),
        ("a pushed series lives for five minutes", "HeartbeatLost", "\n  and\n", "\n  or\n"),
        ("a pushed series lives for five minutes", "FleetHangRatioHigh", ") > time() - 60", ") > 0"),
        ("topk decides what fires", "CommandHung", "max by (", "topk by ("),
    ],
)
def test_a_rule_in_a_trap_is_noticed(trap: str, name: str, good: str, bad: str) -> None:
    alert = next(alert for alert in ALERTS if alert.name == name)
    assert good in alert.expr
    assert trap in traps(dataclasses.replace(alert, expr=alert.expr.replace(good, bad)))


def test_for_beside_a_window_is_noticed() -> None:
    windowed = [alert for alert in ALERTS if "increase(" in alert.expr]
    assert {alert.name for alert in windowed} == {"CommandLost", "TelemetryDropped", "ErrorBudgetBurn"}
    for alert in windowed:
        assert "for beside a window" in traps(dataclasses.replace(alert, for_s=300))


def test_a_label_that_changes_is_noticed() -> None:
    for changing in ("{{ $value }}", "{{ with query `topk(1, up)` }}{{ . | first | value }}{{ end }}"):
        assert "a label that changes" in traps(dataclasses.replace(ALERTS[0], labels={"age": changing}))
