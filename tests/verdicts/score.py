"""From verdicts to figures: right, unknown, wrong; the confusion matrix; what got worse. Pure.

Right: the verdict is (one of) the scenario's. Unknown: it is `unknown` or `internal_wait` where something else was
right: it says that it cannot tell. Wrong: anything else.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sidecar.core.verdict_names import ALL, UNKNOWN, group_of

COLUMNS = {
    "root: everything": "root, everything readable",
    "user: everything": "unprivileged user, everything readable",
    "user: no syscall": "no system calls, no memory (as under Yama 2)",
    "user: descriptors only": "descriptors only (as under gVisor)",
    "user: nothing": "nothing of the process (as of a set-user-id program)",
}
"""Each level of what may be read, with what it is called in the documentation."""

RIGHT, HONEST, WRONG = "right", "unknown", "wrong"
_ORDER = (RIGHT, HONEST, WRONG)


@dataclass(frozen=True)
class Judged:
    """One verdict beside its label. `healthy`: no look at the scenario may say that it may be hung."""

    column: str
    scenario: str
    right: tuple[str, ...]
    verdict: str
    healthy: bool

    @property
    def grade(self) -> str:
        if self.verdict in self.right:
            return RIGHT
        return HONEST if self.verdict in UNKNOWN else WRONG

    @property
    def is_false_alarm(self) -> bool:
        return self.healthy and group_of(self.verdict) == "may_be_hung"


@dataclass(frozen=True)
class Figures:
    right: int
    unknown: int
    wrong: int

    @property
    def total(self) -> int:
        return self.right + self.unknown + self.wrong


def figures(results: Iterable[Judged], column: str) -> Figures:
    grades = Counter(one.grade for one in results if one.column == column)
    return Figures(grades[RIGHT], grades[HONEST], grades[WRONG])


def to_json(results: Iterable[Judged]) -> str:
    """The committed form: a line a scenario, with its verdicts in the order of COLUMNS (null: not staged)."""
    said: dict[str, dict[str, str]] = {}
    for one in results:
        said.setdefault(one.scenario, {})[one.column] = one.verdict
    lines = [
        f"  {json.dumps(name)}: {json.dumps([verdicts.get(column) for column in COLUMNS])}"
        for name, verdicts in sorted(said.items())
    ]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def from_json(text: str, labels: Mapping[str, tuple[tuple[str, ...], bool]]) -> list[Judged]:
    """`labels`: for each scenario its right verdicts, and whether it is healthy. Scenarios that are no more are left
    out."""
    return [
        Judged(column, name, labels[name][0], verdict, labels[name][1])
        for name, verdicts in json.loads(text).items()
        if name in labels
        for column, verdict in zip(COLUMNS, verdicts, strict=True)
        if verdict is not None
    ]


def worse(results: Iterable[Judged], baseline: Iterable[Judged]) -> list[Judged]:
    """Those that are graded lower than in the baseline (a new scenario has to be right), and every false alarm."""
    grades = {(one.column, one.scenario): one.grade for one in baseline}
    return [
        one
        for one in results
        if one.is_false_alarm or _ORDER.index(one.grade) > _ORDER.index(grades.get((one.column, one.scenario), RIGHT))
    ]


def summary(results: Iterable[Judged]) -> str:
    """The figures as a Markdown table."""
    results = list(results)
    lines = ["| what can be read | right | unknown | wrong | false alarms | of |", "|---|---|---|---|---|---|"]
    for column, title in COLUMNS.items():
        sums = figures(results, column)
        if sums.total:
            alarms = sum(one.is_false_alarm for one in results if one.column == column)
            lines.append(
                f"| {title} | {sums.right} ({sums.right / sums.total:.1%}) | {sums.unknown} | "
                f"{sums.wrong} ({sums.wrong / sums.total:.1%}) | {alarms} | {sums.total} |"
            )
    return "\n".join(lines)


def exceptions(results: Iterable[Judged]) -> str:
    """What was wrong, and what was unknown though everything was readable, as a Markdown table."""
    lines = ["| what can be read | scenario | said | right |", "|---|---|---|---|"]
    order = list(COLUMNS)
    for one in sorted(results, key=lambda one: (order.index(one.column), one.scenario)):
        if one.grade == WRONG or (one.grade == HONEST and one.column.endswith(": everything")):
            right = " or ".join(f"`{name}`" for name in one.right)
            lines.append(f"| {COLUMNS[one.column]} | `{one.scenario}` | `{one.verdict}` | {right} |")
    return "\n".join(lines) if len(lines) > 2 else "None."


def confusion(results: Iterable[Judged], column: str) -> str:
    """Rows: what was right; columns: what was said, by number. Where several verdicts are right and one was said,
    that one is the row."""
    counts: Counter[tuple[str, str]] = Counter()
    for one in results:
        if one.column == column:
            counts[(one.verdict if one.grade == RIGHT else one.right[0], one.verdict)] += 1
    rows = [name for name in ALL if any(row == name for row, _ in counts)]
    said = [name for name in ALL if any(verdict == name for _, verdict in counts)]
    numbers = {name: ALL.index(name) + 1 for name in ALL}
    width = max((len(name) for name in rows), default=0)
    lines = [f"{'':{width + 3}} " + " ".join(f"{numbers[name]:>3}" for name in said)]
    for row in rows:
        cells = " ".join(f"{counts[(row, name)] or '.':>3}" for name in said)
        lines.append(f"{numbers[row]:>2} {row:{width}} {cells}")
    missed = [name for name in said if name not in rows]
    lines += [f"{numbers[name]:>2} {name:{width}} (said only)" for name in missed]
    return "\n".join(lines)
