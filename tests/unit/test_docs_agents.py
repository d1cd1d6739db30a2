"""docs/agents says what the code does: a page for each agent, and commands that are commands."""

import contextlib
import re
import shlex
from pathlib import Path

import click
import pytest

from sidecar.agents.catalog import AGENTS, USER
from sidecar.cli.main import root

FOLDER = Path(__file__).parents[2] / "docs" / "agents"
PAGES = sorted(FOLDER.glob("*.md"))
HEADINGS = ["Set up", "Check", "Undo", "How it works", "Limits"]


def read(name: str) -> str:
    return (FOLDER / f"{name}.md").read_text(encoding="utf-8")


def commands(text: str) -> list[str]:
    """The lines of the page that are to be typed."""
    return re.findall(r"^ {4}(?:\$ )?(sidecar .*)$", text, re.MULTILINE)


def mentions(text: str) -> list[str]:
    """What stands between backquotes, be it a command that is not whole."""
    return re.findall(r"`(sidecar [a-z][^`]*)`", text)


def parsed(line: str) -> None:
    """As the program would read it; nothing is run. Raises click.UsageError."""
    words = [next(iter(AGENTS)) if word == "AGENT" else word for word in shlex.split(line)[1:]]
    command: click.Command = root
    with click.Context(root) as context:
        while isinstance(command, click.Group) and words:
            _, found, words = command.resolve_command(context, words)
            assert found is not None
            command = found
        command.make_context("sidecar", words, parent=context)


def test_each_agent_has_a_page_and_no_page_is_of_another() -> None:
    assert {page.stem for page in PAGES} == {*AGENTS, "README", "tested"}


@pytest.mark.parametrize("name", AGENTS)
def test_a_page_says_it_all_in_the_same_order(name: str) -> None:
    assert re.findall(r"^## (.+)$", read(name), re.MULTILINE) == HEADINGS


@pytest.mark.parametrize("name", AGENTS)
def test_a_page_shows_setup_check_and_undo_for_each_scope(name: str) -> None:
    shown = commands(read(name))
    assert {f"sidecar setup {name}", f"sidecar setup {name} --apply", f"sidecar doctor {name}"} <= set(shown)
    assert f"sidecar setup {name} --undo" in shown
    for scope in AGENTS[name].scopes:
        if scope != USER:
            for action in ("--apply", "--undo"):
                assert f"sidecar setup {name} --scope {scope} {action}" in shown
    assert ("--scope" in " ".join(shown)) is (len(AGENTS[name].scopes) > 1)


@pytest.mark.parametrize("name", AGENTS)
def test_the_index_has_its_scopes(name: str) -> None:
    row = next(line for line in read("README").splitlines() if line.startswith(f"| [{name}]({name}.md) |"))
    assert row.split(" | ")[3] == ", ".join(AGENTS[name].scopes)


def test_the_index_and_the_pages_name_the_same_version() -> None:
    for name, version in re.findall(r"^\| \[([\w-]+)\]\([\w-]+\.md\) \| ([\d.]+) \|", read("README"), re.MULTILINE):
        assert f"Tried with {version}" in read(name)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_its_commands_are_read_by_the_program(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for line in commands(text):
        parsed(line)
    for line in mentions(text):
        with contextlib.suppress(click.MissingParameter):
            parsed(line)


@pytest.mark.parametrize(
    "line", ["sidecar setup nobody", "sidecar setup codex --aply", "sidecar nothing", "sidecar setup codex --scope all"]
)
def test_a_command_that_is_none_is_noticed(line: str) -> None:
    with pytest.raises(click.UsageError):
        parsed(line)
