"""The alerts' files are what the code makes, and each alert says what somebody at three in the morning needs."""

import dataclasses
import json
import subprocess
import sys
from pathlib import Path

import pytest

from dashboards.alerts.__main__ import ALERTMANAGER, HERE, RULES, WEBHOOK, parameters
from dashboards.alerts.files import alertmanager_file, inhibitions, rules_file
from dashboards.alerts.parameters import Parameters, duration
from dashboards.alerts.rules import Alert, alerts

P = Parameters()
ALERTS = alerts(P)
OF_COMMANDS = {"CommandHung", "CommandSilentTooLong", "CommandAwaitingInput"}
ABOUT_ALERTING = {"Absent", "Watchdog"}


def test_the_files_are_what_the_code_makes() -> None:
    again = "stale; `python -m dashboards.alerts --write` makes it"
    assert (HERE / RULES).read_text(encoding="utf-8") == rules_file(ALERTS, P), again
    assert (HERE / ALERTMANAGER).read_text(encoding="utf-8") == alertmanager_file(P, WEBHOOK), again


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: f"{alert.name}{alert.labels.get('window', '')}")
def test_an_alert_says_which_machine_what_and_how_long(alert: Alert) -> None:
    text = alert.summary + alert.description
    assert alert.severity in ("page", "ticket", "none")
    assert alert.summary
    assert alert.description
    if alert.name in ABOUT_ALERTING:
        return
    assert "instance" in text or "$labels.job" in text
    if alert.name in OF_COMMANDS:
        assert "$labels.trace_id" in text
        assert "humanizeDuration" in alert.summary
        assert "host_name" in alert.summary
    # What changes is in no label: it would be another alert, which begins to wait anew.
    assert not any("$value" in value or "{{" in value for value in alert.labels.values())


def test_each_alert_has_a_severity_and_a_runbook() -> None:
    parts = (HERE / RULES).read_text(encoding="utf-8").split("      - alert: ")[1:]
    for part, alert in zip(parts, ALERTS, strict=True):
        name, *lines = part.splitlines()
        assert name == alert.name
        assert f'          severity: "{alert.severity}"' in lines
        assert f"          runbook_url: {json.dumps(f'{P.runbook_base}/{alert.name}.md')}" in lines
        assert (f"        for: {duration(alert.for_s)}" in lines) == bool(alert.for_s)


def test_what_is_inhibited_resolves_before_what_inhibits_it() -> None:
    """The order of the rules is that in which Alertmanager hears of them."""
    order = [alert.name for alert in ALERTS]
    for rule in inhibitions(P):
        source, targets = rule["source_matchers"][0], rule["target_matchers"][0]
        for target in targets.split('"')[1].split("|"):
            assert order.index(target) < order.index(source.split('"')[1])


def test_what_is_inhibited_exists() -> None:
    names = {alert.name for alert in ALERTS}
    pairs: dict[tuple[str, str], list[list[str]]] = {}
    for rule in inhibitions(P):
        source, target = rule["source_matchers"][0], rule["target_matchers"][0]
        assert source.split('"')[1] in names
        # What is not on the alert is equal on both: but for these three each label has to be there.
        demanded = [label for label in rule["equal"] if label not in ("job", "instance", "trace_id")]
        for matchers in (rule["source_matchers"], rule["target_matchers"]):
            assert matchers[1:] == [f'{label}!=""' for label in demanded]
        for each in target.split('"')[1].split("|"):
            assert each in names
            pairs.setdefault((source.split('"')[1], each), []).append(rule["equal"])
    assert pairs["CommandHung", "CommandSilentTooLong"] == [["job", "instance", "trace_id"]]
    # Of a daemon that is scraped itself; of all that are behind a Collector.
    assert pairs["ProducerDeadWithWorkInFlight", "TargetDown"] == [["job", "instance"], ["collector"]]


@pytest.mark.parametrize("path", ["docs/collector.md", "deploy/compose/prometheus.yaml"])
def test_a_scrape_job_says_by_way_of_which_collector_a_series_came(path: str) -> None:
    text = (HERE.parents[1] / path).read_text(encoding="utf-8")
    assert "- {source_labels: [__address__], target_label: collector}\n" in text


def test_other_parameters_are_taken(tmp_path: Path) -> None:
    words = ["--write", str(tmp_path), "--webhook", "http://127.0.0.1:1/", "--set", "hung_age_s=7"]
    words += ["--set", 'selector=job="agents"', "--set", "prefix=Sidecar"]
    subprocess.run([sys.executable, "-m", "dashboards.alerts", *words], cwd=HERE.parents[1], check=True)
    rules = (tmp_path / RULES).read_text(encoding="utf-8")
    assert "- alert: SidecarCommandHung\n" in rules
    assert ") > 7\n" in rules
    assert ") > 180\n" not in rules
    assert 'job=~"sidecar.*"' not in rules
    manager = (tmp_path / ALERTMANAGER).read_text(encoding="utf-8")
    assert "http://127.0.0.1:1/" in manager
    assert "SidecarCommandHung" in manager


@pytest.mark.parametrize(
    ("objective", "factor", "told"),
    [
        (0.98, 14.4, ("28.8 %", "2 %", "more than 14.4 times as fast as")),
        (0.98, 1.0, ("2 %", "2 %", "faster than")),
        (0.9995, 14.4, ("0.72 %", "0.05 %", "more than 14.4 times as fast as")),
        (0.99999, 0.5, ("0.0005 %", "0.001 %", "more than 0.5 times as fast as")),
    ],
)
def test_the_error_budget_is_told_exactly_whatever_it_is(
    objective: float, factor: float, told: tuple[str, str, str]
) -> None:
    other = dataclasses.replace(P, objective=objective, burn_windows=((factor, 3600, 300, "page"),))
    (alert,) = (alert for alert in alerts(other) if alert.name == "ErrorBudgetBurn")
    share, budget, pace = told
    assert alert.description.startswith(
        f"More than {share} of those that ended, in the last 5m too: the error budget ({budget}) goes {pace} it may. "
    )


@pytest.mark.parametrize("setting", ["no_such=1", "hung_age_s=soon", "burn_windows=1"])
def test_a_wrong_parameter_is_told(setting: str) -> None:
    with pytest.raises(ValueError, match=setting.split("=")[0]):
        parameters([setting])


def test_durations() -> None:
    assert [duration(s) for s in (0, 90, 300, 3600, 259_200)] == ["0s", "90s", "5m", "1h", "3d"]
    assert dataclasses.asdict(parameters([])) == dataclasses.asdict(P)
