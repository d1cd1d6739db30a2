"""The receipt of a stop: what it holds, and the guard in front of it."""

import json
from typing import Any

import pytest

from sidecar.core import frame as wire
from sidecar.core import receipt
from sidecar.core.errors import FrameError

GOOD: dict[str, Any] = {
    "askedBy": "signal",
    "evidence": "SIGTERM from pid 1 (init)",
    "atMs": 5,
    "sent": [{"signal": "SIGTERM", "atMs": 5, "processes": 3}],
    "survivorCount": 0,
}


def test_what_is_filled_in_is_a_receipt_and_goes_over_the_wire() -> None:
    made = receipt.Receipt("timeout", None, 12)
    made.sent("SIGTERM", 12, 2)
    made.sent("SIGKILL", 17, 1)
    made.survivors = [f"{pid} dd (D, uninterruptible)" for pid in range(20)]
    told = made.as_json()
    assert receipt.is_receipt(told)
    assert "evidence" not in told
    assert told["survivorCount"] == 20
    assert len(told["survivors"]) == receipt.MAX_SURVIVORS_NAMED  # type: ignore[arg-type]
    words = list(receipt.sent_in_words(told))
    assert words == ["SIGTERM to 2 processes after 12 ms", "SIGKILL to 1 process after 17 ms"]


def test_it_is_bounded_and_the_last_signal_stays() -> None:
    made = receipt.Receipt("cancel", "x" * 10_000, 0)
    for number in range(30):
        made.sent(f"SIG{number}", number, 1)
    made.survivors = ["y" * 1000] * 30
    told = made.as_json()
    assert receipt.is_receipt(told)
    assert told["sent"][-1]["signal"] == "SIG29"  # type: ignore[index, call-overload]
    assert len(json.dumps(told)) < 3000


def test_whatever_a_process_calls_itself_is_safe_to_show_and_has_room() -> None:
    made = receipt.Receipt("cancel", "\x1b[2J\n" + "\U0001f600" * 10_000, 0)
    made.survivors = ["1 \x1b[1m\udcff (D, uninterruptible)"] * 30
    told = made.as_json()
    assert receipt.is_receipt(told)
    assert str(told["evidence"]).isprintable()
    assert all(str(text).isprintable() for text in told["survivors"])  # type: ignore[union-attr]
    assert len(wire.encode({"stop": told})) < 2500


@pytest.mark.parametrize(
    "change",
    [
        {"askedBy": None},
        {"askedBy": 1},
        {"atMs": -1},
        {"atMs": True},
        {"survivorCount": "0"},
        {"survivors": ["a", 1]},
        {"survivors": ["a"] * 9},
        {"evidence": "\ud800"},
        {"evidence": "x" * 600},
        {"sent": {}},
        {"sent": [{"signal": "SIGTERM", "atMs": 5}]},
        {"sent": [{"signal": "SIGTERM", "atMs": 5, "processes": -1}]},
        {"sent": [{"signal": "SIGTERM", "atMs": 5, "processes": 1, "output": "secret"}]},
        {"output": "secret"},
    ],
)
def test_what_is_none(change: dict[str, Any]) -> None:
    assert receipt.is_receipt(GOOD)
    assert not receipt.is_receipt({**GOOD, **change})
    frame = {
        **dict.fromkeys(wire._REQUIRED[wire.SETTLED], 0),
        "v": 1,
        "type": wire.SETTLED,
        "commandId": "c",
        "seq": 1,
        "reason": "timeout",
    }
    assert wire.parse(json.dumps({**frame, "stop": GOOD}).encode()) is not None
    with pytest.raises(FrameError):
        wire.parse(json.dumps({**frame, "stop": {**GOOD, **change}}).encode())
