"""What docs/operating.md says of rules for a Prometheus that scrapes once a minute: tried, and that it is needed."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from alert_cases import command, host, series
from backends import ROOT, tool

from dashboards.alerts.__main__ import parameters
from dashboards.alerts.files import rules_file
from dashboards.alerts.parameters import Parameters
from dashboards.alerts.rules import alerts

pytestmark = pytest.mark.e2e

PAGE = (ROOT / "docs" / "operating.md").read_text(encoding="utf-8")
ASKED = re.search(r"`python -m dashboards\.alerts (--set fresh_s=\d+ --set dead_age_s=\d+) --write`", PAGE)
EVALUATED_S = 5


def failures(folder: Path, chosen: Parameters) -> str:
    """Of a hung command whose daemon is scraped once a minute, once in vain; what it tells is up to 10 s old."""
    loop = series("sidecar_daemon_loop_timestamp_seconds", **host())
    hung = series("sidecar_suspect_output_age_seconds", verdict="frozen", **command("python"))
    active = series("sidecar_commands_active", family="python", state="running", **host())
    told = {hung: "200+60x7", loop: "-10+60x2 stale 230+60x5", active: "1x2 stale 1x5"}
    firing = 'ALERTS{{alertname="{}",alertstate="firing"}}'
    dead, held = firing.format("ProducerDeadWithWorkInFlight"), firing.format("CommandHung")
    asked: list[dict[str, Any]] = [
        {"expr": f"count_over_time({dead}[8m])", "eval_time": "8m", "exp_samples": []},
        # From its first minute on it never stopped: each evaluation of four minutes, both ends.
        {
            "expr": f"sum(count_over_time({held}[4m]))",
            "eval_time": "6m30s",
            "exp_samples": [{"labels": "{}", "value": 240 // EVALUATED_S + 1}],
        },
    ]
    (folder / "rules.yml").write_text(rules_file(alerts(chosen), chosen))
    test = {
        "interval": "60s",
        "input_series": [{"series": name, "values": values} for name, values in told.items()],
        "promql_expr_test": asked,
    }
    # JSON is YAML.
    text = {"rule_files": ["rules.yml"], "evaluation_interval": f"{EVALUATED_S}s", "tests": [test]}
    (folder / "test.yml").write_text(json.dumps(text))
    done = subprocess.run(
        [tool("promtool"), "test", "rules", str(folder / "test.yml")], capture_output=True, text=True, check=False
    )
    return "" if done.returncode == 0 else done.stdout + done.stderr


def test_with_what_the_page_says_nothing_flaps(tmp_path: Path) -> None:
    assert ASKED is not None
    assert failures(tmp_path, parameters(re.findall(r"--set (\S+)", ASKED[1]))) == ""


def test_without_it_a_missed_scrape_pages(tmp_path: Path) -> None:
    assert "ProducerDeadWithWorkInFlight" in failures(tmp_path, Parameters())
