"""The looker of other systems, on real processes of this one: little is seen, and nothing wrong is said."""

import os
import signal
import subprocess
import sys
import time

import pytest

from collectors.observer import observe
from sidecar.core.finding import Verdict
from sidecar.core.verdict import judge

pytest.importorskip("psutil", reason="a dependency only where there is no /proc")

from collectors.portable import PortableLooker


def verdict_of(argv: list[str], *wanted: str, number: int = 0) -> Verdict:
    """The verdict on it, once it is one of `wanted` or a minute has passed. `number`: a signal to send first."""
    process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, start_new_session=True)
    try:
        if number:
            os.kill(process.pid, number)
        end = time.monotonic() + 60
        while time.monotonic() < end:
            verdict = judge(*observe(PortableLooker(process.pid), seconds=0.3))
            if verdict.name in wanted:
                break
        return verdict
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def test_a_loop_below_a_shell_computes() -> None:
    verdict = verdict_of(["sh", "-c", f"{sys.executable} -c 'while 1: pass'; true"], "computing", "cpu_starved")
    assert verdict.progress
    assert verdict.name in ("computing", "cpu_starved")


def test_a_stopped_command_is_stopped() -> None:
    assert verdict_of(["sleep", "60"], "stopped", number=signal.SIGSTOP).name == "stopped"


def test_a_wait_is_unknown_and_says_what_would_help() -> None:
    verdict = verdict_of(["sleep", "60"], "unknown")
    assert (verdict.name, verdict.confidence, verdict.alive) == ("unknown", "unknown", True)
    assert "Linux" in verdict.unseen[0]


def test_a_process_that_is_gone_is_no_hang() -> None:
    process = subprocess.Popen(["true"])
    process.wait()
    assert not judge(*observe(PortableLooker(process.pid), seconds=0.1)).alive
