"""What docs/operating.md calculates on paper comes out as it says, from the figures that it gives as measured."""

# ruff: noqa: RUF001, RUF002 - the page multiplies as people do

import ast
import operator
import re
from pathlib import Path

import pytest

from sidecar.telemetry.families import DEFAULT_FAMILIES

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "operating.md").read_text(encoding="utf-8")
FLEET = PAGE.partition("## A fleet of 5,000 hosts\n")[2].partition("\n## ")[0]
OF = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv}
UNITS = {"B": 1.0, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12, "ms": 1e-3, "s": 1.0, "million": 1e6}
ROUNDED = 0.05
"""Two digits of each figure are on the page, and the next row goes on with those."""


def rows(text: str) -> list[tuple[str, str, str]]:
    return re.findall(r"^\| ([^|]+) \| ([\d,.]+ [^|]*[×/][^|]*) \| ([\d,.]+[^|]*) \|$", text, re.MULTILINE)


def value(text: str) -> float:
    """Of arithmetic with ×, thousands as 1,000, and units behind numbers."""
    plain = re.sub(r"(?<=\d),(?=\d{3})", "", text).replace("×", "*")
    plain = re.sub(r"(\d) (KB|MB|GB|TB|B|ms|s)\b", lambda found: f"{found[1]}*{UNITS[found[2]]!r}", plain)
    return worked_out(ast.parse(plain, mode="eval").body)


def worked_out(node: ast.expr) -> float:
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return float(node.value)
    assert isinstance(node, ast.BinOp), ast.dump(node)
    result: float = OF[type(node.op)](worked_out(node.left), worked_out(node.right))
    return result


def said(text: str) -> float:
    number, _, unit = text.replace(",", "").partition(" ")
    return float(number) * UNITS.get(unit.split()[0] if unit else "", 1.0)


def test_there_are_as_many_rows_as_are_checked() -> None:
    assert len(rows(FLEET)) == 20


@pytest.mark.parametrize(("what", "calculation", "result"), rows(FLEET), ids=[row[0] for row in rows(FLEET)])
def test_a_row_comes_out_as_it_says(what: str, calculation: str, result: str) -> None:
    assert value(calculation) == pytest.approx(said(result), rel=ROUNDED), what


def test_a_slip_is_noticed() -> None:
    assert value("2,500 × (43 + 4 × 20 + 33 × 5) / 2") == 360_000
    assert value("2,500 × 3.2 ms / 30 + 2 × 7.5 s / 30") == pytest.approx(0.767, rel=0.01)
    assert said("1.2 million") == 1.2e6
    assert value("0.9 MB × 86,400 × 14") != pytest.approx(said("1.2 TB"), rel=ROUNDED)


def test_the_calculations_begin_with_what_was_measured() -> None:
    ended, silent = (
        [float(each.replace(",", "")) for each in re.findall(r"\| ([\d,]+) (?=\|)", line + " |")]
        for line in re.findall(r"^\| command (?:that ends at once|silent for).*\|$", PAGE, re.MULTILINE)
    )
    spans, events, traces, logs = (after - before for before, after in zip(ended, silent, strict=True))
    calculated = {what: calculation for what, calculation, _ in rows(FLEET)}
    assert value(calculated["spans"]) / 830 == ended[0] + 0.02 * spans
    assert value(calculated["log events"]) / 830 == ended[1] + 0.02 * events
    assert value(calculated["traces"]) / 830 == pytest.approx(ended[2] + 0.02 * traces, rel=ROUNDED)
    assert value(calculated["logs"]) / 830 == pytest.approx(ended[3] + 0.02 * logs, rel=ROUNDED)


def test_the_series_of_a_daemon_are_told_by_one_formula() -> None:
    (line,) = re.findall(r"^\| series in Prometheus \| (.*) \|$", PAGE, re.MULTILINE)
    asked = r"(\d+), (\d+) for each of the (\d+) families .*, and (\d+) for each .* use: (\d+) with one, (\d+) with ten"
    found = re.match(asked, line)
    assert found is not None
    fixed, of_listed, listed, of_used, one, ten = map(int, found.groups())
    assert listed == len(DEFAULT_FAMILIES) + 1  # and `other`
    for used, total in ((1, one), (10, ten)):
        assert fixed + of_listed * listed + of_used * used == pytest.approx(total, rel=0.02)
    assert f"2,500 × ({fixed} + {of_listed} × {listed} + {of_used} × 5)" in FLEET
