"""The agents' runs, all begun at once: they wait far more than they work."""

import signal
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
Kinds = dict[str, tuple[Callable[[Agent], str], dict[str, Any]]]
"""KIND: the command, and how its agent is run."""


def silent(agent: Agent) -> str:
    """Silent until the agent has beaten by itself, where it does."""
    return SILENT.format(agent.silent_s)


class Runs:
    """Over ACP `of(NAME, KIND)`: silent (wrapped), bare (the same command, unwrapped) or cancelled. Headless
    `headless(NAME, KIND)`: headless, ended (by SIGTERM), bare-headless, bare-ended; in stream-json partial (with
    partial messages) too, and without a bridge interrupted (by SIGINT) and bare-interrupted."""

    def __init__(
        self, folder: Path, over_acp: Iterable[str], in_stream_json: Iterable[str], without_bridge: Iterable[str]
    ) -> None:
        self._folder = folder
        self._pool = ThreadPoolExecutor(AT_ONCE)
        self._runs: dict[tuple[str, str], Future[Any]] = {}
        headless: Kinds = {
            "headless": (silent, {}),
            "bare-headless": (silent, {"wrapped": False}),
            "ended": (lambda _: ENDLESS_TOLD, {"ended_by": signal.SIGTERM}),
            "bare-ended": (lambda _: ENDLESS_TOLD, {"ended_by": signal.SIGTERM, "wrapped": False}),
        }
        partial: Kinds = {"partial": (silent, {"options": PARTIAL})}
        interrupted: Kinds = {
            "interrupted": (lambda _: ENDLESS_TOLD, {"ended_by": signal.SIGINT}),
            "bare-interrupted": (lambda _: ENDLESS_TOLD, {"ended_by": signal.SIGINT, "wrapped": False}),
        }
        over: Kinds = {
            "silent": (silent, {}),
            "bare": (silent, {"wrapped": False}),
            "cancelled": (lambda _: ENDLESS, {"cancel": True}),
        }
        self._begin(over_acp, acp_session.run, over)
        self._begin(in_stream_json, headless_session.run, headless | partial)
        self._begin(without_bridge, headless_session.run, headless | interrupted)

    def _begin(self, names: Iterable[str], run: Callable[..., Any], kinds: Kinds) -> None:
        for name in names:
            agent = AGENTS[name]
            if (program := e2e_tools.find(agent.program)) is None:
                continue
            for kind, (command, how) in kinds.items():
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
