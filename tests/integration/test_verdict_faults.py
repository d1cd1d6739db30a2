"""A fault of our own in finding out why a command is silent: the command does not pay, and the beats go on."""

import os
from pathlib import Path

import pytest
from supervised import Installation, install, on_linux, stop_daemon, until
from verdict_watch import watched

pytestmark = on_linux
LINE = "echo one; sleep {}; echo two; echo three >&2; exit 7"
FLAGS = ("--heartbeat-interval", "1s", "--verdict-after", "200ms")
FAULTS = {
    "a look that cannot begin": ("looking", "Looking.tick = None"),
    "a look that cannot be taken": ("looking", "Looking.take = None"),
    "a verdict without fields": ("looking", "Looking.fields = None"),
    "no look at all": ("looking", "raise RuntimeError('broken')"),
    "no asking at all": ("silence", "raise RuntimeError('broken')"),
    "a judge of output": ("repeats", "Repeats._begin = None"),
    "the end of a judge": ("repeats", "Repeats.end = None"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_the_command_and_its_beats_go_on(tmp_path: Path, fault: str) -> None:
    module, code = FAULTS[fault]
    sidecar = Installation(tmp_path / "prefix", tmp_path)
    install(sidecar.prefix)
    with open(sidecar.package / "supervisor" / f"{module}.py", "a") as source:
        source.write(f"\n\n{code}\n")
    seconds = 6 if fault == "a judge of output" else 4  # it begins after 5 s
    log = tmp_path / "log"
    sidecar.run("true")  # starts the daemon
    until(lambda: os.path.exists(sidecar.socket))
    try:
        with watched(sidecar, "sh", "-c", LINE.format(seconds), flags=FLAGS, env={"SIDECAR_LOG": str(log)}) as command:
            stdout, stderr = command.process.communicate(timeout=60)
            assert (command.process.returncode, stdout, stderr) == (7, b"one\ntwo\n", b"three\n")
            settled = command.until(lambda record: record.get("type") == "command_settled")
            assert (settled["reason"], settled["exitCode"]) == ("exited", 7)
            assert settled["heartbeatCount"] >= 2
            assert log.read_text().count("no more verdicts on this command: ") == 1
    finally:
        stop_daemon(sidecar.socket)
