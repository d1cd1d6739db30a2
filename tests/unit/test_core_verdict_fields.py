"""A verdict on the wire: what it says; that it fits, whatever a process calls itself, and nothing in it can hide."""

import json

from daemon_support import beat, started
from hypothesis import given
from hypothesis import strategies as st

from sidecar.core import frame as wire
from sidecar.core.finding import MEASURED, Leaf, Verdict
from sidecar.core.verdict_fields import ADVICE_KEYS, KEYS, fields_of, is_leaf, safe_text

NAMES = st.text(max_size=400) | st.sampled_from(
    ["a\nb", "x) S 1", "\x1b[2J", "\u202egnp.exe", "\udc80\udcff", "\U0001d518" * 300, '"\\' * 300]
)


def test_what_a_verdict_says() -> None:
    verdict = Verdict(
        "awaiting_input", MEASURED, Leaf(4711, "bash"), ("reads stdin",), True, False, "Answer it.", ("mem: be root",)
    )
    assert fields_of(verdict, 61_234_567_890) == {
        "verdict": "awaiting_input",
        "group": "needs_someone",
        "confidence": "measured",
        "sinceMs": 61_234,
        "alive": True,
        "progress": False,
        "leaf": {"pid": 4711, "program": "bash"},
        "evidence": ["reads stdin"],
        "hint": "Answer it.",
        "unseen": ["mem: be root"],
    }
    assert set(fields_of(Verdict("unknown", "unknown"), 0)) == {*KEYS, *ADVICE_KEYS} - {
        "leaf",
        "evidence",
        "hint",
        "unseen",
    }


@given(program=NAMES, evidence=st.lists(NAMES, max_size=40), hint=NAMES, unseen=st.lists(NAMES, max_size=40))
def test_whatever_a_process_calls_itself_the_frame_fits_and_is_shown_as_it_is(
    program: str, evidence: list[str], hint: str, unseen: list[str]
) -> None:
    verdict = Verdict("computing", MEASURED, Leaf(1, program), tuple(evidence), True, True, hint, tuple(unseen))
    fields = fields_of(verdict, 0)
    frame = wire.parse(wire.encode({**beat(), **fields}))
    assert frame is not None
    shown = [fields["leaf"]["program"], *fields.get("evidence", []), fields.get("hint", ""), *fields.get("unseen", [])]
    assert all(text.isprintable() for text in shown)
    ids = {"toolCallId": "\U0001f600" * 64, "sessionId": "\U0001f600" * 64, "toolName": "\U0001f600" * 64}
    native = wire.native({**started(), **ids}, frame)
    assert len(json.dumps(native)) < wire.MAX_FRAME_BYTES, "escaped in the widest way, and with the longest ids"
    assert native["_meta"]["sidecar"]["verdict"] == "computing"
    assert not {"hint", "unseen"} & set(native["_meta"]["sidecar"])


def test_a_long_text_is_cut_and_says_so() -> None:
    assert safe_text("x" * 1000, 10) == "xxxxxxx..."
    assert safe_text("short", 10) == "short"
    assert safe_text("\U0001f600" * 3, 40) == "\U0001f600" * 3


def test_a_leaf_is_a_pid_and_a_program() -> None:
    assert is_leaf({"pid": 1, "program": "init"})
    for bad in (
        {},
        {"pid": 1},
        {"pid": "1", "program": "x"},
        {"pid": True, "program": "x"},
        {"pid": -1, "program": "x"},
    ):
        assert not is_leaf(bad)
    assert not is_leaf({"pid": 1, "program": "\ud800"})
    assert not is_leaf({"pid": 1, "program": "x", "commandLine": "secret"})


def test_a_hint_that_has_no_room_is_left_out_and_not_cut() -> None:
    for hint, kept in (("`kill 7`" * 50, True), ("`kill 7`" * 80, False)):
        assert ("hint" in fields_of(Verdict("stopped", MEASURED, hint=hint), 0)) == kept
