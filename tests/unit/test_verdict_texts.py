"""Every verdict has its words, in plain sentences; the page of verdicts tells of each."""

from pathlib import Path

import pytest

from sidecar.core import verdict_texts as texts
from sidecar.core.verdict_names import ALL, GROUPS

PAGE = (Path(__file__).parents[2] / "docs" / "verdicts.md").read_text()


def test_every_verdict_and_group_has_words_and_there_are_no_others() -> None:
    assert list(texts.WHAT) == list(ALL)
    assert list(texts.GROUP) == list(GROUPS)


@pytest.mark.parametrize("name", ALL)
def test_the_words_are_sentences_and_the_page_tells_of_it(name: str) -> None:
    first, second = texts.sentences(name, "psql (pid 4711)")
    assert first.startswith("psql (pid 4711) ")
    assert first.endswith(".")
    assert len(first) < 140
    assert second[0].isupper()
    assert second.endswith(".")
    assert f"`{name}`" in PAGE


def test_a_newer_supervisors_verdict_is_said_to_be_unknown_here() -> None:
    first, second = texts.sentences("quantum_wait", "make")
    assert "quantum_wait" in first
    assert second == texts.GROUP["unknown"]
