"""Which process a pid means."""

import os
import subprocess
import sys

import pytest

from sidecar.daemon import identity

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="it is read from /proc")


def test_a_process_is_known_by_its_start() -> None:
    ticks = identity.started_ticks(os.getpid())
    assert ticks is not None
    assert identity.stopping() == {"type": "stopping", "pid": os.getpid(), "startedTicks": ticks}
    assert identity.is_alive(os.getpid(), ticks)
    assert not identity.is_alive(os.getpid(), ticks + 1)  # another of the same number
    assert identity.is_alive(os.getpid(), None)


def test_one_that_has_ended_is_gone_waited_for_or_not() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        ticks = identity.started_ticks(process.pid)
        assert identity.is_alive(process.pid, ticks)
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert not identity.is_alive(process.pid, ticks)
    assert not identity.is_alive(process.pid, ticks)
    assert not identity.is_alive(process.pid, None)
