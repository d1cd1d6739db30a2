"""All scenarios, at each level of what may be read: the figures and the confusion matrices.

python -m tests.verdicts.matrix                 stage everything this machine can, print what was not right, and the
matrices python -m tests.verdicts.matrix -k tcp -k lock  only scenarios with that in their names python -m
tests.verdicts.matrix --check         exit 1 where anything is worse than committed; in CI also where a need is
missing python -m tests.verdicts.matrix --write         commit the result: baseline.json, and its part of
docs/verdicts.md python -m tests.verdicts.matrix --render        write docs/verdicts.md from baseline.json and
sidecar/core/advice.py, without staging
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterable
from pathlib import Path

from tests.verdicts import score
from tests.verdicts.advice_page import with_advice
from tests.verdicts.engine import LEVELS
from tests.verdicts.rehearse import Found, end_properly_when_terminated, rehearse
from tests.verdicts.scenario import Scenario, scenarios
from tests.verdicts.score import Judged
from tests.verdicts.theatre import Theatre

BASELINE = Path(__file__).parent / "baseline.json"
PAGE = Path(__file__).parents[2] / "docs" / "verdicts.md"
START, END = "<!-- generated: python -m tests.verdicts.matrix --write -->", "<!-- end of generated -->"


def labels() -> dict[str, tuple[tuple[str, ...], bool]]:
    return {one.name: (one.right, one.healthy) for one in scenarios()}


def committed() -> list[Judged]:
    """The results that are committed, beside today's labels."""
    return score.from_json(BASELINE.read_text(), labels()) if BASELINE.exists() else []


def stage_all(chosen: Iterable[Scenario], users: list[str]) -> tuple[list[Judged], dict[str, str]]:
    """The results, and for what could not be staged why. Prints what is not right, as it comes in."""
    results: list[Judged] = []
    failures: dict[str, str] = {}
    for user in users:
        levels = list(LEVELS) if user == "user" else ["everything"]
        theatre = Theatre()

        def tell(found: Found, user: str = user) -> None:
            if found.error:
                failures[found.scenario.name] = f"{user}: {found.error}"
                print(f"not staged: {found.scenario.name}: {user}: {found.error}", flush=True)
            for one in found.judged(user):
                results.append(one)
                if one.grade == score.WRONG or (one.grade == score.HONEST and one.column.endswith("everything")):
                    print(explain(one, found), flush=True)

        try:
            rehearse(theatre, chosen, levels, unprivileged=user == "user" and os.geteuid() == 0, tell=tell)
        finally:
            theatre.close()
    return results, failures


def explain(one: Judged, found: Found) -> str:
    level = one.column.split(": ")[1]
    verdict = found.verdicts[level]
    return (
        f"{one.grade}: {one.scenario} ({one.column}): {one.verdict} ({verdict['confidence']}), right is "
        f"{' or '.join(one.right)}\n" + "".join(f"    {fact}\n" for fact in verdict["evidence"])
    )


def generated(results: list[Judged]) -> str:
    """The generated part of the page."""
    healthy = {one.scenario for one in results if one.healthy}
    every = {one.scenario for one in results}
    parts = [
        START,
        "",
        f"{len(every)} scenarios, {len(healthy)} of them healthy. Each verdict is drawn from one pair of looks.",
        "",
        score.summary(results),
        "",
        "What was wrong; and what was unknown though everything was readable:",
        "",
        score.exceptions(results),
    ]
    for column in score.COLUMNS:
        if score.figures(results, column).total:
            parts += ["", f"**{score.COLUMNS[column]}.**", "", "```", score.confusion(results, column), "```"]
    return "\n".join([*parts, "", END])


def render(results: list[Judged]) -> None:
    page = with_advice(PAGE.read_text())
    before, _, rest = page.partition(START)
    _, _, after = rest.partition(END)
    PAGE.write_text(before + generated(results) + after)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-k", action="append", default=[], metavar="PART")
    parser.add_argument(
        "--user", action="append", choices=["root", "user"], help="whose passes; both by default where root"
    )
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--render", action="store_true")
    options = parser.parse_args()
    end_properly_when_terminated()
    if options.render:
        render(committed())
        return 0
    chosen = [one for one in scenarios() if not options.k or any(part in one.name for part in options.k)]
    lacking = [one for one in chosen if one.missing()]
    for one in lacking:
        print(f"left out: {one.name} needs {', '.join(one.missing())}")
    users = options.user or (["root", "user"] if os.geteuid() == 0 else ["user"])
    started = time.monotonic()
    staged = [one for one in chosen if not one.missing()]
    results, failures = stage_all(staged, users)
    problems = check(staged, users, results, failures) if options.check else []
    print()
    for column in score.COLUMNS:
        if score.figures(results, column).total:
            print(f"{score.COLUMNS[column]}\n{score.confusion(results, column)}\n")
    print(score.summary(results))
    print(f"{time.monotonic() - started:.0f} s")
    if options.write:
        kept = {(one.column, one.scenario): one for one in committed()}
        kept.update({(one.column, one.scenario): one for one in results})
        BASELINE.write_text(score.to_json(kept.values()))
        render(committed())
    if options.check and os.environ.get("CI"):
        problems += [f"{one.name} could not be staged" for one in lacking if one.could_be_installed()]
    for problem in problems:
        print(f"failed: {problem}")
    return 1 if problems else 0


def check(staged: list[Scenario], users: list[str], results: list[Judged], failures: dict[str, str]) -> list[str]:
    """What is worse than committed, in words. One that fell gets one more try: a single look can catch a passing call,
    which is why a verdict is only published once it was found twice in a row. A false alarm gets none."""
    baseline = committed()
    fallen = score.worse(results, baseline)
    alarms = [one for one in fallen if one.is_false_alarm]
    again = {one.scenario for one in fallen} | set(failures)
    problems = [f"false alarm: {_words(one)}" for one in alarms]
    if again:
        print(f"once more: {', '.join(sorted(again))}", flush=True)
        second, failures = stage_all([one for one in staged if one.name in again], users)
        twice = {(one.column, one.scenario) for one in fallen}
        for one in score.worse(second, baseline):
            if one.is_false_alarm or (one.column, one.scenario) in twice:
                problems.append(f"worse than committed: {_words(one)}")
    return problems + [f"not staged: {name}: {why}" for name, why in failures.items()]


def _words(one: Judged) -> str:
    return f"{one.scenario} ({one.column}): {one.verdict}, right is {' or '.join(one.right)}"


if __name__ == "__main__":
    sys.exit(main())
