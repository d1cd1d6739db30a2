"""Many rule files with their tests, in one run of promtool each processor.

promtool says for each file whether it passed, so a hundred mutants cost a few processes.
"""

import json
import os
import re
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from alert_cases import Case
from backends import tool

from dashboards.alerts.files import rules_file
from dashboards.alerts.parameters import Parameters
from dashboards.alerts.rules import Alert

DEFAULTS = Parameters()
TIMEOUT_S = 100


class Suite:
    """Files in a folder. `add` takes rules and what is to be asked of them; `run` gives the failures of each."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files: dict[str, list[str]] = {}

    def add(self, name: str, rules: Iterable[Alert], tests: Sequence[dict[str, Any]]) -> None:
        """`name` is what `run` gives the failures by. Tests of one step go into one file."""
        number = len(self._files)
        (self._folder / f"{number}.rules.yml").write_text(rules_file(rules, DEFAULTS))
        self._files[name] = []
        for step in sorted({test["interval"] for test in tests}):
            path = self._folder / f"{number}.{step}.json"
            # JSON is YAML.
            asked = {
                "rule_files": [f"{number}.rules.yml"],
                "evaluation_interval": step,
                "tests": [test for test in tests if test["interval"] == step],
            }
            path.write_text(json.dumps(asked))
            self._files[name].append(str(path))

    def run(self) -> dict[str, str]:
        """What failed of each name; empty where all passed."""
        promtool = tool("promtool")
        paths = [path for files in self._files.values() for path in files]
        shares = [paths[n :: os.cpu_count() or 1] for n in range(os.cpu_count() or 1)]
        with ThreadPoolExecutor() as pool:
            texts = list(pool.map(lambda share: _run(promtool, share), filter(None, shares)))
        failures = {path: text for each in texts for path, text in each.items()}
        return {name: "".join(failures[path] for path in files) for name, files in self._files.items()}


def _run(promtool: str, paths: list[str]) -> dict[str, str]:
    done = subprocess.run(
        [promtool, "test", "rules", *paths],
        stdout=subprocess.PIPE,
        # What failed is told there, between the files' names.
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=TIMEOUT_S,
    )
    # Each file's part begins with its name; in it is SUCCESS, or FAILED and how.
    parts = re.split(r"^Unit Testing:\s+", done.stdout, flags=re.MULTILINE)[1:]
    found = dict(part.split("\n", 1) for part in parts)
    assert set(found) == set(paths), done.stdout[-3000:]
    return {path: "" if text.strip() == "SUCCESS" else text for path, text in found.items()}


def of_case(case: Case) -> dict[str, Any]:
    url = f"{DEFAULTS.runbook_base}/{case.alert}.md"
    return {
        "name": case.name,
        **_stage(case.series, case.step_s),
        "alert_rule_test": [
            {
                "eval_time": f"{at_s}s",
                "alertname": case.alert,
                "exp_alerts": [
                    {
                        "exp_labels": each.labels,
                        "exp_annotations": {
                            "summary": each.summary,
                            "description": each.description,
                            "runbook_url": url,
                        },
                    }
                    for each in firing
                ],
            }
            for at_s, firing in case.expect
        ],
    }


def of_story(name: str, series: Mapping[str, str], alerts: Iterable[str], until_s: int, step_s: int) -> dict[str, Any]:
    """None of these alerts at any step."""
    return {
        "name": name,
        **_stage(series, step_s),
        "alert_rule_test": [
            {"eval_time": f"{at_s}s", "alertname": alert, "exp_alerts": []}
            for alert in alerts
            for at_s in range(0, until_s + 1, step_s)
        ],
    }


def _stage(series: Mapping[str, str], step_s: int) -> dict[str, Any]:
    stage = [{"series": key, "values": text} for key, text in series.items()]
    return {"interval": f"{step_s}s", "input_series": stage}
