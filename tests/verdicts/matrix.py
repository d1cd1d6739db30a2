"""All scenarios, at each level of what may be read: the figures and the confusion matrices.

python -m tests.verdicts.matrix                 stage everything this machine can, print what was not right, and the
matrices python -m tests.verdicts.matrix -k tcp -k lock  only scenarios with that in their names python -m
tests.verdicts.matrix --check         exit 1 where anything is worse than committed; in CI also where a need is
missing python -m tests.verdicts.matrix --write         commit the result: baseline.json, and its part of
docs/verdicts.md python -m tests.verdicts.matrix --render        write docs/verdicts.md from baseline.json, without
staging
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

from tests.verdicts import score
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


def stage_all(chosen: list[Scenario], users: list[str]) -> tuple[list[Judged], list[str]]:
    """The results, and what could not be staged. Prints what is not right, as it comes in."""
    results: list[Judged] = []
    failures: list[str] = []
    for user in users:
        levels = list(LEVELS) if user == "user" else ["everything"]
        theatre = Theatre()

        def tell(found: Found, user: str = user) -> None:
            if found.error:
                failures.append(f"{user}: {found.scenario.name}: {found.error}")
                print("not staged:", failures[-1], flush=True)
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
    page = PAGE.read_text()
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
    results, failures = stage_all([one for one in chosen if not one.missing()], users)
    fallen = score.worse(results, committed())
    if options.check and fallen:
        # One more try: a passing call can be caught once (a verdict is published when it is found twice in a row).
        print(f"again: {', '.join(sorted({one.scenario for one in fallen}))}")
        again = {one.scenario for one in fallen}
        second, failures_again = stage_all([one for one in chosen if one.name in again], users)
        fallen = [one for one in score.worse(second, committed()) if not one.is_false_alarm] + [
            one for one in fallen if one.is_false_alarm
        ]
        failures += failures_again
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
    if options.check:
        for verdict in fallen:
            right = " or ".join(verdict.right)
            print(f"worse: {verdict.scenario} ({verdict.column}): {verdict.verdict}, right is {right}")
        missing = [one for one in lacking if one.could_be_installed()] if os.environ.get("CI") else []
        return 1 if fallen or failures or missing else 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
