"""The agents' runs, all begun at once: they wait far more than they work."""

from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import acp_session
import e2e_tools
import headless_session
import pytest
from acp_session import Seen
from headless_session import Headless
from real_agents import AGENTS, Agent

SILENT = "echo first; sleep {}; echo last >&2; exit 3"
ENDLESS = "sleep 3001 & sleep 3002; echo never"
ENDLESS_TOLD = f"touch running; {ENDLESS}"
PARTIAL = ("--include-partial-messages",)
AT_ONCE = 6


def silent(agent: Agent) -> str:
    """Silent until the agent has beaten by itself, where it does."""
    return SILENT.format(agent.silent_s)


class Runs:
    """Over ACP `of(NAME, KIND)`: silent (wrapped), bare (the same command, unwrapped) or cancelled. In stream-json
    `headless(NAME, KIND)`: headless, partial (with partial messages), ended (by SIGTERM), bare-headless, bare-ended."""

    def __init__(self, folder: Path, over_acp: Iterable[str], in_stream_json: Iterable[str]) -> None:
        self._folder = folder
        self._pool = ThreadPoolExecutor(AT_ONCE)
        self._runs: dict[tuple[str, str], Future[Any]] = {}
        acp_names, names = list(over_acp), list(in_stream_json)
        for kind, command, how in (
            ("silent", silent, {}),
            ("bare", silent, {"wrapped": False}),
            ("cancelled", lambda _: ENDLESS, {"cancel": True}),
        ):
            self._begin(acp_names, kind, acp_session.run, command, **how)
        for kind, command, how in (
            ("headless", silent, {}),
            ("partial", silent, {"options": PARTIAL}),
            ("bare-headless", silent, {"wrapped": False}),
            ("ended", lambda _: ENDLESS_TOLD, {"cancel": True}),
            ("bare-ended", lambda _: ENDLESS_TOLD, {"cancel": True, "wrapped": False}),
        ):
            self._begin(names, kind, headless_session.run, command, **how)

    def _begin(
        self, names: list[str], kind: str, run: Callable[..., Any], command: Callable[[Agent], str], **how: Any
    ) -> None:
        for name in names:
            agent = AGENTS[name]
            if (program := e2e_tools.find(agent.program)) is not None:
                self._runs[name, kind] = self._pool.submit(
                    run, agent, program, self.folder(name, kind), command(agent), **how
                )

    def folder(self, name: str, kind: str) -> Path:
        # One path for the wrapped and the bare run would be better still, but they run at the same time.
        return self._folder / f"{name}-{kind}"

    def heartbeats(self, name: str) -> int:
        """Of the silent command, one each 10 s."""
        return AGENTS[name].silent_s // 10

    def of(self, name: str, kind: str) -> Seen:
        seen = self._seen(name, kind)
        assert isinstance(seen, Seen)
        return seen

    def headless(self, name: str, kind: str) -> Headless:
        seen = self._seen(name, kind)
        assert isinstance(seen, Headless)
        return seen

    def _seen(self, name: str, kind: str) -> Any:
        if (name, kind) not in self._runs:
            pytest.skip(e2e_tools.why_not(AGENTS[name].program))
        return self._runs[name, kind].result()

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)
