"""A supervisor that is stopped: what `ps`, `top` and `explain` say of its command is old, and they say so."""

import json
import os
import signal
import subprocess
from typing import Any

from supervised import Installation, on_linux, until


@on_linux
def test_it_is_said_and_taken_back(sidecar: Installation) -> None:
    def said(*words: str) -> str:
        return subprocess.run(
            [str(sidecar.script), *words], capture_output=True, text=True, env=sidecar.environ, timeout=30, check=True
        ).stdout

    def command() -> dict[str, Any]:
        return next((one for one in json.loads(said("ps", "--json")) if one.get("verdict") == "sleeping"), {})

    flags = ("--heartbeat-interval", "500ms", "--verdict-after", "200ms")
    with sidecar.started("sleep", "600", flags=flags):
        found = until(command)
        supervisor = found["supervisorPid"]
        os.kill(supervisor, signal.SIGSTOP)
        late = until(lambda: (now := command()).get("heartbeatDelayMs") and now)
        assert late["heartbeatDelayMs"] >= 5000
        assert "heartbeat " in said("ps")
        assert "1 needs someone" in said("top", "--once")
        explained = said("explain", found["commandId"])
        assert f"Its supervisor (pid {supervisor}) is stopped: it was heard " in explained
        assert f"next        `kill -CONT {supervisor}` continues it" in explained
        os.kill(supervisor, signal.SIGCONT)
        until(lambda: command() and "heartbeatDelayMs" not in command())
        assert "next        Wait" in said("explain", found["commandId"])
