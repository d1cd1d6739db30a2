"""The documents say what the code does: frames and keys, the life cycle, the README's commands, links."""

import importlib.util
import json
import re
import shutil
import subprocess
from pathlib import Path
from types import ModuleType

import click
import pytest

from sidecar.cli.main import root
from sidecar.core import frame, lifecycle
from sidecar.core.receipt import is_receipt

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    path for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("d*/README.md")] if path.is_file()
)
# The words on the page for the types of the checker.
TYPE_WORDS: dict[tuple[type, ...], str] = {
    (int,): "integer",
    (str,): "string",
    (dict,): "object",
    (list,): "list of strings",
    (bool,): "boolean",
}
COMMON_KEYS = {"v": "integer", "type": "string", "commandId": "string", "seq": "integer", "replay?": "boolean"}


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def section(text: str, heading: str) -> str:
    """What stands between a heading and the next one of any level."""
    found = re.search(rf"^#+ {re.escape(heading)}\n(.*?)(?=^#|\Z)", text, re.MULTILINE | re.DOTALL)
    assert found is not None, f"docs/wire.md has no section {heading!r}"
    return found[1]


def keys_of(text: str) -> dict[str, str]:
    """The rows of a `| key | type | meaning |` table: key (with its `?`) -> type."""
    rows = re.findall(r"^\| `(\w+)`(\??) \| ([\w ]+) \|", text, re.MULTILINE)
    return {f"{name}{mark}": words for name, mark, words in rows}


def ci_module(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / ".ci" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class TestWire:
    def test_every_frame_type_has_a_section_and_no_section_is_of_another(self) -> None:
        producer = read("docs/wire.md").split("## Producer to daemon")[1].split("\n## ")[0]
        assert re.findall(r"^### `(\w+)`$", producer, re.MULTILINE) == list(frame.PRODUCER_TYPES)

    def test_the_keys_that_every_frame_has(self) -> None:
        assert keys_of(section(read("docs/wire.md"), "Producer to daemon")) == COMMON_KEYS

    @pytest.mark.parametrize("kind", frame.PRODUCER_TYPES)
    def test_the_table_of_a_type_has_the_keys_the_checker_knows(self, kind: str) -> None:
        optional = dict(frame._OPTIONAL[kind])
        if kind == frame.SETTLED:  # the identity keys of a failed spawn: told in words, listed at command_started
            for key in (*frame._IDENTITY_REQUIRED, *frame._IDENTITY_OPTIONAL):
                del optional[key]
        expected = {key: TYPE_WORDS[types] for key, types in frame._REQUIRED[kind].items()}
        expected |= {f"{key}?": TYPE_WORDS[types] for key, types in optional.items()}
        assert keys_of(section(read("docs/wire.md"), f"`{kind}`")) == expected

    def test_the_payload_of_the_page_is_one(self) -> None:
        shown = re.search(r"\{.*?\}", section(read("docs/wire.md"), "The progress payload"), re.DOTALL)
        assert shown is not None
        assert frame.is_shell_progress(json.loads(shown[0]))

    def test_the_receipt_of_the_page_is_one(self) -> None:
        shown = re.search(r"\{.*\}", section(read("docs/wire.md"), "The receipt of a stop"), re.DOTALL)
        assert shown is not None
        assert is_receipt(json.loads(shown[0]))
        for asker in lifecycle.ASKERS:
            assert f"`{asker}`" in section(read("docs/wire.md"), "The receipt of a stop")

    def test_the_limits_on_the_page(self) -> None:
        page = read("docs/wire.md")
        assert f"at most {frame.MAX_FRAME_BYTES} bytes a line" in page
        assert f"The version is the key `v`, now `{frame.VERSION}`" in page


class TestLifecycle:
    def test_the_diagram_is_the_table(self) -> None:
        assert f"```mermaid\n{lifecycle.diagram()}\n```" in read("docs/lifecycle.md")

    def test_states_and_reasons_are_all_told(self) -> None:
        rows = re.findall(r"^\| `(\w+)` \|", read("docs/lifecycle.md"), re.MULTILINE)
        assert rows == [*lifecycle.STATES, *lifecycle.SETTLE_REASONS]


class TestFlags:
    @pytest.mark.parametrize("page", ["README.md", "docs/guide.md"])
    def test_flags_it_names_exist(self, page: str) -> None:
        named = set(re.findall(r"`(--[a-z-]+)", read(page))) | set(re.findall(r"sidecar \w+ (--[a-z-]+)", read(page)))
        assert named
        assert named <= flags_of(root)


class TestReadme:
    @pytest.mark.parametrize(("name", "runs"), [("demo", "sidecar demo"), ("test", "-m pytest")])
    def test_its_commands_are_found_by_ci(self, name: str, runs: str) -> None:
        command = ci_module("readme_command").readme_command(name, read("README.md"))
        assert command is not None
        assert command.endswith(runs)
        assert command.startswith("python3 -m venv .venv && .venv/bin/pip install ")

    def test_ci_runs_both_and_nothing_in_their_place(self) -> None:
        script = read(".ci/run")
        for name in ("demo", "test"):
            assert f"readme_{name}=$(" in script
            assert re.search(rf"^step .* bash -c \"\$readme_{name}\"( |'|$)", script, re.MULTILINE)

    def test_ci_is_a_valid_script(self) -> None:
        bash = shutil.which("bash")
        if bash is None:
            pytest.skip("no bash")
        subprocess.run([bash, "-n", str(ROOT / ".ci" / "run")], check=True)

    def test_what_it_is_takes_five_lines(self) -> None:
        intro = read("README.md").split("\n\n")[1]
        assert len(intro.splitlines()) <= 5


class TestScreens:
    def test_the_picture_of_top_on_the_page_is_the_one_that_was_made(self) -> None:
        shown = re.search(
            r"<!-- screen: top\.txt -->\n```\n(.*?)^```$", read("docs/operating.md"), re.MULTILINE | re.DOTALL
        )
        assert shown is not None
        assert shown[1] == read("docs/screens/top.txt"), "run `python tests/e2e/screens.py`"


class TestPages:
    @pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
    def test_relative_links_lead_somewhere(self, page: Path) -> None:
        text = page.read_text(encoding="utf-8")
        for target in re.findall(r"\]\(([^)\s]+)\)", text):
            if re.match(r"[a-z]+:", target):
                continue
            path, _, anchor = target.partition("#")
            linked = (page.parent / path).resolve() if path else page
            assert linked.exists(), f"{page.name} links to {target}"
            if anchor:
                assert anchor in anchors(linked.read_text(encoding="utf-8")), f"{page.name} links to {target}"

    def test_every_decision_is_dated_and_in_the_list(self) -> None:
        index = read("docs/decisions/README.md")
        for path in ROOT.glob("docs/decisions/2*.md"):
            date = path.name[:10]
            assert re.fullmatch(r"\d{4}-\d\d-\d\d", date)
            assert f"Date: {date}." in path.read_text(encoding="utf-8")
            assert f"({path.name})" in index


def flags_of(command: click.Command) -> set[str]:
    """All long flags of a command and of the verbs below it."""
    flags = {flag for option in command.params for flag in (*option.opts, *option.secondary_opts)} | {"--help"}
    if isinstance(command, click.Group):
        context = click.Context(command)
        for verb in command.list_commands(context):
            below = command.get_command(context, verb)
            flags |= flags_of(below) if below else set()
    return flags


def anchors(text: str) -> set[str]:
    """The anchors that GitHub makes of a page's headings."""
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
