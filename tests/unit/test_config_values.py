"""The parsers of kinds: what they read, and that nothing but ValueError comes out of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.config_model import OPTIONS
from sidecar.core import frame, values


def test_every_kind_has_a_parser_and_says_what_is_allowed():
    assert set(values.PARSERS) == set(values.ALLOWED)
    assert {option.kind for option in OPTIONS} <= set(values.PARSERS)


@given(st.sampled_from(sorted(values.PARSERS)), st.text(st.characters()))
def test_any_text_is_read_or_refused_with_what_is_allowed(kind, text):
    refusal = None
    try:
        values.PARSERS[kind](text)
    except ValueError as error:
        refusal = str(error)
    assert refusal in (None, values.ALLOWED[kind])


@given(st.lists(st.text(), min_size=3, max_size=3))
def test_three_identifiers_fit_into_a_frame(texts):
    try:
        ids = [values.parse_identifier(text) for text in texts]
    except ValueError:
        return
    assert len(frame.encode(dict(zip("abc", ids, strict=True)))) < 4096


@pytest.mark.parametrize("letter", ["a", '"', "\\", "é", "漢", "\U0001f40d"])
def test_the_longest_identifiers_fit_into_a_frame(letter):
    text = letter * (values.MAX_IDENTIFIER_BYTES // len(letter.encode()))
    assert values.parse_identifier(text) == text
    assert len(frame.encode({"a": text, "b": text, "c": text})) < 4096
    with pytest.raises(ValueError):
        values.parse_identifier(text + letter)


@given(st.dictionaries(st.text("abc-!_09", min_size=1), st.text(st.characters(exclude_categories=["C", "Z"]))))
def test_headers_of_a_table_come_out_as_they_went_in(headers):
    assert values.parse_headers(values.as_text("headers", headers)) == headers


@pytest.mark.parametrize("text", ["a=%", "a=%4", "a=%zz", "a=%0A", "a=%ff", "=b", "a b=c", "a"])
def test_broken_headers(text):
    with pytest.raises(ValueError):
        values.parse_headers(text)


def test_words_for_booleans():
    assert [values.parse_bool(word) for word in ("true", "YES", "on", "1")] == [True] * 4
    assert [values.parse_bool(word) for word in ("false", "No", "off", "0")] == [False] * 4
    assert values.parse_pty("auto") is None


def test_zero_means_none_or_never():
    assert values.parse_timeout("0") is None
    assert values.parse_heartbeat("0") == 0


@pytest.mark.parametrize(
    ("number", "plural", "text"), [(1, "", "1 byte"), (0, "", "0 bytes"), (2, "bytes wait", "2 bytes wait")]
)
def test_one_is_no_plural(number, plural, text):
    assert values.counted(number, "byte", plural) == text


@given(st.text(st.characters()))
def test_what_is_shown_is_one_printable_line(text):
    assert values.shown(text).isprintable()
    assert len(values.shown(text)) <= 60 * 10 + 5
