"""The agents' runs, all begun at once: they wait far more than they work."""

from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import acp_session
import e2e_tools
import pytest
from acp_session import Seen
from real_agents import AGENTS

SILENT = "echo first; sleep 25; echo last >&2; exit 3"
ENDLESS = "sleep 3001 & sleep 3002; echo never"
AT_ONCE = 6


class Runs:
    """`of(NAME, KIND)`: silent (wrapped), bare (the same command, unwrapped) or cancelled."""

    def __init__(self, folder: Path, names: list[str]) -> None:
        self._folder = folder
        self._pool = ThreadPoolExecutor(AT_ONCE)
        self._runs: dict[tuple[str, str], Future[Seen]] = {}
        for kind in ("silent", "bare", "cancelled"):
            for name in names:
                if (program := e2e_tools.find(AGENTS[name].program)) is not None:
                    self._runs[name, kind] = self._begin(name, program, kind)

    def _begin(self, name: str, program: str, kind: str) -> "Future[Seen]":
        return self._pool.submit(
            acp_session.run,
            AGENTS[name],
            program,
            self.folder(name, kind),
            ENDLESS if kind == "cancelled" else SILENT,
            wrapped=kind != "bare",
            cancel=kind == "cancelled",
        )

    def folder(self, name: str, kind: str) -> Path:
        # One path for the wrapped and the bare run would be better still, but they run at the same time.
        return self._folder / f"{name}-{kind}"

    def of(self, name: str, kind: str) -> Seen:
        if (name, kind) not in self._runs:
            pytest.skip(e2e_tools.why_not(AGENTS[name].program))
        return self._runs[name, kind].result()

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)
