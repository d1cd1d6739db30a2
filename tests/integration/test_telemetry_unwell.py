"""A Collector that is not well, in every way: nothing is lost, nothing is held, nothing is printed.

The telemetry is that of a process of its own (what a daemon does, and what an inline command does at its end), told
to end within a budget. What it could not deliver is then sent from its spool to a Collector that is well.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from ailing import CURABLE, FATAL, HANGING, PROTOCOLS, ailing

from sidecar.telemetry.settings import TelemetrySettings
from sidecar.telemetry.spool import SpoolLimits
from sidecar.telemetry.spool_flush import flush
from sidecar.testing.otlp import OtlpReceiver

ROOT = Path(__file__).parents[2]
BUDGET_S = 1.0

PROGRAM = """
import json, sys, time
from sidecar.telemetry.pipeline import Telemetry
from sidecar.telemetry.settings import TelemetrySettings
from sidecar.telemetry.spool import SpoolLimits
from sidecar.testing import FakeClock
from sidecar.testing.scripted import ScriptedCommand

endpoint, protocol, path = sys.argv[1:4]
wait_s, budget_s = map(float, sys.argv[4:])
clock = FakeClock()
telemetry = Telemetry(
    TelemetrySettings(otlp_endpoint=endpoint, otlp_protocol=protocol, spool=SpoolLimits(path)),
    monotonic_ns=clock.monotonic_ns,
    unix_ns=clock.unix_ns,
)
script = ScriptedCommand(clock, "make")
before = time.monotonic()
telemetry.command_started(script.start())
clock.advance(10)
telemetry.heartbeat(script.command, script.beat("sleeping"))
script.settle()
telemetry.command_settled(script.command)
called_s = time.monotonic() - before
time.sleep(wait_s)
before = time.monotonic()
telemetry.shutdown(budget_s)
print(json.dumps({"shutdown_s": time.monotonic() - before, "called_s": called_s, **telemetry.status()}))
"""


class Outcome:
    def __init__(self, endpoint: str, protocol: str, path: Path, *, wait_s: float, budget_s: float = BUDGET_S) -> None:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, endpoint, protocol, str(path), str(wait_s), str(budget_s)],
            env={**kept, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")
        self.status = json.loads(done.stdout)
        # What else the machine does is left four seconds: an exporter has ten for each try.
        assert self.status["called_s"] < 4.0
        assert self.status["shutdown_s"] < budget_s + 4.0


def _delivered_later(path: Path) -> tuple[int, int]:
    """What is in the spool, sent to a Collector that is well: spans, and log records."""
    with OtlpReceiver() as receiver:
        settings = TelemetrySettings(otlp_endpoint=receiver.http_endpoint, spool=SpoolLimits(str(path)), environ={})
        assert flush(settings, 60.0, everything=True) == []
        return len(receiver.spans), len({(log.event_name, log.span_id) for log in receiver.logs})


@pytest.mark.parametrize("wait_s", [0.0, 0.8], ids=["ends at once", "ends after a try"])
@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("ailment", CURABLE)
def test_what_can_be_cured_costs_nothing(ailment: str, protocol: str, wait_s: float, tmp_path: Path) -> None:
    path = tmp_path / "state" / "spool.db"
    with ailing(ailment, protocol, tmp_path) as collector:
        budget_s = BUDGET_S if ailment in HANGING else 30.0
        outcome = Outcome(collector.endpoint, protocol, path, wait_s=wait_s, budget_s=budget_s)
        # Not even the budget, where the answer is known.
        assert outcome.status["shutdown_s"] < 5.0
        assert outcome.status["spool"]["dropped"] == {}
        assert outcome.status["spool"]["problem"] is None
    assert outcome.status["problem_count"] > 0 or ailment in HANGING
    assert _delivered_later(path) == (3, 4)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("ailment", FATAL)
def test_what_is_refused_for_good_is_counted_and_not_kept(ailment: str, protocol: str, tmp_path: Path) -> None:
    path = tmp_path / "state" / "spool.db"
    with ailing(ailment, protocol, tmp_path) as collector:
        outcome = Outcome(collector.endpoint, protocol, path, wait_s=1.0, budget_s=30.0)
        assert outcome.status["spool"]["dropped"] == {"traces": 3, "logs": 4}
        assert any("3 dropped" in problem for problem in outcome.status["problems"])
        assert collector.receiver is not None
        # One try each: not again and again.
        assert len(collector.receiver.requests) <= 2 + 2
    assert _delivered_later(path) == (0, 0)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_part_that_is_refused_is_counted_and_the_rest_not_sent_again(protocol: str, tmp_path: Path) -> None:
    path = tmp_path / "state" / "spool.db"
    with ailing("partial", protocol, tmp_path) as collector:
        outcome = Outcome(collector.endpoint, protocol, path, wait_s=1.0, budget_s=30.0)
        assert outcome.status["spool"]["dropped"] == {"traces": 1, "logs": 1}
        assert any("1 refused: told to refuse" in problem for problem in outcome.status["problems"])
        assert collector.receiver is not None
        assert len(collector.receiver.spans) == 3
    assert _delivered_later(path) == (0, 0)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_slow_but_in_time_is_well(protocol: str, tmp_path: Path) -> None:
    path = tmp_path / "state" / "spool.db"
    with ailing("slow", protocol, tmp_path) as collector:
        assert collector.receiver is not None
        collector.receiver.delay_s = 0.5
        outcome = Outcome(collector.endpoint, protocol, path, wait_s=0.0, budget_s=30.0)
        assert outcome.status["problems"] == []
        assert len(collector.receiver.spans) == 3
    assert _delivered_later(path) == (0, 0)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_collector_that_asks_for_time_gets_it(protocol: str, tmp_path: Path) -> None:
    with ailing("status 503", protocol, tmp_path) as collector:
        assert collector.receiver is not None
        Outcome(collector.endpoint, protocol, tmp_path / "state" / "spool.db", wait_s=4.0)
        # One of each signal, and the metrics' at the end; without the 30 s there would have been three of each.
        paths = [path for path, _ in collector.receiver.requests if "etrics" not in path]
        assert len(paths) == len(set(paths)) == 2
