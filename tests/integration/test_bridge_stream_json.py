"""`sidecar bridge stream-json`: a scripted agent of each dialect, real commands and a real daemon."""

import base64
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from supervised import WAIT_S, Installation, alive, on_linux, until

from sidecar.conformance import stream

AGENT = Path(__file__).with_name("stream_json_agent.py")
PARTIAL = "--include-partial-messages"
Message = dict[str, Any]


def environ_of(sidecar: Installation, **extra: str) -> dict[str, str]:
    path = f"{sidecar.script.parent}:{sidecar.environ.get('PATH', os.defpath)}"
    return {**sidecar.environ, "PATH": path, "SIDECAR_HEARTBEAT_INTERVAL": "300ms", **extra}


def agent(dialect: str, *arguments: str) -> list[str]:
    return [sys.executable, str(AGENT), dialect, *arguments]


def start(sidecar: Installation, *words: str, **extra: str) -> subprocess.Popen[bytes]:
    argv = [str(sidecar.script), "bridge", "stream-json", "--", *words]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(argv, env=environ_of(sidecar, **extra), **pipes)


def send(process: subprocess.Popen[bytes], message: Message) -> None:
    assert process.stdin is not None
    process.stdin.write(json.dumps(message).encode() + b"\n")
    process.stdin.flush()


def read(process: subprocess.Popen[bytes]) -> Message:
    assert process.stdout is not None
    message: Message = json.loads(process.stdout.readline())
    return message


def converse(sidecar: Installation, words: list[str], plan: Message, **extra: str) -> list[Message]:
    """All that a client sees of a turn and the agent's end."""
    with start(sidecar, *words, **extra) as process:
        output, _ = process.communicate(json.dumps(plan).encode() + b"\n", WAIT_S)
    assert process.returncode == 7
    assert stream.faults(output.splitlines(), "stream-json") == []
    return [json.loads(line) for line in output.splitlines()]


def progress_of(message: Message) -> Message | None:
    event = message.get("event", message)
    return event if event["type"] == "tool_progress" else None


def beats_of(messages: list[Message]) -> list[Message]:
    return [beat for beat in map(progress_of, messages) if beat is not None]


@pytest.mark.parametrize("dialect", ["qwen", "claude"])
def test_a_silent_command_beats_between_its_call_and_its_result(sidecar: Installation, dialect: str) -> None:
    messages = converse(sidecar, agent(dialect, PARTIAL), {"command": "sleep 1.5; echo done", "call": "call_42"})
    kinds = [message["type"] for message in messages]
    indices = [index for index, message in enumerate(messages) if progress_of(message)]
    assert len(indices) >= 2
    assert kinds.index("assistant") < indices[0]
    assert indices[-1] < kinds.index("user") < kinds.index("result") == len(kinds) - 1
    beats = beats_of(messages)
    assert {beat["tool_use_id"] for beat in beats} == {"call_42"}
    assert {message["session_id"] for message in messages} == {"session_1"}
    if dialect == "claude":
        assert {beat["tool_name"] for beat in beats} == {"Bash"}
    assert messages[kinds.index("user")]["message"]["content"][0]["content"] == "done\n"


def test_the_references_check(sidecar: Installation) -> None:
    """`tool_progress` after 10 s, with the time and the timeout, and without figures of an output there was none of."""
    plan = {"command": "sleep 14"}
    limits = {"SIDECAR_HEARTBEAT_INTERVAL": "10s", "SIDECAR_TIMEOUT": "30s"}
    (beat,) = beats_of(converse(sidecar, agent("qwen", PARTIAL), plan, **limits))
    elapsed_ms = beat["content"].pop("elapsedMs")
    assert 10_000 <= elapsed_ms < 14_000
    assert beat == {
        "type": "tool_progress",
        "tool_use_id": "call_1",
        "content": {"type": "shell_progress", "timeoutMs": 30_000},
    }


def test_qwens_clients_get_nothing_that_they_did_not_ask_for(sidecar: Installation) -> None:
    messages = converse(sidecar, agent("qwen"), {"command": "sleep 1"})
    assert [message["type"] for message in messages] == ["system", "assistant", "user", "result"]


def test_no_beat_while_the_client_is_asked_for_leave(sidecar: Installation) -> None:
    """The agent runs it all the same: an agent's own fault, and no reason to say that it runs."""
    with start(sidecar, *agent("claude")) as process:
        send(process, {"command": "sleep 8", "ask": True})
        seen = [read(process)]
        while seen[-1]["type"] != "control_request":
            seen.append(read(process))
        # Some intervals pass here: what comes next would be a beat.
        subprocess.run([str(sidecar.script), "run", "--", "sleep", "0.7"], env=environ_of(sidecar), check=True)
        response = {"subtype": "success", "request_id": "ask_1", "response": {"behavior": "allow"}}
        send(process, {"type": "control_response", "response": response})
        seen.append(read(process))
        assert [message["type"] for message in seen] == ["system", "assistant", "control_request", "tool_progress"]
        assert seen[-1]["elapsed_time_seconds"] in range(9)
        process.kill()


def test_none_after_the_command_has_ended_though_its_result_is_late(sidecar: Installation) -> None:
    messages = converse(sidecar, agent("claude"), {"command": "sleep 2", "late": 4})
    assert 1 <= len(beats_of(messages)) <= 12, "else there were twenty"


ODD = [b"{not json\n", b"[]\n", b"\xff\xfe\n", b'{"type":"tool_use","x":null}\n', b"\r\n", b"5\n", b'"tool_result"\n']


@pytest.mark.parametrize("line", ODD)
def test_odd_lines_pass_as_they_are(sidecar: Installation, line: bytes) -> None:
    with start(sidecar, *agent("claude")) as process:
        assert read(process)["type"] == "system"
        send(process, {"raw": base64.b64encode(line).decode()})
        assert process.stdout is not None
        assert process.stdout.readline() == line
        assert read(process)["type"] == "result"
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdin.write(b"\xff{\n")
        process.stdin.close()
        assert process.stderr.read() == b"malformed\n"
        assert process.wait(WAIT_S) == 7


@pytest.mark.parametrize("end", [b"\n", b""], ids=["with a newline", "without"])
def test_ten_megabytes_in_one_message_both_ways(sidecar: Installation, end: bytes) -> None:
    content = [{"type": "tool_use", "id": "x" * 10_000_000, "input": {}}]
    message = json.dumps({"type": "assistant", "message": {"content": content}}).encode()
    data = message + b"\n" + message + end
    argv = [str(sidecar.script), "bridge", "stream-json", "cat"]
    done = subprocess.run(argv, input=data, env=environ_of(sidecar), capture_output=True, timeout=WAIT_S)
    assert (done.returncode, done.stdout == data, done.stderr) == (0, True, b"")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGSEGV])
def test_the_agents_end_is_ours(sidecar: Installation, number: int) -> None:
    with start(sidecar, "sh", "-c", f"ulimit -c 0; kill -{int(number)} $$") as process:
        assert process.wait(WAIT_S) == -number


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_are_for_the_agent(sidecar: Installation, number: int) -> None:
    script = f"trap 'echo got; exit 5' {int(number)}; echo ready; while :; do sleep 0.1; done"
    with start(sidecar, "sh", "-c", script) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(number)
        assert process.stdout.readline() == b"got\n"
        assert process.wait(WAIT_S) == 5


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


def test_an_agent_that_ends_slowly_after_the_end_of_its_input(sidecar: Installation) -> None:
    script = "cat >/dev/null; echo closing; sleep 0.5; echo -n bye; exit 4"
    with start(sidecar, "bash", "-c", script) as process:
        output, _ = process.communicate(b"x", WAIT_S)
    assert (output, process.returncode) == (b"closing\nbye", 4)


def test_an_agent_that_reads_nothing_and_ends(sidecar: Installation) -> None:
    """What the client still writes is lost, as without us; it is neither waited for nor an error."""
    with start(sidecar, "sh", "-c", "exec 0<&-; echo gone; exit 3") as process:
        output, errors = process.communicate(b"x" * 1_000_000, WAIT_S)
    assert (output, errors, process.returncode) == (b"gone\n", b"", 3)


def test_a_terminal_is_the_agents_own(sidecar: Installation) -> None:
    """Claude Code waits 3 s for what a pipe may bring it, and for a terminal not at all."""
    code = "import os, sys; print(os.isatty(0), os.isatty(1), sys.stdin.readline().strip(), flush=True); sys.exit(7)"
    controller, terminal = os.openpty()
    bridge = [str(sidecar.script), "bridge", "stream-json", "--", sys.executable, "-c", code]
    process = subprocess.Popen(bridge, stdin=terminal, stdout=subprocess.PIPE, env=environ_of(sidecar))
    os.close(terminal)
    os.write(controller, b"typed\n")
    out, _ = process.communicate(timeout=WAIT_S)
    os.close(controller)
    assert (out, process.returncode) == (b"True False typed\n", 7)
