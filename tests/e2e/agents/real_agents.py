"""The real agents: how each is set up in an empty home folder for a model of ours, wrapped or bare, and started.

Their packages are pinned by the lock files beside this file and installed by `e2e_tools.py`. Nothing but the model and
the receiver is to be reached: telemetry, update checks and the like are off, and there is no proxy.
"""

import json
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from installed import SCRIPT

KEY = "no-key"


class Home(NamedTuple):
    """`home` and `workspace` are empty folders of the agent's own."""

    home: Path
    workspace: Path
    model_url: str

    def write(self, path: str, content: Mapping[str, Any] | str) -> None:
        file = self.home / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content if isinstance(content, str) else json.dumps(content))


Environ = dict[str, str]


class Agent(NamedTuple):
    """`name` as `sidecar setup` has it, `program` on PATH. `configure` writes its files and returns the variables that
    it needs. `acp` and `headless`: its arguments to speak ACP, and to answer one prompt in stream-json; empty where it
    does not. `own_beats`: it beats by itself, within `silent_s`."""

    name: str
    program: str
    configure: Callable[[Home], Environ]
    acp: tuple[str, ...] = ()
    headless: tuple[str, ...] = ()
    own_beats: bool = False
    silent_s: int = 25


def set_up(agent: Agent, environ: Environ, workspace: Path) -> Environ:
    """What `sidecar setup AGENT --apply` makes of it: the variables of a shell that the user opens afterwards."""
    subprocess.run(
        [SCRIPT, "setup", agent.name, "--apply"], env=environ, cwd=workspace, stdout=subprocess.DEVNULL, check=True
    )
    opened = '[ ! -e "$HOME/.profile" ] || . "$HOME/.profile"; printf %s "$PATH"'
    path = subprocess.run(["sh", "-c", opened], env=environ, capture_output=True, text=True, check=True).stdout
    return {**environ, "PATH": path}


def _qwen(home: Home) -> Environ:
    settings = {
        "general": {"enableAutoUpdate": False, "disableAutoUpdate": True},
        "privacy": {"usageStatisticsEnabled": False},
        "telemetry": {"enabled": False},
        "security": {"auth": {"selectedType": "openai"}},
    }
    home.write(".qwen/settings.json", settings)
    return {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": f"{home.model_url}/v1", "OPENAI_MODEL": "scripted"}


def _gemini(home: Home) -> Environ:
    settings = {
        "general": {"enableAutoUpdate": False, "enableAutoUpdateNotification": False},
        "privacy": {"usageStatisticsEnabled": False},
        "telemetry": {"enabled": False},
        "model": {"name": "gemini-2.5-flash"},
        "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}},
    }
    home.write(".gemini/settings.json", settings)
    return {"GEMINI_API_KEY": KEY, "GOOGLE_GEMINI_BASE_URL": home.model_url}


def _claude(home: Home) -> Environ:
    home.write(".claude.json", {"hasCompletedOnboarding": True})
    return {
        "ANTHROPIC_API_KEY": KEY,
        "ANTHROPIC_BASE_URL": home.model_url,
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
    }


_STREAM_JSON = ("--output-format", "stream-json")
AGENTS = {
    agent.name: agent
    for agent in (
        Agent("qwen-code", "qwen", _qwen, ("--acp",), ("-p", "run it", "--yolo", *_STREAM_JSON), own_beats=True),
        Agent("gemini-cli", "gemini", _gemini, ("--acp",)),
        Agent(
            "claude-code",
            "claude",
            _claude,
            headless=("-p", "run it", "--allowedTools", "Bash", "--verbose", *_STREAM_JSON),
            own_beats=True,
            silent_s=35,
        ),
    )
}
OVER_ACP = [agent.name for agent in AGENTS.values() if agent.acp]
HEADLESS = [agent.name for agent in AGENTS.values() if agent.headless]
