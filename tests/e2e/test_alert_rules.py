"""The alerting rules in promtool, with series that are told; and whether these tests would notice a wrong rule."""

import dataclasses
import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import alert_cases
import alert_cases_quiet
import alert_cases_telemetry
import pytest
from promtool_rules import DEFAULTS, Suite, of_case, of_story

from dashboards.alerts.rules import Alert, alerts

pytestmark = pytest.mark.e2e

CASES = [*alert_cases.CASES, *alert_cases_telemetry.CASES]
RULES = alerts(DEFAULTS)
NAMES = sorted({rule.name for rule in RULES})
STORY_S, STORY_STEP_S = 1800, 30

# What an operator may be taken for. `<` for `>` and the like are too easy to notice to be asked.
OPERATORS = {
    " > ": (" >= ", " == "),
    " >= ": (" > ",),
    " == ": (" != ", " >= "),
    "and": ("unless", "or"),
    "unless": ("and", "or"),
    "or": ("and", "unless"),
}
OPERATOR = re.compile(r" (?:>|>=|==) |\b(?:and|unless|or)\b(?= on| ignoring|\n)")
# A threshold that is no parameter.
ZERO = re.compile(r"(?<=[>=] )0\b")
# What is a time or a size, and may be off by one step of the clock; and what may not even be off by one.
BY_ONE = ("hung_age_s", "awaiting_age_s", "silent_age_s", "heartbeat_late_s", "stuck_age_s")
BY_ONE = (*BY_ONE, "backlog_records", "fleet_least", "burn_least_bad")


def test_each_alert_says_so_when_it_should_and_only_then(tmp_path: Path) -> None:
    suite = Suite(tmp_path)
    for name in NAMES:
        for case in _cases(name):
            rules = [rule for rule in RULES if not case.window or rule.labels.get("window") == case.window]
            suite.add(f"{name}: {case.name}", rules, [of_case(case)])
    failures = suite.run()
    assert "\n".join(f"{name}\n{text}" for name, text in failures.items() if text) == ""


def test_each_alert_has_cases_in_which_it_fires_and_in_which_it_does_not() -> None:
    for name in NAMES:
        seen = [bool(firing) for case in _cases(name) for _, firing in case.expect]
        assert set(seen) == ({True} if name == "Watchdog" else {True, False}), name
        # It goes again, in one case at least.
        counts = [[len(firing) for _, firing in case.expect] for case in _cases(name)]
        assert name == "Watchdog" or any(
            then < before for each in counts for before, then in itertools.pairwise(each)
        ), name


def test_what_is_well_raises_nothing(tmp_path: Path) -> None:
    suite = Suite(tmp_path)
    names = [name for name in NAMES if name != "Watchdog"]
    for story, series in alert_cases_quiet.STORIES.items():
        suite.add(story, RULES, [of_story(story, series, names, STORY_S, STORY_STEP_S)])
    failures = suite.run()
    assert "\n".join(f"{name}\n{text}" for name, text in failures.items() if text) == ""


def test_a_wrong_rule_would_be_noticed(tmp_path: Path) -> None:
    """Each threshold, window and `for` a little off, each operator another: the tests above fail of every one."""
    suite = Suite(tmp_path)
    count = 0
    for rule in RULES:
        for what, mutant in _mutants(rule):
            window = rule.labels.get("window", "")
            tests = [of_case(case) for case in _cases(rule.name) if case.window == window]
            suite.add(f"{rule.name} {window}: {what}", [mutant], tests)
            count += 1
    noticed = suite.run()
    print(f"{count} mutants")
    assert count > 150
    # Noticed as an alert that is wrong: neither as one that cannot be read, nor as one that cannot be evaluated.
    broken = [name for name, text in noticed.items() if text and "exp:" not in text]
    assert broken == []
    missed = [name for name, text in noticed.items() if not text]
    assert not missed, "\n".join(missed)


def _cases(name: str) -> list[alert_cases.Case]:
    return [case for case in CASES if case.alert == name]


def _mutants(rule: Alert) -> Iterator[tuple[str, Alert]]:
    for found in OPERATOR.finditer(rule.expr):
        for other in OPERATORS[found.group()]:
            yield f"{found.group().strip()} at {found.start()}: {other.strip()}", _with(rule, found, other)
    for found in ZERO.finditer(rule.expr):
        yield f"0 at {found.start()}: 2", _with(rule, found, "2")
    for name, value in dataclasses.asdict(DEFAULTS).items():
        if isinstance(value, int | float):
            off = (value - 1, value + 1) if name in BY_ONE else (type(value)(value * 0.95), type(value)(value * 1.05))
            if name.endswith(("window_s", "remembered_s", "fresh_s", "for_s")):
                off = (value // 2, value * 2)
            for other in off:
                yield from _from(rule, f"{name} {other}", dataclasses.replace(DEFAULTS, **{name: other}))
    for number, (factor, long_s, short_s, severity) in enumerate(DEFAULTS.burn_windows):
        for other in (
            (factor * 0.95, long_s, short_s, severity),
            (factor * 1.05, long_s, short_s, severity),
            (factor, long_s // 2, short_s, severity),
            (factor, long_s * 2, short_s, severity),
            (factor, long_s, short_s // 2, severity),
            (factor, long_s, short_s * 2, severity),
        ):
            windows = (*DEFAULTS.burn_windows[:number], other, *DEFAULTS.burn_windows[number + 1 :])
            yield from _from(rule, f"burn {other}", dataclasses.replace(DEFAULTS, burn_windows=windows))


def _with(rule: Alert, found: re.Match[str], text: str) -> Alert:
    return dataclasses.replace(rule, expr=rule.expr[: found.start()] + text + rule.expr[found.end() :])


def _from(rule: Alert, what: str, changed: Any) -> Iterator[tuple[str, Alert]]:
    """The rule with other parameters, if it says another thing then. Its texts stay: they are not what is asked."""
    other = alerts(changed)[RULES.index(rule)]
    mutant = dataclasses.replace(rule, expr=other.expr, for_s=other.for_s)
    if mutant != rule:
        yield what, mutant
