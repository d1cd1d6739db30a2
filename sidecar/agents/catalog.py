"""The agents that `sidecar setup` knows: what is changed for each, where, and how a wrapped one is told.

An agent is never made to run more than the user allowed it: what decides on a call sees the command as the model wrote
it, and nothing of ours answers in the user's place. docs/agents has a page for each.
"""

from collections.abc import Callable
from dataclasses import dataclass

from sidecar.agents import launchers, settings_files
from sidecar.agents.edits import Edit
from sidecar.agents.places import Places
from sidecar.core.errors import UsageError

USER, PROJECT = "user", "project"
SCOPES = (USER, PROJECT)


@dataclass(frozen=True)
class Agent:
    """`program` is its name on PATH, None for none; `edits` gives what is changed for a scope of `scopes`.

    `next_step` is what the user does once it is applied.
    """

    name: str
    program: str | None
    scopes: tuple[str, ...]
    edits: Callable[[Places, str], list[Edit]]
    next_step: Callable[[Places], str]

    def planned(self, places: Places, scope: str) -> list[Edit]:
        """The edits. Raises UsageError for a scope that it does not have."""
        if scope not in self.scopes:
            raise UsageError(
                f"{self.name} has no scope {scope!r}: no file of a project says which shell it runs; use --scope user"
            )
        if scope == PROJECT and places.is_home:
            raise UsageError("this folder is your home, not a project: use --scope user")
        return self.edits(places, scope)


AGENTS = {
    agent.name: agent
    for agent in (
        Agent(
            "claude-code",
            "claude",
            SCOPES,
            settings_files.claude_code,
            lambda _: "start claude anew; running ones go on",
        ),
        Agent("qwen-code", "qwen", (USER,), launchers.qwen_code, launchers.next_step("qwen-code", "qwen")),
        Agent("gemini-cli", "gemini", (USER,), launchers.gemini_cli, launchers.next_step("gemini-cli", "gemini")),
        Agent("codex", "codex", SCOPES, settings_files.codex, lambda _: "start codex anew; running ones go on"),
        Agent("opencode", "opencode", SCOPES, settings_files.opencode, lambda _: "start opencode anew"),
        Agent("path", None, (USER,), launchers.path, launchers.path_next_step),
    )
}
