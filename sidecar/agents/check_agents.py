"""What `sidecar doctor` asks of the agents: is it here, which version, is it wrapped, and will the wrapping be used."""

import json
import os
import shutil
from collections.abc import Sequence
from functools import partial

from sidecar.agents import changes
from sidecar.agents.catalog import AGENTS, USER, Agent
from sidecar.agents.checkup import NOTE, OK, PROBLEM, Check, Question
from sidecar.agents.edits import Link
from sidecar.agents.launchers import LAUNCH
from sidecar.agents.places import Places
from sidecar.core.errors import UsageError
from sidecar.core.values import printable

_MAX_PACKAGE_BYTES = 1 << 20


def questions(places: Places, names: Sequence[str]) -> list[Question]:
    """`names`: agents that must be wrapped; none = whichever are found."""
    asked = names or list(AGENTS)
    return [(name, partial(_agent, AGENTS[name], places, name in names)) for name in asked]


def _agent(agent: Agent, places: Places, must_be: bool) -> Sequence[Check]:
    try:
        scopes = [scope for scope in agent.scopes if scope == USER or not places.is_home]
        states = {scope: changes.state(agent.planned(places, scope)) for scope in scopes}
    except UsageError as error:
        return [Check(agent.name, PROBLEM, printable(str(error)), "mend that file by hand")]
    here = _described(agent, places)
    found = _found(agent, places) is not None or agent.program is None
    checks = []
    for scope, state in states.items():
        words = agent.name if scope == USER else f"{agent.name} --scope {scope}"
        if state == changes.PARTLY:
            text = f"{here}; it was wrapped ({scope}), and not all of that is there, or it is another sidecar's"
            checks.append(Check(agent.name, PROBLEM, text, f"`sidecar setup {words} --apply`, or --undo"))
        elif state == changes.DONE:
            checks.append(_of_wrapped(agent, places, scope, words, here, found))
    if checks:
        return checks
    if not found:
        status = PROBLEM if must_be else NOTE
        return [Check(agent.name, status, here, f"install {agent.program}, or put it on PATH" if must_be else "")]
    if agent.program is None and not must_be:
        return []
    return [
        Check(agent.name, PROBLEM if must_be else NOTE, f"{here}; not wrapped", f"`sidecar setup {agent.name} --apply`")
    ]


def _of_wrapped(agent: Agent, places: Places, scope: str, words: str, here: str, found: bool) -> Check:
    if not found:
        mend = f"put {agent.program} on PATH; or take it out: `sidecar setup {words} --undo`"
        return Check(agent.name, NOTE, f"{here}; set up ({scope}) for when it is", mend)
    launcher = os.path.join(places.agent_folder(agent.name), LAUNCH, agent.program or "")
    has_launcher = any(isinstance(edit, Link) and edit.path == launcher for edit in agent.planned(places, scope))
    if has_launcher and _first_on_path(agent, places) != launcher:
        text = f"{here}; wrapped, but its launcher is not first on PATH here, so {agent.program} starts unwrapped"
        return Check(agent.name, PROBLEM, text, f"open a new shell, or start {printable(launcher)}")
    return Check(agent.name, OK, f"{here}; wrapped ({scope})")


def _described(agent: Agent, places: Places) -> str:
    if agent.program is None:
        return "a folder of shims"
    path = _found(agent, places)
    return f"{agent.program} is not on PATH" if path is None else f"{printable(path)}, version {_version(path)}"


def _first_on_path(agent: Agent, places: Places) -> str | None:
    return shutil.which(agent.program or "", path=places.environ.get("PATH", os.defpath))


def _found(agent: Agent, places: Places) -> str | None:
    """The agent's own program, behind a launcher of ours."""
    launch = os.path.join(places.agent_folder(agent.name), LAUNCH)
    folders = places.environ.get("PATH", os.defpath).split(os.pathsep)
    return shutil.which(agent.program or "", path=os.pathsep.join(each for each in folders if each != launch))


def _version(program: str) -> str:
    """By the package.json of the package it came in: an agent is not started to be asked."""
    folder = os.path.dirname(os.path.realpath(program))
    while len(folder) > 1:
        try:
            with open(os.path.join(folder, "package.json"), "rb") as file:
                content = json.loads(file.read(_MAX_PACKAGE_BYTES))
            if isinstance(content, dict) and isinstance(content.get("version"), str):
                return printable(content["version"])
        except (OSError, ValueError):
            pass
        if os.path.basename(folder) == "node_modules":
            break
        folder = os.path.dirname(folder)
    return "unknown"
