"""docs/operating.md, word for word: from Debian's Prometheus and Alertmanager to a firing CommandHung."""

import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from backends import ROOT, tool
from installed import SCRIPT

PAGE = (ROOT / "docs" / "operating.md").read_text(encoding="utf-8")
WAIT_S = 90.0


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

    def type(self, text: str) -> str:
        """What it prints; the last command must have succeeded."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{text}\necho walked-$?\n")
        self._process.stdin.flush()
        said = []
        for line in self._process.stdout:
            if line.startswith("walked-"):
                assert line == "walked-0\n", f"{text}\n{''.join(said)}{line}"
                return "".join(said)
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
    query = "amtool --alertmanager.url=http://127.0.0.1:19093 alert query --output=json alertname=~'Command.*'"

    def await_alerts(wanted: int) -> list[dict[str, Any]]:
        """The alerts on commands, once there are so many."""
        deadline_s = time.monotonic() + WAIT_S
        while len(found := json.loads(shell.type(f"{query} 2>/dev/null || echo []"))) != wanted:
            assert time.monotonic() < deadline_s, shell.type("cat try/*.log; sidecar top --once")
            time.sleep(0.5)
        return found

    try:
        shell.type(step("configure"))
        started = shell.type(step("start"))
        assert 'up{instance="127.0.0.1:19464", job="sidecar"} => 1' in started
        assert "Routing tree" in started
        shell.type(step("hang"))
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
        shell.type(step("end").replace("; exit", ""))
        assert not (tmp_path / "try").exists()
    finally:
        shell.end()


@pytest.mark.parametrize(
    "name", ["install", "configure", "start", "hang", "see", "runbook", "explain", "resolved", "end"]
)
def test_each_step_is_there(name: str) -> None:
    assert step(name).strip()
