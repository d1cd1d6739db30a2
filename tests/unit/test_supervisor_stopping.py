"""One stop: its deadlines, what asking again does, its receipt; and the daemon's requests as lines."""

import json
import os
from pathlib import Path

import pytest
from test_supervisor_rules import FakeChild, options

from sidecar.core.output import OutputStats
from sidecar.core.receipt import is_receipt
from sidecar.core.trace_context import begin_span
from sidecar.supervisor.reports import Reports, asleep_ns
from sidecar.supervisor.requests import Requests, text_of
from sidecar.supervisor.stopping import AGAIN_NS, Stop, sender_words
from sidecar.supervisor.tree import in_words

MS = 1_000_000
START_NS = 1_000 * MS


def begun(child: FakeChild, kill_after_ns: int = 5_000 * MS) -> Stop:
    return Stop(
        child,  # type: ignore[arg-type]
        "signal",
        "why",
        started_ns=0,
        now_ns=START_NS,
        kill_after_ns=kill_after_ns,
        but_group=False,
    )


def test_term_then_kill_then_given_up_and_the_receipt_tells() -> None:
    child = FakeChild()
    stop = begun(child)
    assert child.told == ["terminate"]
    assert stop.deadline_ns == START_NS + 5_000 * MS
    stop.tick(stop.deadline_ns - 1)
    assert child.told == ["terminate"]
    stop.tick(START_NS + 5_001 * MS)
    assert child.told == ["terminate", "kill"]
    assert stop.deadline_ns is not None
    assert not stop.given_up(stop.deadline_ns - 1)
    assert stop.given_up(stop.deadline_ns)
    stop.tick(stop.deadline_ns)
    assert child.told == ["terminate", "kill"], "once"
    receipt = stop.receipt()
    assert is_receipt(receipt)
    assert receipt == {
        "askedBy": "signal",
        "evidence": "why",
        "atMs": 1000,
        "sent": [
            {"signal": "SIGTERM", "atMs": 1000, "processes": 1},
            {"signal": "SIGKILL", "atMs": 6001, "processes": 1},
        ],
        "survivorCount": 0,
    }


def test_asked_again_at_once_is_the_same_request_and_later_it_kills() -> None:
    child = FakeChild()
    stop = begun(child)
    assert not stop.again(START_NS + AGAIN_NS - 1)
    assert child.told == ["terminate"]
    assert stop.again(START_NS + AGAIN_NS)
    assert child.told == ["terminate", "kill"]
    assert not stop.again(START_NS + 2 * AGAIN_NS), "nothing is left to be asked for"


def test_who_sent_a_signal(tmp_path: Path) -> None:
    assert sender_words("SIGTERM", None) == sender_words("SIGTERM", 0) == "SIGTERM"
    assert sender_words("SIGTERM", 4711, str(tmp_path)) == "SIGTERM from pid 4711"
    (tmp_path / "4711").mkdir()
    (tmp_path / "4711" / "comm").write_bytes(b"no\xffde\n")
    assert sender_words("SIGTERM", 4711, str(tmp_path)) == "SIGTERM from pid 4711 (no\ufffdde)"


@pytest.mark.parametrize(("state", "words"), [("D", "7 d)d (D, uninterruptible)"), ("S", "7 d)d (S)")])
def test_a_survivor_in_words(tmp_path: Path, state: str, words: str) -> None:
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "comm").write_text("d)d\n")
    (tmp_path / "7" / "stat").write_text(f"7 (d)d) {state} 1 7 7 0 -1")
    assert in_words(7, str(tmp_path)) == words
    assert in_words(8, str(tmp_path)) == "8 ? (X)"


def test_requests_come_in_pieces_and_what_is_none_is_skipped() -> None:
    requests = Requests("c")
    line = json.dumps({"request": "cancel", "commandId": "c", "evidence": "x"}).encode() + b"\n"
    assert requests.feed(line[:7]) == []
    assert requests.feed(line[7:] + b"no json\n" + line.replace(b'"c"', b'"d"') + b"[]\n" + line[:3]) == [
        {"request": "cancel", "commandId": "c", "evidence": "x"}
    ]
    assert requests.feed(b"x" * 10_000) == []
    assert requests.feed(line) == [json.loads(line)], "a line that does not end is forgotten"


def test_text_of_a_request() -> None:
    assert text_of({"a": "b"}, "a") == "b"
    assert text_of({"a": 1}, "a") is None
    assert text_of({}, "a") is None
    assert text_of({"a": "\ud800"}, "a") == "\ufffd" * 3
    assert os.fsencode(text_of({"a": "é"}, "a") or "") == "é".encode()


@pytest.mark.parametrize(("slept_ms", "told"), [(0, None), (999, None), (3_600_000, 3_600_000)])
def test_a_machine_that_slept_meanwhile_is_told(slept_ms: int, told: int | None) -> None:
    """No clock of ours runs while the machine sleeps, so only this says that it did."""
    asleep = [5 * MS]
    context = begin_span(None, None, bytes(range(24)))
    reports = Reports(
        options(0, None, None), context, io="pipe", started_ns=0, unix_ms=1, clock_asleep_ns=lambda: asleep[0]
    )
    asleep[0] += slept_ms * MS
    assert reports.settled("exited", OutputStats(0), 0, MS, {})["suspendedMs"] == told


def test_the_clock_of_the_machines_sleep_stands_still_while_it_is_awake() -> None:
    before = asleep_ns()
    assert abs(asleep_ns() - before) < 1000 * MS
