"""A command that talks: what is listed of it is fresh long before its heartbeat interval is over, without a beat."""

import pytest
from supervised import Installation, until
from verdict_watch import watched


@pytest.mark.parametrize("interval", ["1h", "0"])
def test_the_daemon_knows_what_was_written_and_subscribers_are_told_nothing(
    sidecar: Installation, interval: str
) -> None:
    flags = ("--heartbeat-interval", interval, "--no-verdicts")  # which else say how old the output is
    with watched(sidecar, "cat", flags=flags, stdin=-1) as command:
        stdin, stdout = command.process.stdin, command.process.stdout
        assert stdin is not None
        assert stdout is not None
        for number in range(1, 4):
            stdin.write(b"a line\n")
            stdin.flush()
            assert stdout.readline() == b"a line\n"
            until(lambda so_far=number: command.listed()["totalBytes"] == 7 * so_far)
        listed = command.listed()
        assert (listed["totalLines"], listed["hasOutput"], listed["silent"]) == (3, True, False)
        assert listed["lastOutputAgeMs"] < listed["elapsedMs"]
        stdin.close()
        settled = command.until(lambda frame: frame.get("type") == "command_settled")
    assert settled["heartbeatCount"] == 0
    assert [frame["type"] for frame in command.frames] == ["snapshot", "command_started", "command_settled"]
