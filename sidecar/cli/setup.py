"""`sidecar setup AGENT`: shows, does and undoes what makes an agent run its shell through the sidecar.

0    shown, done, undone, or nothing to do
125  refused, with one line that says why; nothing was changed
"""

import os

import click

from sidecar import start_script
from sidecar.agents import changes, records
from sidecar.agents.catalog import AGENTS, SCOPES, USER, Agent
from sidecar.agents.places import Places
from sidecar.core.values import printable

_PRINT, _APPLY, _UNDO = "print", "apply", "undo"


@click.command("setup", short_help="Have an agent run its shell through the sidecar; or no longer.")
@click.argument("name", metavar="AGENT", type=click.Choice(list(AGENTS)))
@click.option("--print", "action", flag_value=_PRINT, default=True, help="Show the exact change, do nothing (default).")
@click.option("--apply", "action", flag_value=_APPLY, help="Do it, and keep what was there before.")
@click.option("--undo", "action", flag_value=_UNDO, help="Take it out again.")
@click.option("--scope", type=click.Choice(SCOPES), default=USER, show_default=True, help="For you, or this folder.")
def setup(name: str, action: str, scope: str) -> None:
    """Show what makes AGENT run its shell commands through the sidecar; with --apply do it, with --undo undo it.

    AGENT is claude-code, qwen-code, gemini-cli, codex, opencode, or `path`: a folder of shims for any other. Your other
    settings and their comments stay as they are. What is decided about a call, and who is asked, stays as it was.
    """
    agent = AGENTS[name]
    places = Places(os.environ, os.path.realpath(os.getcwd()))
    project = None if scope == USER else places.project
    edits = agent.planned(places, scope)
    if action == _PRINT:
        shown = changes.plan_apply(edits, project)
        _show(shown)
        words = _words(agent, scope)
        click.echo(f"# nothing was changed; `sidecar setup {words} --apply` does it" if shown else _done(agent))
        return
    if action == _APPLY:
        changes.plan_apply(edits, project)  # what is refused leaves no folder of ours behind
    with records.locked(places.state):
        record = records.load(places, agent.name, scope)
        if action == _APPLY:
            done = changes.apply(edits, record, project)
            start_script.make_direct()
        else:
            done = changes.undo(agent.to_undo(places, scope, record), record, project)
    _show(done)
    if action == _UNDO:
        click.echo(f"# undone: {agent.name}" if done else f"# nothing to undo: {agent.name} is not set up")
    else:
        click.echo(f"# done; `sidecar setup {_words(agent, scope)} --undo` takes it out" if done else _done(agent))
        click.echo(f"# {printable(agent.next_step(places))}")


def _words(agent: Agent, scope: str) -> str:
    return agent.name if scope == USER else f"{agent.name} --scope {scope}"


def _done(agent: Agent) -> str:
    return f"# nothing to do: {agent.name} is set up already"


def _show(shown: list[changes.Change]) -> None:
    for change in shown:
        click.echo(change.diff, nl=False)
        if change.note:
            click.echo(f"# {printable(change.path)}: {change.note}")
