"""Each alert has its page, each page its alert, and what the pages tell to type is there to be typed."""

import re
import shlex
from pathlib import Path

import click
import pytest

from dashboards.alerts.__main__ import parameters
from dashboards.alerts.parameters import Parameters, duration
from dashboards.alerts.rules import alerts
from sidecar.cli.main import root
from sidecar.config import BY_NAME
from sidecar.telemetry.conventions.metrics import METRICS

RUNBOOKS = Path(__file__).parents[2] / "dashboards" / "runbooks"
PAGES = {path.stem: path.read_text(encoding="utf-8") for path in RUNBOOKS.glob("*.md") if path.stem != "README"}
HEADINGS = ["Meaning", "Impact", "Diagnosis", "Mitigation"]


def test_each_alert_has_a_page_and_each_page_an_alert() -> None:
    assert set(PAGES) == {alert.name for alert in alerts(Parameters())}
    listed = re.findall(r"\((\w+)\.md\)", (RUNBOOKS / "README.md").read_text(encoding="utf-8"))
    assert sorted(listed) == sorted(PAGES)


@pytest.mark.parametrize("name", sorted(PAGES))
def test_a_page_says_all_four_things(name: str) -> None:
    parts = re.split(r"^## (.*)$", PAGES[name], flags=re.MULTILINE)
    assert parts[0] == f"# {name}\n\n"
    assert parts[1::2] == HEADINGS
    assert all(len(text.strip()) > 10 for text in parts[2::2])
    assert "```" in parts[2 * HEADINGS.index("Diagnosis") + 2]  # exact commands


def test_the_page_of_a_burning_budget_asks_for_the_window_of_its_alert() -> None:
    """Which is one of three: it is named, and what is to be typed has no other in its place."""
    page = PAGES["ErrorBudgetBurn"]
    windows = [duration(long_s) for _, long_s, _, _ in Parameters().burn_windows]
    assert all(f"`{window}`" in page for window in windows)
    assert f"{windows[0]}, {windows[1]} or {windows[2]}" in page
    assert set(re.findall(r"\[(\w+)\]\)", page)) == {"WINDOW"}


@pytest.mark.parametrize("name", [name for name, page in sorted(PAGES.items()) if "trace id in the alert" in page])
def test_an_alert_with_a_trace_leads_to_its_command_in_one_step(name: str) -> None:
    """At three in the morning, on 80 columns: no id is to be found elsewhere first."""
    diagnosis = PAGES[name].partition("## Diagnosis")[2]
    assert diagnosis.partition("```sh\n")[2].startswith("sidecar explain TRACE\n")
    assert "`sidecar history --filter TRACE`" in diagnosis


def told_commands() -> list[str]:
    """What begins with `sidecar` in a block of shell, or in a line."""
    found = set()
    for text in PAGES.values():
        for block in re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
            found |= {line.partition(" | ")[0] for line in block.splitlines()}
        found |= set(re.findall(r"`([^`\n]+)`", text))
    return sorted(words for words in found if words.startswith("sidecar "))


@pytest.mark.parametrize("line", told_commands())
def test_a_command_of_the_pages_is_one(line: str) -> None:
    command: click.Command = root
    words = shlex.split(line)[1:]
    context = click.Context(command)
    while isinstance(command, click.Group):
        verb = words.pop(0)
        found = command.get_command(context, verb)
        assert found is not None, f"no verb {verb}"
        command = found
    flags = {flag for parameter in command.params for flag in (*parameter.opts, *parameter.secondary_opts)}
    assert [word for word in words if word.startswith("-") and word.partition("=")[0] not in flags] == []


def test_metrics_and_options_of_the_pages_exist() -> None:
    known = {name.replace(".", "_") for name in METRICS}
    text = "\n".join(PAGES.values())
    for name in re.findall(r"\bsidecar_[a-z_]+", text):
        base = re.sub(r"_(seconds|total|bytes)$", "", re.sub(r"_(count|bucket|sum)$", "", name))
        assert {base, name} & known or name.startswith("sidecar__"), name
    for name in ("prometheus_port", "daemon_idle_timeout", "spool_max_bytes", "otlp_headers", "spool", "daemon_log"):
        assert name in text
        assert name in BY_NAME
    for name, value in re.findall(r"--set '?(\w+)=(\d+|job=\S+)", text):
        parameters([f"{name}={value}"])
