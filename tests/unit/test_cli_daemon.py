"""`sidecar daemon status` in words."""

from typing import Any

import pytest

from sidecar.cli.daemon import _in_words
from sidecar.telemetry.metrics_page import unserved

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
        ({"prometheus_problem": "not served: taken"}, ", not served: taken"),
        ({"problem_count": 1}, ", 1 telemetry problem so far (see --json)"),
        ({"problem_count": 13}, ", 13 telemetry problems so far (see --json)"),
    ],
)
def test_status_says_whether_something_was_not_exported(telemetry: dict[str, Any] | None, more: str) -> None:
    assert _in_words({**ANSWER, "telemetry": telemetry}) == WORDS + more
    assert _in_words(ANSWER) == WORDS


URL = "http://127.0.0.1:9464/metrics"


@pytest.mark.parametrize(
    ("telemetry", "wanted", "text", "mend"),
    [
        ({"signals": {}}, 0, None, None),
        ({"signals": {}, "prometheus": URL}, 9464, None, None),
        ({}, 9464, None, None),  # it could not be set up at all, which is said elsewhere
        ({"signals": {}}, 9464, "the daemon that runs was started without that port", "`sidecar daemon stop`, and"),
        ({"signals": {}, "disabled": True}, 9464, "OTEL_SDK_DISABLED is set", "unset it"),
        ({"prometheus_problem": f"{URL} is not served: Address already in use"}, 0, "already in use", "`ss -ltnp"),
        ({"prometheus_problem": f"{URL} is not served: Permission denied"}, 9464, "Permission denied", "set another"),
    ],
)
def test_why_a_daemon_serves_no_page_of_metrics_and_what_to_do(
    telemetry: dict[str, Any], wanted: int, text: str | None, mend: str | None
) -> None:
    found = unserved(telemetry, wanted)
    if text is None or mend is None:
        assert found is None
    else:
        assert found is not None
        assert found[0].startswith(f"{URL} is not served: ")
        assert text in found[0]
        assert found[1].startswith(mend)
