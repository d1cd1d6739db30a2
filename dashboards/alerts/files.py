"""The files for Prometheus and Alertmanager, as text. YAML of one fixed shape, so no library is needed to write it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from dashboards.alerts.parameters import duration
from dashboards.alerts.rules import NONE, PAGE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dashboards.alerts.parameters import Parameters
    from dashboards.alerts.rules import Alert

_MADE = "# Made by `python -m dashboards.alerts --write`; another selector, thresholds: see its --help.\n"


def rules_file(alerts: Iterable[Alert], p: Parameters) -> str:
    """A file for `rule_files` of Prometheus."""
    lines = ["groups:", "  - name: sidecar", "    rules:"]
    for alert in alerts:
        labels = {"severity": alert.severity, **alert.labels}
        annotations = {
            "summary": alert.summary,
            "description": alert.description,
            "runbook_url": f"{p.runbook_base}/{alert.name}.md",
        }
        lines.append(f"      - alert: {p.prefix}{alert.name}")
        lines.append("        expr: |-")
        lines += [f"          {line}" for line in alert.expr.splitlines()]
        if alert.for_s:
            lines.append(f"        for: {duration(alert.for_s)}")
        for name, values in (("labels", labels), ("annotations", annotations)):
            lines.append(f"        {name}:")
            # A JSON string is a YAML string.
            lines += [f"          {key}: {json.dumps(value)}" for key, value in values.items()]
    return _MADE + "\n".join(lines) + "\n"


def alertmanager_file(p: Parameters, webhook: str) -> str:
    """A configuration of Alertmanager: one webhook for all, and what silences what. Its `inhibit_rules` are what to
    take over into a configuration of one's own."""
    config = {
        "route": {
            "receiver": "webhook",
            "group_by": ["alertname", "job"],
            "group_wait": "30s",
            "group_interval": "5m",
            "repeat_interval": "4h",
            "routes": [
                {
                    "matchers": [f'severity="{PAGE}"'],
                    "receiver": "webhook",
                    "group_wait": "10s",
                    "repeat_interval": "1h",
                },
                {"matchers": [f'severity="{NONE}"'], "receiver": "webhook", "repeat_interval": "5m"},
            ],
        },
        "receivers": [{"name": "webhook", "webhook_configs": [{"url": webhook, "send_resolved": True}]}],
        "inhibit_rules": inhibitions(p),
    }
    return _MADE + "# JSON is YAML.\n" + json.dumps(config, indent=2) + "\n"


def inhibitions(p: Parameters) -> list[dict[str, list[str]]]:
    """What says the same again, only worse: hung over silent, of one command; a dead producer over all of its host, and
    over the target that its series come from: its own page, or a Collector (whose address they bear, `job` and
    `instance` being the daemon's)."""
    return [
        _silences(p, "CommandHung", ["CommandSilentTooLong"], ["job", "instance", "trace_id"]),
        _silences(p, "CommandAwaitingInput", ["CommandSilentTooLong"], ["job", "instance", "trace_id"]),
        _silences(p, "DaemonLoopStuck", ["HeartbeatLost", "CommandSilentTooLong"], ["job", "instance"]),
        _silences(p, "ProducerDeadWithWorkInFlight", ["TargetDown", "HeartbeatLost"], ["job", "instance"]),
        # To Alertmanager a label that is on neither is equal: it has to be there.
        _silences(p, "ProducerDeadWithWorkInFlight", ["TargetDown"], ["collector"], ['collector!=""']),
    ]


def _silences(
    p: Parameters, source: str, targets: list[str], equal: list[str], both: Iterable[str] = ()
) -> dict[str, list[str]]:
    names = "|".join(p.prefix + target for target in targets)
    return {
        "source_matchers": [f'alertname="{p.prefix}{source}"', *both],
        "target_matchers": [f'alertname=~"{names}"', *both],
        "equal": equal,
    }
