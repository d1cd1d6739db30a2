"""One run of a real agent that writes stream-json: what its client reads, what it wrote itself, what it left behind."""

import json
import os
import signal
import subprocess
import threading
import time
import uuid
from contextlib import ExitStack
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
    cancel: bool = False,
) -> Headless:
    """Have it run the command, asked for by its model. `cancel`: SIGTERM to the group that the client has
    started, once the command runs (it makes a file `running` in its folder)."""
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
        words = [agent.program, *agent.headless, *options]
        copy = folder / "written"
        if not cancel:
            words = ["/bin/bash", "-c", _COPIED, "copied", str(copy), *words]
        if wrapped:
            sidecar = stack.enter_context(Sidecar(folder, receiver.http_endpoint, 10.0))
            ours = {name: value for name, value in sidecar.environ.items() if name.startswith(("SIDECAR_", "XDG_"))}
            environ = set_up(agent, environ | ours, home.workspace)
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
        if cancel:
            threading.Thread(target=_cancel, args=(process, home.workspace / "running"), daemon=True).start()
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
        seen.surviving = acp_session.gone(environ[acp_session.MARK], frozenset())
        seen.tool_results = model.tool_results()
        if wrapped:
            receiver.wait_for_span(lambda span: span.attributes.get("sidecar.span.role") == "command", 20)
            seen.spans = receiver.spans
    return seen


def _cancel(process: "subprocess.Popen[bytes]", running: Path) -> None:
    deadline_s = time.monotonic() + acp_session.START_S
    while time.monotonic() < deadline_s and process.poll() is None:
        if running.exists():
            # Qwen's launcher leaves its own child behind when it alone is told, with us and without.
            os.killpg(process.pid, signal.SIGTERM)
            return
        time.sleep(0.05)
