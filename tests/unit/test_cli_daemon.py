"""`sidecar daemon status` in words."""

from typing import Any

import pytest

from sidecar.cli.daemon import _in_words

ANSWER: dict[str, Any] = {
    "pid": 7,
    "version": "1.2",
    "uptimeMs": 61_000,
    "socket": "/s",
    "commands": 1,
    "subscribers": 0,
    "framesReceived": 2,
    "connectionsRefused": 0,
}
WORDS = "running, pid 7, version 1.2, up 1m1s, on /s: 1 command, 0 subscribers, 2 frames, 0 connections refused"


@pytest.mark.parametrize(
    ("telemetry", "more"),
    [
        (None, ""),
        ({"problem_count": 0}, ""),
        ({"problem_count": 1}, ", 1 telemetry problem so far (see --json)"),
        ({"problem_count": 13}, ", 13 telemetry problems so far (see --json)"),
    ],
)
def test_status_says_whether_something_was_not_exported(telemetry: dict[str, int] | None, more: str) -> None:
    assert _in_words({**ANSWER, "telemetry": telemetry}) == WORDS + more
    assert _in_words(ANSWER) == WORDS
