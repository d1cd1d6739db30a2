"""One turn of a real agent over ACP, with the official SDK as its client: what was seen, and what was left behind."""

import asyncio
import json
import os
import re
import signal
import sys
import time
import uuid
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import acp
from acp import schema
from installed import SCRIPT, Sidecar, new_trace
from real_agents import Agent, Home, set_up
from scripted_model import ScriptedModel

from sidecar.testing.otlp import OtlpReceiver
from sidecar.testing.received import ReceivedSpan

Json = dict[str, Any]
START_S = 120
"""For a start and a turn, on two busy processors that start six agents at once: nothing is measured by it."""
EXIT_S = 30
"""How long an agent that may linger is waited for once its client has gone."""
QUIET_S = 2.0
"""How long is listened on after the turn: what would come late comes then."""
GONE_S = 25.0
MARK = "SIDECAR_TEST_MARK"


@dataclass
class Seen:
    """`updates`: of the turn, as the SDK has read them, in order; those of a call have a `toolCallId`. `questions`: the
    calls that leave was asked for. `lingering`: processes that the turn left beside the agent; `surviving`: any that
    outlived the agent."""

    updates: list[Json] = field(default_factory=list)
    questions: list[str] = field(default_factory=list)
    stop_reason: str = ""
    exit_code: int | None = None
    tool_results: list[str] = field(default_factory=list)
    spans: list[ReceivedSpan] = field(default_factory=list)
    trace_id: str = ""
    parent_id: str = ""
    lingering: list[str] = field(default_factory=list)
    surviving: list[str] = field(default_factory=list)

    def of_calls(self) -> list[Json]:
        return [update for update in self.updates if "toolCallId" in update]


class Client(acp.Client):
    """Allows what it is asked, once each, and notes all."""

    def __init__(self, seen: Seen, on_update: Callable[[Json], None]) -> None:
        self._seen = seen
        self._on_update = on_update

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        body = update.model_dump(mode="json", by_alias=True, exclude_unset=True)
        self._seen.updates.append(body)
        self._on_update(body)

    async def request_permission(
        self, session_id: str, tool_call: Any, options: list[Any], **_: Any
    ) -> schema.RequestPermissionResponse:
        self._seen.questions.append(tool_call.tool_call_id)
        allowed = next(option.option_id for option in options if option.kind == "allow_once")
        outcome = schema.AllowedOutcome(outcome="selected", option_id=allowed)
        return schema.RequestPermissionResponse(outcome=outcome)

    async def ext_method(self, method: str, params: Json) -> Json:
        raise acp.RequestError.method_not_found(method)

    async def ext_notification(self, method: str, params: Json) -> None:
        """Qwen's `qwen/notify/...`: nothing that is of interest here."""


def is_ours(update: Json) -> bool:
    """A frame that the bridge has added."""
    return "sidecar" in (update.get("_meta") or {})


def run(agent: Agent, program: str, folder: Path, command: str, *, wrapped: bool = True, cancel: bool = False) -> Seen:
    """Have it run the command, asked for by its model. `cancel`: as soon as a frame of ours has come."""
    seen = Seen()
    traceparent, seen.trace_id, seen.parent_id = new_trace()
    with ExitStack() as stack:
        model = stack.enter_context(ScriptedModel([{"shell": command}, {"text": "all done"}]))
        receiver = stack.enter_context(OtlpReceiver())
        home = Home(folder / "home", folder / "work", model.url)
        home.home.mkdir(parents=True)
        home.workspace.mkdir()
        words = [agent.program, *agent.acp]
        path = f"{Path(program).parent}:{os.environ['PATH']}"
        environ = {
            "PATH": path,
            "HOME": str(home.home),
            "LANG": "C.UTF-8",
            "TRACEPARENT": traceparent,
            MARK: uuid.uuid4().hex,
        }
        environ |= agent.configure(home)
        if wrapped:
            sidecar = stack.enter_context(Sidecar(folder, receiver.http_endpoint, 10.0))
            environ = set_up(agent, environ | sidecar.of_daemon(), home.workspace)
            words = [str(SCRIPT), "bridge", "acp", "--", *words]
        errors = stack.enter_context(open(folder / "stderr", "wb"))
        try:
            lingers = cancel and agent.lingers_when_cancelled
            asyncio.run(_turn(seen, words, environ, home.workspace, cancel, lingers, errors.fileno()))
        except TimeoutError:
            alive = "\n".join(f"{pid} {line}" for pid, line in marked(environ[MARK]).items())
            raise AssertionError(
                f"{agent.name} took longer than {START_S} s; of it there is\n{alive}\nit has said\n"
                f"{json.dumps(seen.updates, indent=1)}\n{seen.stop_reason}\n{seen.lingering}\n"
                f"{(folder / 'stderr').read_text(errors='replace')[-4000:]}"
            ) from None
        finally:
            for pid in marked(environ[MARK]) if sys.exc_info()[0] else ():
                os.kill(pid, signal.SIGKILL)
        seen.surviving = gone(environ[MARK], frozenset())
        seen.tool_results = model.tool_results()
        if wrapped:
            receiver.wait_for_span(lambda span: span.attributes.get("sidecar.span.role") == "command", 60)
            seen.spans = receiver.spans
    return seen


async def _turn(
    seen: Seen, words: list[str], environ: dict[str, str], workspace: Path, cancel: bool, lingers: bool, errors: int
) -> None:
    running = asyncio.Event()
    client = Client(seen, lambda update: running.set() if is_ours(update) else None)
    # What some agents say of themselves in one line is longer than the SDK's reader takes by default.
    transport = {"limit": 1 << 24, "stderr": errors}
    async with acp.spawn_agent_process(
        client, words[0], *words[1:], env=environ, cwd=workspace, transport_kwargs=transport
    ) as (agent, process):
        async with asyncio.timeout(START_S):
            await agent.initialize(protocol_version=acp.PROTOCOL_VERSION)
            session = await agent.new_session(cwd=str(workspace), mcp_servers=[])
            before = frozenset(marked(environ[MARK]))
            prompt = [acp.text_block("run it")]
            turn = asyncio.create_task(agent.prompt(session_id=session.session_id, prompt=prompt))
            if cancel:
                await running.wait()
                await agent.cancel(session_id=session.session_id)
            seen.stop_reason = (await turn).stop_reason
        await asyncio.sleep(QUIET_S)
        seen.lingering = await asyncio.to_thread(gone, environ[MARK], before)
        assert process.stdin is not None
        process.stdin.close()
        if lingers:
            with suppress(TimeoutError):
                async with asyncio.timeout(EXIT_S):
                    await process.wait()
            for pid in marked(environ[MARK]):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGTERM)
        async with asyncio.timeout(START_S):
            seen.exit_code = await process.wait()


def marked(mark: str) -> dict[int, str]:
    """(pid, command line) of all processes that have it in their environment: an agent's tree, wherever it went."""
    found = {}
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        try:
            if f"{MARK}={mark}".encode() in Path("/proc", pid, "environ").read_bytes():
                found[int(pid)] = Path("/proc", pid, "cmdline").read_text(errors="replace").replace("\0", " ")
        except OSError:
            continue
    return found


def gone(mark: str, kept: frozenset[int]) -> list[str]:
    """Waits until none but `kept` is left; what is there after GONE_S all the same."""
    deadline_s = time.monotonic() + GONE_S
    while (left := {pid: line for pid, line in marked(mark).items() if pid not in kept}) and (
        time.monotonic() < deadline_s
    ):
        time.sleep(0.1)
    return [f"{pid} {line}" for pid, line in left.items()]


def without_pids(text: str, folder: Path) -> str:
    """What differs from run to run in what an agent says of a command: folders, process ids, times."""
    text = text.replace(str(folder), "FOLDER")
    return re.sub(r"(PGID: |\"pid\": )\d+", r"\1PID", text)
