"""What is told of a failure never shows a header's value or the password of an endpoint."""

import pytest

from sidecar.daemon.sink import NullSink
from sidecar.telemetry.answers import Outcome
from sidecar.telemetry.over_http import OverHttp
from sidecar.telemetry.targets import Target


@pytest.mark.parametrize(
    ("endpoint", "headers"),
    [
        ("http://127.0.0.1:1/v1/traces", {"authorization": " SECRET"}),
        ("http://127.0.0.1:1/v1/traces", {"authorization": "SECRET\n"}),
        ("ftp://user:SECRET@127.0.0.1:1/", {}),
        ("http://user:SECRET@:45318/v1/traces", {}),
        ("http://user:SECRET@127.0.0.1:1/v1/traces", {"x": "SECRET"}),
    ],
)
def test_an_error_of_the_library_does_not_show_them(endpoint: str, headers: dict[str, str]) -> None:
    target = Target("http/protobuf", endpoint, 1.0, True, headers=headers)
    answer = OverHttp("traces", target).send(b"", 1.0)
    assert answer.outcome is Outcome.LATER
    assert answer.reason
    assert "SECRET" not in answer.reason


def test_telemetry_that_could_not_be_set_up_is_a_problem_of_the_daemons_status() -> None:
    assert NullSink().status() == {}
    status = NullSink("ValueError; daemon_log has more").status()
    assert status["problem_count"] == 1
    assert status["problems"] == ["telemetry could not be set up: ValueError; daemon_log has more"]
