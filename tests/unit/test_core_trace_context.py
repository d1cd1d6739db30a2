"""TRACEPARENT and TRACESTATE in and out, by the vectors of the W3C specification."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.trace import TraceState

from sidecar.core.trace_context import begin_span, format_traceparent, is_tracestate, parse_traceparent

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
GOOD = f"00-{TRACE}-{SPAN}-01"
ENTROPY = bytes(range(1, 25))
LONGEST = f"a={'v' * 253},b={'v' * 254}"


@pytest.mark.parametrize(
    ("value", "flags"),
    [
        (GOOD, 1),
        (f"00-{TRACE}-{SPAN}-00", 0),
        (f"00-{TRACE}-{SPAN}-ff", 255),
        (f"  {GOOD}\t", 1),
        (f"cc-{TRACE}-{SPAN}-01", 1),
        (f"cc-{TRACE}-{SPAN}-01-what-the-future-will-be-like", 1),
        (f"01-{TRACE}-{SPAN}-09-", 9),
    ],
)
def test_a_well_formed_header_is_read(value: str, flags: int) -> None:
    assert parse_traceparent(value) == (TRACE, SPAN, flags)


@pytest.mark.parametrize(
    "value",
    [
        "",
        "00",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE}-{SPAN}-01-",
        f"00-{TRACE}-{SPAN}-01-what-the-future-will-be-like",
        f"cc-{TRACE}-{SPAN}-01.what-the-future-will-not-be-like",
        f"cc-{TRACE}-{SPAN}-0100",
        f"00-{TRACE}-{SPAN}-1",
        f"00-{TRACE}-{SPAN}",
        f"00-{TRACE[:-1]}-{SPAN}-01",
        f"00-{TRACE}0-{SPAN}-01",
        f"00-{TRACE[:-1]}.-{SPAN}-01",
        f"00-{TRACE}-{SPAN[:-1]}g-01",
        f"0x-{TRACE}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-0\u0661",
        f"00_{TRACE}-{SPAN}-01",
        f"00-{TRACE}_{SPAN}-01",
        f"00-{TRACE}-{SPAN}_01",
    ],
)
def test_a_malformed_header_is_none(value: str) -> None:
    assert parse_traceparent(value) is None


@given(st.text(max_size=70) | st.text(alphabet="0123456789abcdef-", min_size=50, max_size=60))
def test_any_text_is_read_or_none(value: str) -> None:
    parsed = parse_traceparent(value)
    if parsed is not None:
        assert parse_traceparent(format_traceparent(*parsed)) == parsed


@given(st.binary(min_size=16, max_size=16), st.binary(min_size=8, max_size=8), st.integers(0, 255))
def test_what_is_formatted_reads_back(trace: bytes, span: bytes, flags: int) -> None:
    expected = (trace.hex(), span.hex(), flags) if any(trace) and any(span) else None
    assert parse_traceparent(format_traceparent(trace.hex(), span.hex(), flags)) == expected


@pytest.mark.parametrize(("given_flags", "kept"), [("00", 0), ("01", 1), ("ff", 3), ("02", 2), ("03", 3), ("04", 0)])
def test_a_child_span_stays_in_its_parents_trace(given_flags: str, kept: int) -> None:
    context = begin_span(f"00-{TRACE}-{SPAN}-{given_flags}", "vendor=1", ENTROPY)
    assert (context.trace_id, context.parent_span_id, context.flags) == (TRACE, SPAN, kept)
    assert context.span_id == ENTROPY[16:].hex()
    assert context.trace_state == "vendor=1"
    assert context.traceparent == f"00-{TRACE}-{ENTROPY[16:].hex()}-{kept:02x}"


@pytest.mark.parametrize("parent", [None, "", "rubbish", f"ff-{TRACE}-{SPAN}-01"])
def test_without_a_good_parent_a_new_sampled_trace_begins_and_the_tracestate_is_dropped(parent: str | None) -> None:
    context = begin_span(parent, "vendor=1", ENTROPY)
    assert context.trace_id == ENTROPY[:16].hex()
    assert (context.parent_span_id, context.flags, context.trace_state) == (None, 3, None)


@pytest.mark.parametrize(
    ("given_state", "kept"),
    [
        *((state, None) for state in (None, "", "  ", ",", "rubbish", "=1", "a=", "A=1", "a=1,a=2", "a;b=1", "a=b=c")),
        *((state, None) for state in ("a=\x1b[2J", "a=é", "a=1\n", "a b=1", "@a=1", "a=1, b", LONGEST + "x")),
        *((state, None) for state in (",".join(f"k{n}=v" for n in range(33)), "k" * 257 + "=1", "k=" + "v" * 257)),
        *((state, state) for state in ("a=1,b=2", "a=1 ,\tb=2", "a=1,,b=2", "t61rcwkgmze@sys=0")),
        *((state, state) for state in ("a= x y;z:~", "0_-*/=1")),
        *((state, state) for state in (LONGEST, ",".join(f"k{n}=v" for n in range(32)), "k" * 256 + "=1")),
    ],
)
def test_the_tracestate_is_passed_on_as_it_is_or_not_at_all(given_state: str | None, kept: str | None) -> None:
    assert begin_span(GOOD, given_state, ENTROPY).trace_state == kept


LEVEL_1_KEY = re.compile("[a-z][a-z0-9_*/-]*(@[a-z][a-z0-9_*/-]{0,13})?=")
"""Level 2 has any @ in a key; the SDK reads keys as level 1 has them."""


@given(st.text(max_size=40) | st.text(alphabet="ab@=, \t1", max_size=20))
def test_what_is_passed_on_the_telemetry_can_read_too(state: str) -> None:
    members = [member.strip(" \t") for member in state.split(",") if member.strip(" \t")]
    if is_tracestate(state) and all(LEVEL_1_KEY.match(member) for member in members):
        assert len(TraceState.from_header([state])) == len(members)


def test_entropy_of_zeros_still_makes_valid_ids() -> None:
    assert parse_traceparent(begin_span(None, None, bytes(24)).traceparent) is not None
