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
    it needs. `acp`, `headless` and `events`: its arguments to speak ACP, to answer one prompt in stream-json, and to
    answer it in JSON of its own, which no bridge speaks; empty where it does not. `own_beats`: it beats by itself,
    within `silent_s`. `lingers_when_cancelled`: it may not exit after a cancelled turn until it is told to."""

    name: str
    program: str
    configure: Callable[[Home], Environ]
    acp: tuple[str, ...] = ()
    headless: tuple[str, ...] = ()
    events: tuple[str, ...] = ()
    own_beats: bool = False
    silent_s: int = 25
    lingers_when_cancelled: bool = False


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


def _opencode(home: Home) -> Environ:
    # This one provider package is a part of the program; any other is asked of npm at its start.
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "Scripted",
        "options": {"baseURL": f"{home.model_url}/v1", "apiKey": KEY},
        "models": {"scripted": {"name": "Scripted"}},
    }
    settings = {
        "autoupdate": False,
        "share": "disabled",
        "model": "scripted/scripted",
        "small_model": "scripted/scripted",
        "provider": {"scripted": provider},
    }
    home.write(".config/opencode/opencode.json", settings)
    off = {f"OPENCODE_DISABLE_{name}": "1" for name in ("AUTOUPDATE", "LSP_DOWNLOAD", "MODELS_FETCH")}
    # Where there is a plugin, ours too, it asks npm for a package of its own and waits: 70 s where none answers.
    return {**off, "npm_config_offline": "true"}


def _codex(home: Home) -> Environ:
    settings = f"""\
model = "scripted"
model_provider = "scripted"
check_for_update_on_startup = false

[analytics]
enabled = false

[model_providers.scripted]
name = "Scripted"
base_url = "{home.model_url}/v1"
wire_api = "responses"
env_key = "OPENAI_API_KEY"
"""
    home.write(".codex/config.toml", settings)
    return {"OPENAI_API_KEY": KEY}


_STREAM_JSON = ("--output-format", "stream-json")
AGENTS = {
    agent.name: agent
    for agent in (
        Agent("qwen-code", "qwen", _qwen, ("--acp",), ("-p", "run it", "--yolo", *_STREAM_JSON), own_beats=True),
        # An event of a command that comes after its call was cancelled sets 0.61.0's timer for it, of 5 min, anew; the
        # agent waits for that timer before it exits, once in some twenty runs.
        Agent("gemini-cli", "gemini", _gemini, ("--acp",), lingers_when_cancelled=True),
        Agent(
            "claude-code",
            "claude",
            _claude,
            headless=("-p", "run it", "--allowedTools", "Bash", "--verbose", *_STREAM_JSON),
            own_beats=True,
            silent_s=35,
        ),
        Agent("opencode", "opencode", _opencode, ("acp",), events=("run", "--format", "json", "run it")),
        Agent(
            "codex",
            "codex",
            _codex,
            events=("exec", "--json", "--skip-git-repo-check", "--sandbox", "danger-full-access", "run it"),
        ),
    )
}
OVER_ACP = [agent.name for agent in AGENTS.values() if agent.acp]
HEADLESS = [agent.name for agent in AGENTS.values() if agent.headless]
WITHOUT_BRIDGE = [agent.name for agent in AGENTS.values() if agent.events]
