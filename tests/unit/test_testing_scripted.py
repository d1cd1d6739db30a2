"""The scripted command plays a supervisor's part, by the wire's rules; the test aids need no test framework."""

import subprocess
import sys

import pytest

from sidecar.core.frame import is_shell_progress
from sidecar.testing import FakeClock
from sidecar.testing.scripted import ScriptedCommand


def test_a_life() -> None:
    clock = FakeClock()
    script = ScriptedCommand(clock, "make", timeoutMs=60_000)
    with pytest.raises(RuntimeError, match="not started"):
        _ = script.command
    script.start()
    clock.advance(10)
    beat = script.beat("sleeping", ["asleep for 1 h"])
    assert is_shell_progress(beat["shellProgress"])
    assert beat["shellProgress"] == {"type": "shell_progress", "elapsedMs": 10_000, "timeoutMs": 60_000}
    clock.advance(1)
    script.write(100, 2)
    clock.advance(10)
    script.beat()
    assert script.command.silent
    assert script.command.evidence == ["asleep for 1 h"]
    script.judge("computing")
    settled = script.settle("exited", exitCode=3)
    assert (settled["elapsedMs"], settled["lastOutputAgeMs"], settled["longestSilenceMs"]) == (21_000, 10_000, 11_000)
    assert [frame["seq"] for frame in (beat, settled)] == [1, 5]
    command = script.command
    assert (command.heartbeat_count, command.verdict, command.lifecycle.reason) == (2, "computing", "exited")
    assert [beat.is_heartbeat for beat in command.beats.kept] == [True, True, False]


def test_other_ends() -> None:
    clock = FakeClock()
    assert ScriptedCommand(clock).fail_to_spawn("EACCES").lifecycle.reason == "spawn_failed"
    lost = ScriptedCommand(clock)
    lost.start()
    clock.advance(5)
    assert lost.lose()["elapsedMs"] == 5000
    assert lost.command.lifecycle.reason == "lost"


def test_no_test_framework_is_needed() -> None:
    program = (
        "import sys, sidecar.testing.otlp, sidecar.testing.otlp_grpc, sidecar.testing.scripted;"
        "print('pytest' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
