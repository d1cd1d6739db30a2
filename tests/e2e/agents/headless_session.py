"""One run of a real agent without a user: what its client reads, what it wrote itself, what it left behind.

What writes stream-json runs behind the bridge; what writes JSON lines of its own has none, and its client reads it.
"""

import functools
import json
import os
import signal
import subprocess
import threading
import time
import uuid
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import acp_session
from installed import SCRIPT, Sidecar, new_trace
from real_agents import Agent, Home, set_up
from scripted_model import ScriptedModel

from sidecar.testing.otlp import OtlpReceiver
from sidecar.testing.received import ReceivedSpan

Json = dict[str, Any]
END_S = 120
"""For a whole run; the command takes 25 s of it, the rest is for starts on two processors that start six at once."""
_COPIED = """copy=$1; shift; set -o pipefail; "$@" | tee "$copy" """
"""The agent's output as it leaves the agent, for comparison; its exit status stays."""


@dataclass
class Headless:
    """`read`: what came out, `written`: what the agent wrote (both whole; the same where there is no bridge)."""

    read: bytes = b""
    written: bytes = b""
    exit_code: int | None = None
    tool_results: list[str] = field(default_factory=list)
    spans: list[ReceivedSpan] = field(default_factory=list)
    trace_id: str = ""
    parent_id: str = ""
    surviving: list[str] = field(default_factory=list)

    def messages(self) -> list[Json]:
        return [json.loads(line) for line in self.read.splitlines()]

    def added(self) -> list[Json]:
        return [message for message in self.messages() if is_ours(message)]

    def without_added(self) -> bytes:
        return b"".join(line for line in self.read.splitlines(keepends=True) if not is_ours(json.loads(line)))


def is_ours(message: Json) -> bool:
    return message.get("type") == "system" and message.get("subtype") == "sidecar_verdict"


def run(
    agent: Agent,
    program: str,
    folder: Path,
    command: str,
    *,
    options: tuple[str, ...] = (),
    wrapped: bool = True,
    ended_by: signal.Signals | None = None,
) -> Headless:
    """Have it run the command, asked for by its model. `ended_by`: sent, once the command runs (it makes a file
    `running` in its folder), to the bridge alone, or to the group that the client has started where there is none."""
    seen = Headless()
    traceparent, seen.trace_id, seen.parent_id = new_trace()
    with ExitStack() as stack:
        model = stack.enter_context(ScriptedModel([{"shell": command}, {"text": "all done"}]))
        receiver = stack.enter_context(OtlpReceiver())
        home = Home(folder / "home", folder / "work", model.url)
        home.home.mkdir(parents=True)
        home.workspace.mkdir()
        environ = {
            "PATH": f"{Path(program).parent}:{os.environ['PATH']}",
            "HOME": str(home.home),
            "LANG": "C.UTF-8",
            "TRACEPARENT": traceparent,
            acp_session.MARK: uuid.uuid4().hex,
        }
        environ |= agent.configure(home)
        words = [agent.program, *(agent.headless or agent.events), *options]
        copy = folder / "written"
        if ended_by is None:
            words = ["/bin/bash", "-c", _COPIED, "copied", str(copy), *words]
        if wrapped:
            sidecar = stack.enter_context(Sidecar(folder, receiver.http_endpoint, 10.0))
            environ = set_up(agent, environ | sidecar.of_daemon(), home.workspace)
            if agent.headless:
                words = [str(SCRIPT), "bridge", "stream-json", "--", *words]
        errors = stack.enter_context(open(folder / "stderr", "w+b"))
        process = subprocess.Popen(
            words,
            env=environ,
            cwd=home.workspace,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,
        )
        if ended_by is not None:
            running = home.workspace / "running"
            # Qwen's launcher leaves its own child behind when it alone is told; the bridge sees to that.
            send = os.kill if wrapped and agent.headless else os.killpg
            end = functools.partial(send, process.pid, ended_by)
            threading.Thread(target=_end, args=(process, running, end), daemon=True).start()
        try:
            seen.read, _ = process.communicate(timeout=END_S)
        except subprocess.TimeoutExpired:
            alive = "\n".join(f"{pid} {line}" for pid, line in acp_session.marked(environ[acp_session.MARK]).items())
            for pid in acp_session.marked(environ[acp_session.MARK]):
                os.kill(pid, signal.SIGKILL)
            said = process.communicate()[0].decode(errors="replace")
            complaint = (folder / "stderr").read_text(errors="replace")[-4000:]
            raise AssertionError(f"{agent.name} took longer than {END_S} s\n{alive}\n{said}\n{complaint}") from None
        seen.exit_code = process.returncode
        seen.written = copy.read_bytes() if copy.exists() else seen.read
        seen.surviving = _end_left(environ[acp_session.MARK])
        seen.tool_results = model.tool_results()
        if wrapped:
            receiver.wait_for_span(lambda span: span.attributes.get("sidecar.span.role") == "command", 60)
            seen.spans = receiver.spans
    return seen


def _end_left(mark: str) -> list[str]:
    """What is left of the agent; it is ended as its user would do it, by a SIGTERM to the groups, and then for sure."""
    left = acp_session.gone(mark, frozenset())
    if left:
        for pid in acp_session.marked(mark):
            with suppress(ProcessLookupError):
                if os.getpgid(pid) == pid:
                    os.killpg(pid, signal.SIGTERM)
        acp_session.gone(mark, frozenset())
        for pid in acp_session.marked(mark):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    return left


def _end(process: "subprocess.Popen[bytes]", running: Path, end: Callable[[], None]) -> None:
    deadline_s = time.monotonic() + acp_session.START_S
    while time.monotonic() < deadline_s and process.poll() is None:
        if running.exists():
            end()
            return
        time.sleep(0.05)
