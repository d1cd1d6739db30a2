"""docs/operating.md, word for word: from Debian's Prometheus and Alertmanager to a firing CommandHung."""

import json
import os
import re
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from backends import ROOT, free_port, tool
from installed import SCRIPT

PAGE = (ROOT / "docs" / "operating.md").read_text(encoding="utf-8")
WAIT_S = 90.0
ALERTMANAGER_YML = Path("/etc/prometheus/alertmanager.yml")


def step(name: str) -> str:
    """The block of shell that is marked so."""
    found = re.search(rf"<!-- walk: {name} -->\n```sh\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert found is not None, f"docs/operating.md has no step {name!r}"
    return found[1]


class Shell:
    """One shell for the whole walk, in a copy of the clone's folder as far as the walk needs it."""

    def __init__(self, folder: Path) -> None:
        programs = folder / "programs"
        programs.mkdir()
        for name in ("prometheus", "prometheus-alertmanager", "promtool", "amtool"):
            (programs / name).symlink_to(tool(name))
        (programs / "sidecar").symlink_to(SCRIPT)
        (folder / "dashboards").symlink_to(ROOT / "dashboards")
        (folder / "sidecar").symlink_to(ROOT / "sidecar")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("SIDECAR_", "OTEL_", "XDG_"))}
        path = f"{programs}:{Path(SCRIPT).parent}:{os.environ['PATH']}"
        self._process = subprocess.Popen(
            ["bash", "-m"],
            cwd=folder,
            env={**kept, "HOME": str(folder), "PATH": path},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def type(self, text: str, *, must_succeed: bool = True) -> str:
        """What it prints; the last command must have succeeded, or its status is the last line."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{text}\necho walked-$?\n")
        self._process.stdin.flush()
        said = []
        for line in self._process.stdout:
            if line.startswith("walked-"):
                if must_succeed:
                    assert line == "walked-0\n", f"{text}\n{''.join(said)}{line}"
                assert "Traceback" not in "".join(said)
                return "".join([*said, "" if must_succeed else line])
            said.append(line)
        raise AssertionError(f"the shell has ended: {''.join(said)}")

    def end(self) -> None:
        # Its jobs have groups of their own, in its session.
        for pid in _session(self._process.pid):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        self._process.communicate()


def _session(leader: int) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_bytes().rpartition(b") ")[2].split()
            except OSError:
                continue
            if int(fields[3]) == leader:
                found.append(int(entry.name))
    return found


def test_from_an_empty_machine_to_a_firing_alert(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    query = "amtool --alertmanager.url=http://127.0.0.1:$AM alert query --output=json"

    def await_alerts(wanted: int, which: str = "Command.*") -> list[dict[str, Any]]:
        """The alerts on commands, once there are so many."""
        deadline_s = time.monotonic() + WAIT_S
        while len(found := json.loads(shell.type(f"{query} alertname=~'{which}' 2>/dev/null || echo []"))) != wanted:
            assert time.monotonic() < deadline_s, shell.type("cat try/*.log; sidecar top --once")
            time.sleep(0.5)
        return found

    try:
        ports = {name: free_port() for name in ("PROM", "AM", "PAGE")}
        chosen = " ".join(f"{name}={port}" for name, port in ports.items())
        first, check = step("ports").splitlines()
        assert re.fullmatch(r"PROM=\d+ AM=\d+ PAGE=\d+", first)
        with socket.create_server(("127.0.0.1", ports["AM"])):
            # Before that bash has said what it misses without a terminal.
            assert shell.type(f"{chosen}\n{check}").endswith(f"\n{ports['AM']} is taken\n")
        assert shell.type(check) == ""
        shell.type(step("configure"))
        started = shell.type(step("start"))
        assert f'up{{instance="127.0.0.1:{ports["PAGE"]}", job="sidecar"}} => 1' in started
        assert "Routing tree" in started
        assert started.endswith("\nall three are up\n")
        shell.type(step("hang"))
        await_alerts(1, "Watchdog")
        (alert,) = await_alerts(1)
        assert alert["labels"]["alertname"] == "CommandHung"
        seen = shell.type(step("see"))
        assert "deadlock_suspected" in seen
        trace_id = alert["labels"]["trace_id"]
        # Each of them is told the one who is called, as the page says.
        assert all(text in seen for text in (trace_id, "may be hung: no output for", "runbooks/CommandHung.md"))
        assert shell.type(step("runbook")) == (ROOT / "dashboards/runbooks/CommandHung.md").read_text(encoding="utf-8")
        explained = shell.type(step("explain"))
        assert "may_be_hung" in explained
        assert "settled" in explained
        await_alerts(0)
        # The healthy one has raised nothing for as long as this took, and goes on.
        left = shell.type(step("resolved"))
        assert "sleep" in left
        assert "python3" not in left
        assert "CommandHung" not in left
        # One of ours is gone, whatever answers on its port: the step's last line does not say that all are up.
        last = step("start").splitlines()[-1]
        assert "all three" in shell.type(last)
        gone = shell.type(f"kill $PROMETHEUS; wait $PROMETHEUS\n{last}", must_succeed=False)
        assert "all three" not in gone
        assert not gone.endswith("walked-0\n")
        shell.type(step("end").replace("; exit", ""))
        assert not (tmp_path / "try").exists()
        assert "no daemon is running" in shell.type("sidecar daemon status", must_succeed=False)
    finally:
        shell.end()


@pytest.mark.parametrize(
    "name", ["install", "ports", "configure", "start", "hang", "see", "runbook", "explain", "resolved", "end"]
)
def test_each_step_is_there(name: str) -> None:
    assert step(name).strip()


def test_our_inhibitions_go_into_debians_list(tmp_path: Path) -> None:
    """As the page says; and a second list is refused, as it says too."""
    amtool = tool("amtool")
    if not ALERTMANAGER_YML.exists():
        pytest.skip(f"no {ALERTMANAGER_YML}: the package prometheus-alertmanager of Debian is not installed")
    ours = json.loads(re.sub(r"^#.*\n", "", (ROOT / "dashboards/alerts/alertmanager.yml").read_text(), flags=re.M))
    theirs = ALERTMANAGER_YML.read_text(encoding="utf-8")
    assert len(re.findall(r"^inhibit_rules:$", theirs, re.M)) == 1
    items = "".join(f"- {json.dumps(rule)}\n" for rule in ours["inhibit_rules"])
    copy = tmp_path / "alertmanager.yml"

    def checked(text: str) -> subprocess.CompletedProcess[str]:
        copy.write_text(text, encoding="utf-8")
        return subprocess.run([amtool, "check-config", str(copy)], capture_output=True, text=True, check=False)

    taken = checked(theirs.replace("inhibit_rules:\n", f"inhibit_rules:\n{items}"))
    assert taken.returncode == 0, taken.stderr
    assert f"{1 + len(ours['inhibit_rules'])} inhibit rules" in taken.stdout
    refused = checked(f"{theirs}\ninhibit_rules:\n{items}")
    assert refused.returncode != 0
    assert "inhibit_rules already set" in refused.stdout + refused.stderr
