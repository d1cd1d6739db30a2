"""Durations as people write them, and what is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.core.duration import ALLOWED, format_duration, parse_duration_ns

MS, S, M, H = 1_000_000, 1_000_000_000, 60_000_000_000, 3_600_000_000_000


@pytest.mark.parametrize(
    ("text", "duration_ns"),
    [
        ("0", 0),
        ("0s", 0),
        ("5", 5 * S),
        ("0.5", S // 2),
        (".5", S // 2),
        ("2.", 2 * S),
        ("90s", 90 * S),
        ("2m", 2 * M),
        ("500ms", 500 * MS),
        ("1h30m", H + 30 * M),
        ("1h0m5s", H + 5 * S),
        ("0h5m", 5 * M),
        ("1.5s", 1500 * MS),
        ("1m500ms", M + 500 * MS),
        ("  3s ", 3 * S),
        ("8784h", 8784 * H),
    ],
)
def test_what_people_write(text: str, duration_ns: int) -> None:
    assert parse_duration_ns(text) == duration_ns


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "s", ".", ".s", "-1", "+1", "1d", "1 s", "1h 30m", "1e3", "1,5s", "1..5s", "1.5.5s", "5S", "1\u00b5s",
        "\u0665s", "inf", "nan", "0x10", "8785h", "9" * 21, "1sx",
        # A bare number is seconds only where it stands alone.
        "0s5", "1h30", "0m0",
        # Units go from the largest to the smallest, each at most once.
        "1s1h", "1h1h", "1ms1s", "0s0s", "1m2h3s",
    ],
)  # fmt: skip
def test_what_is_refused_with_what_would_be_allowed(text: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse_duration_ns(text)
    assert str(caught.value) == ALLOWED


@given(st.text(alphabet="0123456789.hms -x", max_size=12))
def test_any_text_is_a_number_that_is_not_negative_or_a_value_error(text: str) -> None:
    try:
        duration_ns = parse_duration_ns(text)
    except ValueError:
        return
    assert 0 <= duration_ns <= 8784 * H


@given(st.integers(0, 8784 * H))
def test_what_is_formatted_reads_back_to_the_millisecond(duration_ns: int) -> None:
    assert parse_duration_ns(format_duration(duration_ns)) == duration_ns - duration_ns % MS


@pytest.mark.parametrize(
    ("duration_ns", "text"),
    [
        (0, "0s"),
        (500 * MS, "500ms"),
        (90 * S, "1m30s"),
        (H, "1h"),
        (H + S, "1h1s"),
        (90 * S + 500 * MS, "90500ms"),
        (MS - 1, "0ms"),
    ],
)
def test_how_it_is_formatted(duration_ns: int, text: str) -> None:
    assert format_duration(duration_ns) == text
