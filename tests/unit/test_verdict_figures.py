"""The committed verdicts over the staged scenarios: what is promised of them, and that the page shows them."""

from __future__ import annotations

import pytest

from sidecar.core.verdict_names import MAY_BE_HUNG
from tests.verdicts import matrix, score
from tests.verdicts.scenario import scenarios
from tests.verdicts.score import Judged


def _judged(verdict: str, *right: str, column: str = "root: everything", healthy: bool = True) -> Judged:
    return Judged(column, "one", right, verdict, healthy)


@pytest.mark.parametrize("column", ["root: everything", "user: everything"])
def test_with_everything_readable_98_of_100_are_right(column: str) -> None:
    figures = score.figures(matrix.committed(), column)
    assert figures.total >= 200
    assert figures.right >= 0.98 * figures.total


@pytest.mark.parametrize("column", [column for column in score.COLUMNS if not column.endswith("everything")])
def test_with_less_to_read_at_most_1_of_100_is_wrong(column: str) -> None:
    figures = score.figures(matrix.committed(), column)
    assert figures.total >= 200
    assert figures.wrong <= 0.01 * figures.total


def test_no_healthy_scenario_is_said_to_be_hung() -> None:
    assert not [one for one in matrix.committed() if one.is_false_alarm]


def test_every_scenario_has_a_committed_verdict() -> None:
    judged = {one.scenario for one in matrix.committed()}
    assert judged == {one.name for one in scenarios()}


def test_the_page_shows_the_committed_verdicts() -> None:
    assert matrix.generated(matrix.committed()) in matrix.PAGE.read_text()


def test_what_is_unknown_is_not_wrong() -> None:
    assert _judged("sleeping", "sleeping").grade == score.RIGHT
    assert _judged("unknown", "sleeping").grade == score.HONEST
    assert _judged("internal_wait", "sleeping").grade == score.HONEST
    assert _judged("unknown", "unknown").grade == score.RIGHT
    assert _judged("polling", "sleeping").grade == score.WRONG


def test_a_lower_grade_is_worse_and_a_higher_one_is_not() -> None:
    right, honest, wrong = (_judged(verdict, "sleeping") for verdict in ("sleeping", "unknown", "polling"))
    assert score.worse([honest], [right]) == [honest]
    assert score.worse([wrong], [honest]) == [wrong]
    assert not score.worse([right, honest, wrong], [wrong])


def test_a_scenario_without_a_committed_verdict_has_to_be_right() -> None:
    assert score.worse([_judged("unknown", "sleeping")], [])
    assert not score.worse([_judged("sleeping", "sleeping")], [])


@pytest.mark.parametrize("verdict", MAY_BE_HUNG)
def test_a_false_alarm_is_worse_whatever_is_committed(verdict: str) -> None:
    alarm = _judged(verdict, "sleeping")
    assert alarm.is_false_alarm
    assert score.worse([alarm], [alarm]) == [alarm]
    assert not _judged(verdict, verdict, healthy=False).is_false_alarm


def test_what_is_committed_is_read_back_beside_todays_labels() -> None:
    written = score.to_json([_judged("polling", "sleeping")])
    assert score.from_json(written, {"one": (("sleeping",), True)}) == [_judged("polling", "sleeping")]
    assert score.from_json(written, {}) == []


def test_the_confusion_matrix_has_a_row_for_what_was_right_and_a_column_for_what_was_said() -> None:
    results = [
        _judged("sleeping", "sleeping"),
        _judged("polling", "sleeping"),
        _judged("polling", "sleeping", "polling"),
    ]
    rows = score.confusion(results, "root: everything").splitlines()
    assert rows[0].split() == ["7", "8"]
    assert rows[1].split() == ["7", "sleeping", "1", "1"]
    assert rows[2].split() == ["8", "polling", ".", "1"]
