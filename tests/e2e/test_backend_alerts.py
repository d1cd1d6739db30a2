"""What an alert needs of the metrics: that a first event is seen, and that what is over is gone.

Not with the other metrics: two daemons of one user on one host are one writer to a Collector.
"""

import os
from pathlib import Path

from backends import eventually
from installed import Sidecar, suspect_frames
from prometheus_backend import Alertmanager, Prometheus
from stack import Stack

from dashboards.alerts.files import rules_file
from dashboards.alerts.parameters import Parameters
from dashboards.alerts.rules import alerts

RULES = """
groups:
  - name: sidecar
    rules:
      - alert: CommandLost
        expr: increase(sidecar_commands_lost_total[1m]) > 0
        labels: {severity: page}
"""


def test_the_first_lost_command_raises_an_alert(stack: Stack, tmp_path: Path) -> None:
    """It would not if its series were not born at 0: `increase` of a series that begins with 1 is 0."""
    with (
        Sidecar(tmp_path, stack.collector.http) as sidecar,
        Alertmanager(tmp_path) as alertmanager,
        Prometheus(tmp_path, {"collector": stack.collector.prometheus}, RULES, alertmanager.address) as prometheus,
    ):
        running = sidecar.start("tail", "-f", "/dev/null")
        started = 'sidecar_commands_started_total{family="tail"}'
        eventually("the command has started", lambda: prometheus.values(started) == [1])
        assert alertmanager.firing() == []
        running.kill()
        (alert,) = eventually("an alert", alertmanager.firing)
        assert (alert["alertname"], alert["family"], alert["job"]) == ("CommandLost", "tail", "sidecar")


def test_the_first_command_of_a_daemon_that_times_out_is_in_the_burn_rate(stack: Stack, tmp_path: Path) -> None:
    """A histogram has no series before there is something in it; that it begins with 0 all the same is the reader's."""
    asked = Parameters(burn_least_bad=1, burn_windows=((14.4, 60, 20, "page"),))
    with (
        Sidecar(tmp_path, stack.collector.http) as sidecar,
        Alertmanager(tmp_path) as alertmanager,
        Prometheus(
            tmp_path,
            {"sidecar-collector": stack.collector.prometheus},
            rules_file([rule for rule in alerts(asked) if rule.name == "ErrorBudgetBurn"], asked),
            alertmanager.address,
        ) as prometheus,
    ):
        eventually("a first scrape", lambda: prometheus.values("up"))
        # What daemons of other tests left in the Collector has to expire.
        eventually("nothing was counted yet", lambda: not prometheus.ask("sidecar_command_duration_seconds_count"))
        assert sidecar.start("sleep", "60", options=["--timeout", "1s"]).wait(20) == 124
        (alert,) = eventually("an alert", alertmanager.firing)
        assert (alert["alertname"], alert["window"], alert["job"]) == ("ErrorBudgetBurn", "1m", "sidecar")


def test_a_suspect_that_has_ended_is_soon_gone(stack: Stack, tmp_path: Path) -> None:
    """The Collector shows the last value of a series for metric_expiration: here 10 s, a minute as shipped."""
    trace_id = os.urandom(16).hex()
    suspects = f'sidecar_suspect_output_age_seconds{{trace_id="{trace_id}"}}'
    with Sidecar(tmp_path, stack.collector.http) as sidecar:
        with sidecar.send(*suspect_frames(trace_id, "s-1")):
            eventually("the suspect", lambda: stack.prometheus.ask(suspects))
        eventually("no suspect", lambda: not stack.prometheus.ask(suspects))
