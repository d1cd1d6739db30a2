"""The alerts for real: commands that hang, wait, are lost, are silent; a daemon, a Collector, Prometheus, Alertmanager,
a webhook. The files are what `dashboards.alerts` makes, with shorter times."""

import http.server
import json
import os
import pty
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from backends import Collector, eventually, free_port
from installed import SCRIPT, Sidecar, new_trace
from prometheus_backend import Alertmanager, Prometheus
from stack import Stack

from dashboards.alerts.files import alertmanager_file, rules_file
from dashboards.alerts.parameters import Parameters
from dashboards.alerts.rules import alerts
from sidecar.daemon import client

FAST = Parameters(
    fresh_s=5,
    hung_age_s=6,
    hung_for_s=2,
    awaiting_age_s=6,
    awaiting_for_s=2,
    silent_age_s=12,
    silent_for_s=2,
    lost_window_s=20,
    heartbeat_late_s=15,
    heartbeat_for_s=2,
)
DEADLOCK = "import threading; lock = threading.Lock(); lock.acquire(); lock.acquire()"
SERVER = "import socket\ns = socket.create_server(('127.0.0.1', 0))\nwhile True: s.accept()[0].close()"
LIMITED = ("--timeout", "10m")
PRINTED = {"TRACES_EXPORTER": "debug", "LOGS_EXPORTER": "debug", "DEBUG_VERBOSITY": "basic"}


class Webhook:
    """What Alertmanager sent: (status, alert's name, its trace or family), each once. The Watchdog fires always.

    `told` is the latest description of each that fired, by name and trace or family; `fired` has name and instance.
    """

    def __init__(self) -> None:
        self.seen: set[tuple[str, str, str]] = set()
        self.fired: set[tuple[str, str]] = set()
        self.told: dict[tuple[str, str], str] = {}
        self.url = ""

    def take(self, message: dict[str, Any]) -> None:
        for alert in message["alerts"]:
            labels = alert["labels"]
            name, whose = labels["alertname"], labels.get("trace_id") or labels.get("family", "")
            self.seen.add((alert["status"], name, whose))
            if alert["status"] == "firing":
                self.told[name, whose] = alert["annotations"]["description"]
                self.fired.add((name, labels.get("instance", "")))

    def of(self, status: str) -> set[tuple[str, str]]:
        return {(name, whose) for was, name, whose in self.seen if was == status and name != "Watchdog"}


@contextmanager
def webhook() -> Iterator[Webhook]:
    hook = Webhook()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            hook.take(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Nothing on stderr."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        hook.url = f"http://127.0.0.1:{server.server_port}/"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield hook
        finally:
            server.shutdown()


def manager_config(url: str) -> dict[str, Any]:
    """The generated configuration; only what it waits for is shorter."""
    text = alertmanager_file(FAST, url)
    config: dict[str, Any] = json.loads("\n".join(line for line in text.splitlines() if not line.startswith("#")))
    for route in (config["route"], *config["route"]["routes"]):
        route |= {"group_wait": "1s", "group_interval": "1s"}
    return config


def test_exactly_the_right_alerts_come_and_go(stack: Stack, tmp_path: Path) -> None:
    with (
        webhook() as hook,
        Sidecar(tmp_path, stack.collector.http, SUSPECT_AFTER="2s") as sidecar,
        Alertmanager(tmp_path, manager_config(hook.url)) as alertmanager,
        Prometheus(
            tmp_path,
            {"sidecar-collector": stack.collector.prometheus},
            rules_file(alerts(FAST), FAST),
            alertmanager.address,
        ) as prometheus,
    ):
        hung_parent, hung, _ = new_trace()
        deadlocked = sidecar.start(sys.executable, "-c", DEADLOCK, TRACEPARENT=hung_parent)
        # These two are well, however long they say nothing.
        healthy = [
            sidecar.start("sleep", "600", options=LIMITED),
            sidecar.start(sys.executable, "-c", SERVER, options=LIMITED),
        ]
        lost_parent, lost_trace, _ = new_trace()
        lost = sidecar.start("tail", "-f", "/dev/null", options=LIMITED, TRACEPARENT=lost_parent)
        stopped_parent, stopped, _ = new_trace()
        asked_parent, asked, _ = new_trace()
        with (
            _stopped(sidecar, stopped_parent, stopped),
            _prompt(sidecar, asked_parent),
        ):
            eventually(
                "the command that is lost is known",
                lambda: prometheus.values('sidecar_commands_started_total{family="tail"} > 0'),
            )
            lost.kill()
            expected = {("CommandHung", hung), ("CommandAwaitingInput", asked), ("CommandLost", "tail")}
            # One supervisor is stopped, and the others go on beating.
            expected |= {("HeartbeatLost", "")}
            eventually("all of them fire", lambda: expected <= hook.of("firing"), 60)
            # Both are true of the deadlock; the one that says less is kept back.
            eventually("it is silent for too long too", lambda: _inhibited(prometheus, alertmanager, hung), 60)
            assert hook.of("firing") == expected
            # What each waits on, and which one was lost: as facts, and as a trace.
            assert re.search(r"^Verdict: deadlock_suspected \(.+\)\. Trace ", hook.told["CommandHung", hung])
            assert re.search(r"^Verdict: awaiting_input \(.*/dev/pts/.+\)\. ", hook.told["CommandAwaitingInput", asked])
            assert f" ago, trace {lost_trace}, " in hook.told["CommandLost", "tail"]
            assert re.findall("trace ([0-9a-f]+)", hook.told["HeartbeatLost", ""]) == [stopped]
        deadlocked.terminate()
        eventually("all of them are over", lambda: expected <= hook.of("resolved"), 60)
        assert hook.of("firing") == expected

        silent_parent, silent, _ = new_trace()
        forgotten = sidecar.start("sleep", "600", TRACEPARENT=silent_parent)
        expected |= {("CommandSilentTooLong", silent)}
        eventually("the one without a timeout is told", lambda: expected <= hook.of("firing"), 60)
        forgotten.terminate()
        eventually("and is over", lambda: expected <= hook.of("resolved"), 60)
        # What was kept back beside the hung one may be told as over with it, though it was never told.
        assert hook.of("resolved") - {("CommandSilentTooLong", hung)} == expected
        assert all(child.poll() is None for child in healthy)
        assert hook.of("firing") == expected


def test_a_producer_that_is_dead_holds_back_the_target_by_both_ways(tmp_path: Path) -> None:
    """A daemon behind a Collector, and one that is scraped itself; both ways break. A third target is down alone."""
    port, nobody, nowhere = free_port(), f"127.0.0.1:{free_port()}", f"http://127.0.0.1:{free_port()}"
    chosen = replace(FAST, dead_age_s=8, down_for_s=12)
    with (
        webhook() as hook,
        Collector(tmp_path, **PRINTED) as collector,
        Sidecar(tmp_path, collector.http) as behind,
        Sidecar(tmp_path, nowhere, PROMETHEUS_PORT=str(port)) as scraped,
        Alertmanager(tmp_path, manager_config(hook.url)) as alertmanager,
        Prometheus(
            tmp_path,
            {
                "sidecar-collector": collector.prometheus,
                "sidecar-daemons": f"127.0.0.1:{port}",
                "sidecar-collector-of-nobody": nobody,
            },
            rules_file(alerts(chosen), chosen),
            alertmanager.address,
        ) as prometheus,
    ):
        for sidecar in (behind, scraped):
            sidecar.start("sleep", "600", options=LIMITED)
        running = 'sidecar_commands_active{family="sleep",state="silent"} == 1'
        known = f"{running} and on () count({running}) == 2"
        found = eventually("both are known", lambda: prometheus.ask(known))
        daemons = {labels["instance"] for labels, _ in found}
        assert f"127.0.0.1:{port}" in daemons
        collector.stop(signal.SIGKILL)
        # One that is killed is started again by a supervisor.
        with _held(scraped.status()["pid"]):
            held_back = {("TargetDown", collector.prometheus), ("TargetDown", f"127.0.0.1:{port}")}
            eventually("the targets are down, and held back", lambda: held_back <= alertmanager.inhibited(), 60)
            expected = {("ProducerDeadWithWorkInFlight", instance) for instance in daemons} | {("TargetDown", nobody)}
            eventually("the producers, and the lone target", lambda: expected <= hook.fired, 60)
            assert {each for each in hook.fired if each[0] != "Watchdog"} == expected
            assert alertmanager.inhibited() == held_back
            told = hook.told["ProducerDeadWithWorkInFlight", ""]
            assert all(f" {instance} (sidecar-" in told for _, instance in {*held_back, ("TargetDown", nobody)})


def _inhibited(prometheus: Prometheus, alertmanager: Alertmanager, trace_id: str) -> bool:
    asked = f'ALERTS{{alertname="CommandSilentTooLong",alertstate="firing",trace_id="{trace_id}"}}'
    return bool(prometheus.ask(asked)) and "CommandSilentTooLong" in dict(alertmanager.inhibited())


@contextmanager
def _stopped(sidecar: Sidecar, traceparent: str, trace_id: str) -> Iterator[None]:
    """A command whose supervisor somebody stops; it runs on itself."""
    supervisor = sidecar.start("sleep", "600", options=LIMITED, TRACEPARENT=traceparent)
    eventually(
        "the daemon knows it",
        lambda: trace_id in [each.get("traceId") for each in client.request(sidecar.socket_path, "list")],
    )
    with _held(supervisor.pid):
        yield


@contextmanager
def _held(pid: int) -> Iterator[None]:
    """A process that is stopped for so long."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@contextmanager
def _prompt(sidecar: Sidecar, traceparent: str) -> Iterator[None]:
    """A command that asks a question at a terminal, and gets its answer in the end."""
    ours, theirs = pty.openpty()
    child = subprocess.Popen(
        [SCRIPT, "run", *LIMITED, "--", "bash", "-c", "read -r -p 'Continue? ' answer"],
        env=sidecar.environ | {"TRACEPARENT": traceparent},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    try:
        yield
        os.write(ours, b"yes\n")
        assert child.wait(20) == 0
    finally:
        if child.poll() is None:
            child.kill()
            child.wait()
        os.close(ours)
