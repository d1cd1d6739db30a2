"""Agents that find their shell by its name on PATH: a folder of shims, and a launcher that puts it there.

    $XDG_DATA_HOME/sidecar/agents/<agent>/launch/<program>   a link to sidecar-sh; first on the user's PATH
                                         /shims/bash         a link to sidecar-sh; first on the agent's PATH

`qwen` starts the launcher, which starts the real qwen with the shims before everything else on PATH. A shim takes
its folder from PATH again, so that the command sees the PATH it would have seen (supervisor/shim.py). They are links:
where the sidecar was removed they lead nowhere, and the search for a program goes on behind them.
"""

import os
import shlex
from collections.abc import Callable

from sidecar.agents.edits import Block, Edit, Link, OwnFile
from sidecar.agents.places import Places
from sidecar.core.errors import UsageError
from sidecar.core.values import printable

LAUNCH, SHIMS = "launch", "shims"


def qwen_code(places: Places, scope: str) -> list[Edit]:
    return _launched(places, "qwen-code", "qwen")


def gemini_cli(places: Places, scope: str) -> list[Edit]:
    return _launched(places, "gemini-cli", "gemini")


def path(places: Places, scope: str) -> list[Edit]:
    folder = os.path.join(places.agent_folder("path"), SHIMS)
    if ":" in folder:
        raise UsageError(f"{printable(folder)}: has a letter that cannot stand in PATH")
    return [Link(os.path.join(folder, name), places.sidecar_sh) for name in ("bash", "sh")]


def next_step(agent: str, program: str) -> Callable[[Places], str]:
    def text(places: Places) -> str:
        launcher = os.path.join(places.agent_folder(agent), LAUNCH, program)
        return f"open a new shell and start {program} there; an editor, which has no shell, is given {launcher}"

    return text


def path_next_step(places: Places) -> str:
    folder = os.path.join(places.agent_folder("path"), SHIMS)
    quoted = f'"{folder}:$PATH"' if shlex.quote(folder) == folder else f'{shlex.quote(folder)}:"$PATH"'
    return f"start an agent with PATH={quoted}"


def _launched(places: Places, agent: str, program: str) -> list[Edit]:
    folder = places.agent_folder(agent)
    launch = os.path.join(folder, LAUNCH)
    return [
        Link(os.path.join(folder, SHIMS, "bash"), places.sidecar_sh),
        Link(os.path.join(launch, program), places.sidecar_sh),
        _on_path(places, agent, launch),
    ]


def _on_path(places: Places, agent: str, folder: str) -> Edit:
    """The lines that put a folder first on the PATH of the user's shell ($SHELL), in that shell's start-up file."""
    if any(letter in folder for letter in "\"'\\$`\n:"):
        raise UsageError(f"{printable(folder)}: has a letter that cannot stand in PATH or in a shell's start-up file")
    shell = os.path.basename(places.environ.get("SHELL", ""))
    if shell == "fish":
        mine = os.path.join(places.config, "fish", "conf.d", f"sidecar-{agent}.fish")
        content = f"# Made by `sidecar setup {agent}`; --undo removes it.\nfish_add_path --path --prepend '{folder}'\n"
        return OwnFile(mine, content, f"sidecar setup {agent}")
    if shell == "zsh":
        file = os.path.join(places.folder_of("ZDOTDIR", ""), ".zshrc")
    else:
        file = os.path.join(places.home, ".bashrc" if shell == "bash" else ".profile")
    return Block(file, agent, (f'case ":$PATH:" in *":{folder}:"*) ;; *) PATH="{folder}:$PATH" ;; esac', "export PATH"))
