"""`sidecar bridge acp`: the official ACP SDK as the client, a scripted agent, real commands and a real daemon."""

import asyncio
import base64
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import acp
import pytest
from supervised import WAIT_S, Installation, alive, on_linux, until

from sidecar.conformance import stream

AGENT = Path(__file__).with_name("acp_agent.py")
Updates = list[tuple[str, Any]]


def environ_of(sidecar: Installation, **extra: str) -> dict[str, str]:
    path = f"{sidecar.script.parent}:{sidecar.environ.get('PATH', os.defpath)}"
    return {**sidecar.environ, "PATH": path, "SIDECAR_HEARTBEAT_INTERVAL": "300ms", **extra}


def words(sidecar: Installation, *agent: str) -> list[str]:
    return [str(sidecar.script), "bridge", "acp", "--", *(agent or (sys.executable, str(AGENT)))]


class Client(acp.Client):
    """Notes every update in the order in which it came."""

    def __init__(self) -> None:
        self.updates: Updates = []

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        self.updates.append((session_id, update))


async def converse(sidecar: Installation, plan: dict[str, Any], environ: dict[str, str]) -> Updates:
    client = Client()
    argv = words(sidecar)
    async with acp.spawn_agent_process(client, argv[0], *argv[1:], env=environ) as (connection, process):
        await connection.initialize(protocol_version=acp.PROTOCOL_VERSION)
        session = await connection.new_session(cwd="/", mcp_servers=[])
        prompt = [acp.text_block(json.dumps(plan))]
        await asyncio.wait_for(connection.prompt(session_id=session.session_id, prompt=prompt), WAIT_S)
        assert process.stdin is not None
        process.stdin.close()
        assert await asyncio.wait_for(process.wait(), WAIT_S) == 7
    return client.updates


def test_a_silent_command_beats_with_the_agents_own_call(sidecar: Installation) -> None:
    plan = {"command": "sleep 2; echo done", "call": "call_42"}
    updates = asyncio.run(converse(sidecar, plan, environ_of(sidecar)))
    assert {(session, update.tool_call_id) for session, update in updates} == {("session_1", "call_42")}
    statuses = [update.status for _, update in updates]
    beats = [update.field_meta for _, update in updates if update.field_meta]
    assert statuses[0] == "pending"
    assert statuses[-1] == "completed"
    assert statuses.count("completed") == 1
    progress = [meta["shellProgress"] for meta in beats if "shellProgress" in meta]
    assert len(progress) >= 3
    assert progress == sorted(progress, key=lambda payload: payload["elapsedMs"])
    assert all(payload["type"] == "shell_progress" and "totalBytes" not in payload for payload in progress)
    end = updates[-1][1]
    assert end.content[0].content.text == "done\n"
    for _, update in updates:
        if update.field_meta:
            assert (update.title, update.kind, update.content, update.raw_input) == (None, None, None, None)


def test_the_references_check(sidecar: Installation) -> None:
    """`tool_call`, a heartbeat after 10 s with `_meta` only, `completed`, and no in_progress after it."""
    limits = {"SIDECAR_HEARTBEAT_INTERVAL": "10s", "SIDECAR_TIMEOUT": "30s"}
    with start(sidecar, **limits) as process:
        prompt(process, {"command": "sleep 14", "call": "call_42"})
        assert process.stdout is not None
        lines: list[bytes] = []
        while not lines or b"stopReason" not in lines[-1]:
            lines.append(process.stdout.readline())
        assert process.stdin is not None
        process.stdin.close()
        lines += process.stdout.readlines()
    assert stream.faults(lines, "acp") == []
    updates = [json.loads(each)["params"]["update"] for each in lines if b"session/update" in each]
    statuses = [update["status"] for update in updates]
    assert (statuses[:2], set(statuses[2:-1]), statuses[-1]) == (
        ["pending", "in_progress"],
        {"in_progress"},
        "completed",
    )
    (beat,) = [update for update in updates if "shellProgress" in update.get("_meta", {})]
    assert set(beat) == {"sessionUpdate", "toolCallId", "status", "_meta"}
    assert beat["toolCallId"] == "call_42"
    progress = beat["_meta"]["shellProgress"]
    assert 10_000 <= progress.pop("elapsedMs") < 14_000
    assert progress == {"type": "shell_progress", "timeoutMs": 30_000}


def start(sidecar: Installation, *agent: str, **extra: str) -> subprocess.Popen[bytes]:
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(words(sidecar, *agent), env=environ_of(sidecar, **extra), **pipes)


def send(process: subprocess.Popen[bytes], message: dict[str, Any]) -> None:
    assert process.stdin is not None
    process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
    process.stdin.flush()


def prompt(process: subprocess.Popen[bytes], plan: dict[str, Any]) -> None:
    block = {"type": "text", "text": json.dumps(plan)}
    send(process, {"id": 5, "method": "session/prompt", "params": {"sessionId": "session_1", "prompt": [block]}})


def read(process: subprocess.Popen[bytes]) -> dict[str, Any]:
    assert process.stdout is not None
    message: dict[str, Any] = json.loads(process.stdout.readline())
    return message


def is_beat(message: dict[str, Any]) -> bool:
    return "_meta" in message.get("params", {}).get("update", {})


def test_no_beat_before_the_client_has_allowed_it(sidecar: Installation) -> None:
    """The agent runs it all the same: an agent's own fault, and no reason to say `in_progress`."""
    with start(sidecar) as process:
        prompt(process, {"command": "sleep 8", "ask": True})
        seen = [read(process)]
        while seen[-1].get("method") != "session/request_permission":
            seen.append(read(process))
        assert not any(map(is_beat, seen))
        # Some intervals pass here: what comes next would be a beat.
        outcome = {"outcome": "selected", "optionId": "yes"}
        subprocess.run([str(sidecar.script), "run", "--", "sleep", "0.7"], env=environ_of(sidecar), check=True)
        send(process, {"id": 99, "result": {"outcome": outcome}})
        assert is_beat(read(process))
        process.kill()


ODD = [b"{not json\n", b"[]\n", b"\xff\xfe\n", b'{"method":"x/unknown","params":null}\n', b"\r\n"]


@pytest.mark.parametrize("line", ODD)
def test_odd_lines_pass_as_they_are(sidecar: Installation, line: bytes) -> None:
    with start(sidecar) as process:
        prompt(process, {"raw": base64.b64encode(line).decode()})
        assert process.stdout is not None
        assert process.stdout.readline() == line
        assert read(process)["result"] == {"stopReason": "end_turn"}
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdin.write(b"\xff{\n")
        process.stdin.close()
        assert process.stderr.read() == b"malformed\n"
        assert process.wait(WAIT_S) == 7


def test_ten_megabytes_in_one_message_both_ways(sidecar: Installation) -> None:
    message = json.dumps({"method": "x", "toolCallId": "x" * 10_000_000}).encode() + b"\n"
    done = subprocess.run(
        words(sidecar, "cat"), input=message * 2, env=environ_of(sidecar), capture_output=True, timeout=WAIT_S
    )
    assert (done.returncode, done.stdout == message * 2, done.stderr) == (0, True, b"")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGSEGV])
def test_the_agents_end_is_ours(sidecar: Installation, number: int) -> None:
    with start(sidecar, "sh", "-c", f"ulimit -c 0; kill -{int(number)} $$") as process:
        assert process.wait(WAIT_S) == -number


def test_an_agent_that_is_not_there(sidecar: Installation) -> None:
    with start(sidecar, "/no/such/agent") as process:
        _, errors = process.communicate(timeout=WAIT_S)
    assert process.returncode == 127
    assert errors == b"sidecar: /no/such/agent: No such file or directory\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1])
def test_signals_are_for_the_agent(sidecar: Installation, number: int) -> None:
    script = f"trap 'echo got; exit 5' {int(number)}; echo ready; while :; do sleep 0.1; done"
    with start(sidecar, "sh", "-c", script) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(number)
        assert process.stdout.readline() == b"got\n"
        assert process.wait(WAIT_S) == 5


@on_linux
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_what_a_launcher_leaves_gets_the_signal_that_it_died_of(sidecar: Installation, number: int) -> None:
    """Qwen's launcher, for one. What has left the process group is its own master."""
    launcher = "sh -c 'trap \"echo told; exit\" TERM HUP; echo $$; while :; do sleep 0.1; done' & "
    launcher += "setsid sh -c 'echo $$; exec sleep 60 2>/dev/null' >&2 & wait"
    with start(sidecar, "sh", "-c", launcher) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        told, apart = int(process.stdout.readline()), int(process.stderr.readline())
        process.send_signal(number)
        assert process.wait(WAIT_S) == -number
        until(lambda: not alive(told))
        assert alive(apart)
        os.kill(apart, signal.SIGKILL)


@on_linux
def test_what_an_agent_leaves_that_handles_the_signal_is_its_own_affair(sidecar: Installation) -> None:
    script = "trap 'exit 5' TERM; sleep 60 >/dev/null 2>&1 & echo $!; while :; do sleep 0.1; done"
    with start(sidecar, "sh", "-c", script) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        process.send_signal(signal.SIGTERM)
        assert process.wait(WAIT_S) == 5
        assert alive(pid)
        os.kill(pid, signal.SIGKILL)


@on_linux
def test_the_agent_does_not_outlive_us(sidecar: Installation) -> None:
    with start(sidecar, "sh", "-c", "echo $$; exec sleep 60") as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        process.kill()
        until(lambda: not alive(pid))


def test_a_client_that_has_gone(sidecar: Installation) -> None:
    with start(sidecar, "sh", "-c", "while :; do echo x || exit 9; done") as process:
        assert process.stdout is not None
        process.stdout.read(2)
        process.stdout.close()
        assert process.wait(WAIT_S) == -signal.SIGPIPE


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_streams_that_are_not_there(sidecar: Installation, closed: str) -> None:
    """The agent's stdin ends, its output goes nowhere, and none of our files gets the stream's number."""
    agent = f"{sys.executable} -c 'import sys; sys.stdin.read(); print(1); sys.exit(7)'"
    script = f"{' '.join(words(sidecar, '')[:-1])} {agent} {closed}"
    done = subprocess.run(["sh", "-c", script], env=environ_of(sidecar), timeout=WAIT_S, check=False)
    assert done.returncode == 7


def test_what_the_agent_leaves_behind_does_not_hold_the_end(sidecar: Installation) -> None:
    with start(sidecar, "sh", "-c", "sleep 60 2>/dev/null & echo $!; exit 3") as process:
        assert process.stdout is not None
        pid = int(process.stdout.read())
        assert process.wait(WAIT_S) == 3
        assert alive(pid)
        os.kill(pid, signal.SIGKILL)
