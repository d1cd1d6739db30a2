"""The agents that `sidecar setup` knows: what is changed for each, where, and how a wrapped one is told.

An agent is never made to run more than the user allowed it: what decides on a call sees the command as the model wrote
it, and nothing of ours answers in the user's place. docs/agents has a page for each.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from sidecar.agents import launchers, settings_files
from sidecar.agents.edits import Edit
from sidecar.agents.places import Places
from sidecar.agents.records import Record
from sidecar.core.errors import UsageError
from sidecar.core.values import printable

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

    def to_undo(self, places: Places, scope: str, record: Record) -> list[Edit]:
        """The edits, and besides those that were done in other places: of the shell that the user had then, below a
        variable that is no longer set, in a file that another one has taken the place of. Raises UsageError."""
        edits = self.planned(places, scope)
        shapes = {
            type(each).__name__: each
            for shell in ("sh", "fish")
            for each in self.edits(replace(places, environ={**places.environ, "SHELL": shell}), scope)
        }
        here = {each.path for each in edits}
        for entry in record.files:
            if entry.path in here:
                continue
            if entry.kind not in shapes:
                raise UsageError(f"{printable(entry.path)}: was set up by an older sidecar; take it out by hand")
            edits.append(replace(shapes[entry.kind], path=entry.path))
        return edits


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
