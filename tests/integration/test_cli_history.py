"""`sidecar history`, and `sidecar explain` of what has ended, with a real daemon and real commands."""

import json
import os
import signal
import subprocess
from typing import Any

from supervised import Installation, alive, state_of, stop_daemon, until

from sidecar import places
from sidecar.daemon import client


def verb(sidecar: Installation, *words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [str(sidecar.script), *words], capture_output=True, text=True, env=sidecar.environ, timeout=60, check=False
    )


def listed(sidecar: Installation, session: str) -> list[dict[str, Any]]:
    return [one for one in client.request(sidecar.socket, "list") if one.get("sessionId") == session]


def test_what_ended_is_told_with_its_silence_and_verdict(sidecar: Installation) -> None:
    session = f"session-{os.getpid()}"

    flags = ("--session-id", session, "--heartbeat-interval", "500ms", "--verdict-after", "200ms")
    with sidecar.started("sleep", "600", flags=flags) as process:
        (running,) = until(lambda: [one for one in listed(sidecar, session) if one.get("verdict") == "sleeping"])
        os.kill(running["pid"], signal.SIGTERM)
        assert process.wait(60) == -signal.SIGTERM
    assert sidecar.run("sh", "-c", "exit 3", flags=("--session-id", session)).status == 3
    killed = sidecar.run("sh", "-c", "kill -KILL $$", flags=("--session-id", session))
    assert killed.status == -signal.SIGKILL

    def told() -> list[dict[str, object]]:
        return json.loads(verb(sidecar, "history", "--session-id", session, "--json").stdout or "[]")

    until(lambda: len(told()) == 3)
    last, middle, first = told()
    assert (last["reason"], last["signal"]) == ("signaled", "SIGKILL")
    assert middle["exitCode"] == 3
    assert first["verdict"] == "sleeping"
    assert first["longestSilenceMs"] == first["elapsedMs"]
    (silence,) = first["silences"]  # type: ignore[misc]
    assert silence[:2] == [0, first["elapsedMs"]]
    assert silence[2][-1][1] == "sleeping"

    table = verb(sidecar, "history", "--session-id", session)
    assert [line.split()[2] for line in table.stdout.splitlines()[1:]] == ["sh", "sh", "sleep"]
    only = verb(sidecar, "history", "--session-id", session, "--verdict", "sleeping", "--json")
    assert [one["commandId"] for one in json.loads(only.stdout)] == [first["commandId"]]

    explained = verb(sidecar, "explain", str(first["commandId"]))
    assert explained.returncode == 0
    assert "has ended: SIGTERM" in explained.stdout
    assert "sleeping (waiting)" in explained.stdout


def test_it_is_there_without_a_daemon_and_after_one(sidecar: Installation) -> None:
    session = f"after-{os.getpid()}"
    assert sidecar.run("true", flags=("--session-id", session)).status == 0
    stop_daemon(sidecar.socket)  # it writes before it ends
    found = json.loads(verb(sidecar, "history", "--session-id", session, "--json").stdout)
    assert [one["program"] for one in found] == ["true"]
    assert verb(sidecar, "explain", found[0]["commandId"]).returncode == 0
    assert verb(sidecar, "explain", "ffffffff").returncode == 125


def test_a_daemon_that_is_killed_loses_none(sidecar: Installation) -> None:
    def pid() -> int:
        return int(client.status(sidecar.socket)["pid"])

    def kill() -> None:
        killed = pid()
        os.kill(killed, signal.SIGKILL)
        until(lambda: not alive(killed))

    session = f"killed-{os.getpid()}"
    flags = ("--session-id", session)
    ledger = places.ledger_folder(sidecar.socket)
    assert sidecar.run("true", flags=flags).status == 0
    until(lambda: set(os.listdir(ledger)) <= {"lock"})  # all that is not there any more is safe
    kill()
    found = json.loads(verb(sidecar, "history", "--session-id", session, "--json").stdout)
    assert [one["program"] for one in found] == ["true"]

    assert verb(sidecar, "daemon", "start").returncode == 0
    stopped = pid()
    os.kill(stopped, signal.SIGSTOP)
    until(lambda: state_of(stopped) == "T")
    assert sidecar.run("sh", "-c", "exit 3", flags=flags).status == 3
    os.kill(stopped, signal.SIGKILL)
    until(lambda: not alive(stopped))
    assert verb(sidecar, "daemon", "start").returncode == 0

    def told() -> list[dict[str, object]]:
        return json.loads(verb(sidecar, "history", "--session-id", session, "--json").stdout or "[]")

    until(lambda: len(told()) == 2)
    last = told()[0]
    assert (last["program"], last["exitCode"]) == ("sh", 3)
    assert last["endUnixMs"] == last["startUnixMs"] + last["elapsedMs"]  # type: ignore[operator]


def test_where_nothing_has_ended(sidecar: Installation, tmp_path) -> None:  # type: ignore[no-untyped-def]
    environ = {**sidecar.environ, "XDG_STATE_HOME": str(tmp_path)}
    done = subprocess.run([str(sidecar.script), "history"], capture_output=True, text=True, env=environ, check=False)
    assert (done.returncode, done.stdout) == (0, "")
    assert "no command has ended yet" in done.stderr
