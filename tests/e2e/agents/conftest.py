"""The runs of those agents that the chosen tests are of."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from agent_runs import Runs
from real_agents import AGENTS


@pytest.fixture(scope="session")
def runs(request: pytest.FixtureRequest, installed: str) -> Iterator[Runs]:
    chosen = [item for item in request.session.items if isinstance(item, pytest.Function) and hasattr(item, "callspec")]

    def names(module: str) -> list[str]:
        of_module = {item.callspec.params.get("agent") for item in chosen if item.module.__name__ == module}
        return [name for name in AGENTS if name in of_module]

    # Short: sockets are in it.
    folder = Path(tempfile.mkdtemp(prefix="sidecar-agents-"))
    modules = ("test_agents_acp", "test_agents_headless", "test_agents_without_bridge")
    runs = Runs(folder, *map(names, modules))
    try:
        yield runs
    finally:
        runs.close()
        shutil.rmtree(folder, ignore_errors=True)
