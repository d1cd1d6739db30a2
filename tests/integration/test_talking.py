"""A command that talks: what is listed of it is fresh long before its heartbeat interval is over, without a beat."""

import os
import signal
import subprocess
import time

import pytest
from supervised import Installation, alive, until
from verdict_watch import watched

from sidecar.core.errors import DaemonUnavailable
from sidecar.daemon import client


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


def test_a_new_daemon_knows_how_old_the_output_is(sidecar: Installation) -> None:
    def listed() -> dict[str, object]:
        try:
            answers = list(client.request(sidecar.socket, "list"))
        except DaemonUnavailable:  # between the two
            return {}
        return next((answer for answer in answers if answer.get("supervisorPid") == child.pid), {})

    flags = ("--heartbeat-interval", "0", "--no-verdicts")
    with sidecar.started("cat", flags=flags, stdin=subprocess.PIPE) as child:
        assert child.stdin is not None
        child.stdin.write(b"a line\n")
        child.stdin.flush()
        until(lambda: listed().get("totalBytes") == 7)
        told_s = time.monotonic()
        killed = int(client.status(sidecar.socket)["pid"])
        os.kill(killed, signal.SIGKILL)
        until(lambda: not alive(killed))
        until(lambda: listed().get("totalBytes") == 7)
        least_ms = (time.monotonic() - told_s) * 1000
        assert int(str(listed()["lastOutputAgeMs"])) >= least_ms - 1
        child.communicate(timeout=60)
