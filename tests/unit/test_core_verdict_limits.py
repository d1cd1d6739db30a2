"""The rules of --on-verdict: how they are written, when they are met, and that each is met once."""

import pytest

from sidecar.core.receipt import MAX_EVIDENCE_CHARS
from sidecar.core.values import as_text, parse_verdict_limits
from sidecar.core.verdict_limits import VerdictLimits, rule_text, words_of

S = 1_000_000_000


def test_how_they_are_written() -> None:
    rules = parse_verdict_limits("awaiting_input:60s=cancel, may_be_hung:10m=report")
    assert rules == (("awaiting_input", 60 * S, "cancel"), ("may_be_hung", 600 * S, "report"))
    assert [rule_text(rule) for rule in rules] == ["awaiting_input:1m=cancel", "may_be_hung:10m=report"]
    assert parse_verdict_limits("") == parse_verdict_limits(" ") == (), "none, whatever a file or a variable says"
    assert as_text("verdict_limits", ["stopped:5s=cancel", "frozen:5s=report"]) == "stopped:5s=cancel,frozen:5s=report"


@pytest.mark.parametrize(
    "bad",
    [
        *("prompt:60s=cancel", "stopped=cancel", "stopped:60s", "stopped:x=cancel", "stopped:1s=kill"),
        *(",", "stopped:1s=cancel,", ",stopped:1s=cancel", "stopped:1s=cancel,,frozen:1s=report"),
    ],
)
def test_what_is_refused(bad: str) -> None:
    with pytest.raises(ValueError, match="like awaiting_input:60s=cancel"):
        parse_verdict_limits(bad)


def test_a_rule_names_a_verdict_or_its_group_and_is_met_once_a_stretch() -> None:
    limits = VerdictLimits(parse_verdict_limits("needs_someone:10s=cancel,awaiting_input:5s=report,sleeping:1s=report"))
    assert limits.met("awaiting_input", 0, 4 * S) == []
    assert limits.next_ns("awaiting_input", 0) == 5 * S
    assert limits.met("awaiting_input", 0, 5 * S) == [("awaiting_input", 5 * S, "report")]
    assert limits.next_ns("awaiting_input", 0) == 10 * S
    assert limits.met("awaiting_input", 0, 9 * S) == []
    assert limits.met("awaiting_input", 0, 10 * S) == [("needs_someone", 10 * S, "cancel")]
    assert limits.next_ns("awaiting_input", 0) is None
    assert limits.met("awaiting_input", 20 * S, 40 * S)[-1][2] == "cancel", "anew in another stretch, the stop last"
    assert limits.met("network_wait", 0, 10_000 * S) == []
    assert limits.next_ns("network_wait", 0) is None


def test_the_words_fit_into_a_receipt_and_hide_nothing() -> None:
    (rule,) = parse_verdict_limits("fifo_wait:60s=cancel")
    words = words_of(rule, "fifo_wait", 61 * S, ("opens \x1b[2J" + "x" * 2000,))
    assert words.startswith("fifo_wait for 61 s (fifo_wait:1m=cancel): opens \\x1b[2Jxxx")
    assert len(words) <= MAX_EVIDENCE_CHARS
