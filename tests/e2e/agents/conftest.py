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
    params = [item.callspec.params for item in request.session.items if hasattr(item, "callspec")]
    names = [name for name in AGENTS if name in {each.get("agent") for each in params}]
    # Short: sockets are in it.
    folder = Path(tempfile.mkdtemp(prefix="sidecar-agents-"))
    runs = Runs(folder, names)
    try:
        yield runs
    finally:
        runs.close()
        shutil.rmtree(folder, ignore_errors=True)
