"""`sidecar setup` on a user's own files: done, twice done, undone to the byte; refused where it is not understood."""

import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sidecar.agents import changes, files, records
from sidecar.agents.catalog import AGENTS, SCOPES, USER
from sidecar.agents.edits import Block, JsonKey, TomlKey
from sidecar.agents.places import Places
from sidecar.cli.main import root
from sidecar.core.errors import UsageError

SHELL = "/opt/sidecar/bin/sidecar-sh"
PAIRS = [(name, scope) for name, agent in AGENTS.items() for scope in agent.scopes]


class World:
    """A home and a project of their own, and `sidecar setup` in them."""

    def __init__(self, folder: Path, **environ: str) -> None:
        self.home, self.project = folder / "home", folder / "project"
        self.home.mkdir()
        self.project.mkdir()
        self.places = Places({"HOME": str(self.home), "SHELL": "/bin/bash", **environ}, str(self.project), SHELL)

    def become(self, **environ: str) -> None:
        """Another shell of the user's, in which these variables are others."""
        self.places = replace(self.places, environ={**self.places.environ, **environ})

    def _setup(self, action: str, name: str, scope: str) -> list[changes.Change]:
        project = None if scope == USER else self.places.project
        edits = AGENTS[name].planned(self.places, scope)
        with records.locked(self.places.state):
            record = records.load(self.places, name, scope)
            if action == "apply":
                return changes.apply(edits, record, project)
            return changes.undo(AGENTS[name].to_undo(self.places, scope, record), record, project)

    def apply(self, name: str, scope: str = USER) -> list[changes.Change]:
        return self._setup("apply", name, scope)

    def undo(self, name: str, scope: str = USER) -> list[changes.Change]:
        return self._setup("undo", name, scope)

    def seen(self) -> dict[str, object]:
        """Every path below home and project but our own records: bytes, link target or mode."""
        found: dict[str, object] = {}
        for base in (self.home, self.project):
            for path in base.rglob("*"):
                if ".local/state" in str(path) or path.name in (".local",):
                    continue
                what = os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else "folder"
                found[str(path)] = (what, path.lstat().st_mode)
        return found

    def text_file(self, name: str, scope: str = USER) -> Path:
        """The one file of the user's that is edited."""
        (edit,) = [each for each in AGENTS[name].planned(self.places, scope) if hasattr(each, "undo")][:1]
        return Path(edit.path)

    def edited_file(self, name: str, scope: str = USER) -> Path:
        """The user's own file among those that are edited."""
        (edit,) = [
            edit for edit in AGENTS[name].planned(self.places, scope) if isinstance(edit, (JsonKey, TomlKey, Block))
        ]
        return Path(edit.path)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.mark.parametrize(("name", "scope"), PAIRS)
class TestEach:
    def test_done_and_undone_is_as_before(self, world: World, name: str, scope: str) -> None:
        before = world.seen()
        assert world.apply(name, scope)
        assert world.seen() != before
        assert world.undo(name, scope)
        assert world.seen() == before

    def test_twice_is_once(self, world: World, name: str, scope: str) -> None:
        world.apply(name, scope)
        once = world.seen()
        assert world.apply(name, scope) == []
        assert world.seen() == once
        world.undo(name, scope)
        assert world.undo(name, scope) == []

    def test_showing_changes_nothing(self, world: World, name: str, scope: str) -> None:
        before = world.seen()
        shown = changes.plan_apply(AGENTS[name].planned(world.places, scope))
        assert world.seen() == before
        assert "".join(change.diff for change in shown).count(SHELL) or name in shown[-1].diff
        assert [change.diff for change in world.apply(name, scope)] == [change.diff for change in shown]

    def test_the_sidecar_installed_elsewhere_takes_over(self, world: World, name: str, scope: str) -> None:
        before = world.seen()
        world.apply(name, scope)
        world.places = Places(world.places.environ, world.places.project, "/new/bin/sidecar-sh")
        world.apply(name, scope)
        assert SHELL not in str(world.seen())
        world.undo(name, scope)
        assert world.seen() == before

    def test_without_its_records_it_is_undone_too(self, world: World, name: str, scope: str) -> None:
        world.apply(name, scope)
        world.places = Places(
            {**world.places.environ, "XDG_STATE_HOME": str(world.home / ".local/state2")}, world.places.project, SHELL
        )
        world.undo(name, scope)
        assert SHELL not in str(world.seen())
        assert "sidecar:" not in str(world.seen())


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data())
def test_settings_of_any_shape_come_back_to_the_byte(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    world = World(tmp_path_factory.mktemp("any"))
    value = data.draw(
        st.dictionaries(st.sampled_from(["env", "a", "permissions"]), st.dictionaries(st.text(), st.text()))
    )
    blank = data.draw(st.sampled_from(["", "\n", "\n\n", " // mine\n"]))
    indent = data.draw(st.sampled_from([None, 1, 2, "\t"]))
    text = json.dumps(value, indent=indent) + blank
    path = world.home / ".claude" / "settings.json"
    path.parent.mkdir()
    path.write_bytes(text.encode())
    world.apply("claude-code")
    once = path.read_bytes()
    assert world.apply("claude-code") == []
    assert path.read_bytes() == once
    world.undo("claude-code")
    assert path.read_bytes() == text.encode()


# As a person might have written them, before and after a change of theirs.
JSONC = st.sampled_from(
    [
        None,
        "",
        "{}",
        "{ }\n",
        '{"a": 1}',
        '{"a": 1,}\n',
        '{\r\n\t"a": [1, 2], // mine\r\n}\r\n',
        '// mine\n{\n  "a": {"shell": "x"}\n}\n\n',
        '{"env": {}}',
        '{\n  "env": {\n    "A": "b", /* mine */\n  },\n}',
    ]
)
TOML = st.sampled_from(
    [
        None,
        "",
        'model = "o"',
        "# mine\n\n",
        "[tui]\r\nx = 1\r\n",
        '[shell_environment_policy]\ninherit = "all"\n',
        '[shell_environment_policy.set] # mine\nA = "b"\n\n[tui]\n',
        'shell_environment_policy.set.A = "b"\n[tui]\n',
        'shell_environment_policy = { inherit = "all", set = { A = "b" } }\n',
        "[shell_environment_policy]\nset = {}\n",
    ]
)
SHELLS = st.sampled_from([None, "", "a", "a\n", "a\n\n", "# >>> conda >>>\n# <<< conda <<<\n", "a\r\n"])
TEXTS = {"claude-code": JSONC, "opencode": JSONC, "codex": TOML, "qwen-code": SHELLS, "gemini-cli": SHELLS}
STEPS = st.lists(st.sampled_from(["apply", "undo", "elsewhere", "other shell", "moved"]), max_size=6)
MOVED = ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "ZDOTDIR")


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(pair=st.sampled_from([pair for pair in PAIRS if pair[0] in TEXTS]), steps=STEPS, data=st.data())
def test_whatever_was_done_before_the_last_undo_comes_back_to_the_byte(
    tmp_path_factory: pytest.TempPathFactory, pair: tuple[str, str], steps: list[str], data: st.DataObject
) -> None:
    name, scope = pair
    world = World(tmp_path_factory.mktemp("any"))
    text = data.draw(TEXTS[name])
    path = world.edited_file(name, scope)
    if text is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
    before = world.seen()
    for step in steps:
        match step:
            case "elsewhere":
                world.places = replace(world.places, shell_program="/new/bin/sidecar-sh")
            case "other shell":
                world.become(
                    SHELL=data.draw(st.sampled_from(["/bin/bash", "/bin/zsh", "/bin/dash", "/usr/bin/fish", ""]))
                )
            case "moved":
                world.become(**{data.draw(st.sampled_from(MOVED)): str(world.home / "moved")})
        world.undo(name, scope) if step == "undo" else world.apply(name, scope)
    world.undo(name, scope)
    assert world.seen() == before
    assert not Path(world.places.state).exists()


class TestChangedInBetween:
    def test_json_keeps_what_the_user_put_in(self, world: World) -> None:
        path = world.text_file("claude-code")
        path.parent.mkdir()
        path.write_text('{\n  // mine\n  "model": "x"\n}\n')
        world.apply("claude-code")
        path.write_text(path.read_text().replace('"x"', '"y", "theme": "dark"'))
        (change,) = world.undo("claude-code")
        assert path.read_text() == '{\n  // mine\n  "model": "y", "theme": "dark"\n}\n'
        assert "changed since" in change.note

    def test_two_agents_in_one_start_up_file(self, world: World) -> None:
        path = world.home / ".bashrc"
        path.write_text("alias ll='ls -l'")
        world.apply("qwen-code")
        world.apply("gemini-cli")
        world.undo("qwen-code")
        assert "gemini-cli" in path.read_text()
        assert "qwen-code" not in path.read_text()
        world.undo("gemini-cli")
        assert path.read_text().rstrip() == "alias ll='ls -l'"

    def test_a_value_of_the_users_own_is_left(self, world: World) -> None:
        path = world.text_file("claude-code")
        world.apply("claude-code")
        path.write_text('{"env": {"CLAUDE_CODE_SHELL_PREFIX": "/usr/bin/nice"}}')
        assert world.undo("claude-code") == []
        assert "nice" in path.read_text()


class TestUndoneElsewhere:
    """An undo takes out what the apply has put in, wherever it would put it now."""

    def test_in_another_shell(self, world: World) -> None:
        world.become(SHELL="/bin/zsh")
        (world.home / ".zshrc").write_text("alias ll='ls -l'\n")
        before = world.seen()
        for shell in ("/bin/zsh", "/bin/bash", "/usr/bin/fish"):
            world.become(SHELL=shell)
            world.apply("qwen-code")
        world.become(SHELL="/bin/dash")
        world.undo("qwen-code")
        assert world.seen() == before

    def test_where_a_variable_has_moved_the_settings(self, world: World) -> None:
        before = world.seen()
        world.become(CODEX_HOME=str(world.home / "moved"))
        world.apply("codex")
        world.become(CODEX_HOME="")
        world.undo("codex")
        assert world.seen() == before

    def test_where_another_file_comes_first_by_now(self, world: World) -> None:
        path = world.home / ".config" / "opencode" / "opencode.json"
        path.parent.mkdir(parents=True)
        path.write_text('{"a": 1}\n')
        world.apply("opencode")
        path.with_suffix(".jsonc").write_text("{}")
        world.undo("opencode")
        assert path.read_text() == '{"a": 1}\n'

    def test_one_that_was_done_before_that_was_written_down(self, world: World) -> None:
        world.become(SHELL="/bin/zsh")
        world.apply("qwen-code")
        record = Path(world.places.state, "qwen-code", "record.json")
        content = json.loads(record.read_text())
        record.write_text(json.dumps({**content, "files": [each | {"kind": ""} for each in content["files"]]}))
        world.become(SHELL="/bin/bash")
        with pytest.raises(UsageError, match=r"\.zshrc: was set up by an older sidecar"):
            world.undo("qwen-code")
        assert record.exists()


class TestRefused:
    @pytest.mark.parametrize(
        "text", ["{", "[]", '{"env": 1}', '{"env": {"CLAUDE_CODE_SHELL_PREFIX": "/usr/bin/nice"}}']
    )
    def test_what_it_does_not_understand(self, world: World, text: str) -> None:
        path = world.text_file("claude-code")
        path.parent.mkdir()
        path.write_text(text)
        with pytest.raises(UsageError, match=r"settings\.json: .*nothing was changed"):
            world.apply("claude-code")
        assert path.read_text() == text

    def test_bytes_that_are_no_text(self, world: World) -> None:
        path = world.text_file("claude-code")
        path.parent.mkdir()
        path.write_bytes(b'{"a": "\xff"}')
        with pytest.raises(UsageError, match="not UTF-8"):
            world.apply("claude-code")

    def test_a_link_that_leads_nowhere(self, world: World) -> None:
        path = world.text_file("claude-code")
        path.parent.mkdir()
        path.symlink_to("/nonexistent/settings.json")
        with pytest.raises(UsageError, match=r"a link to /nonexistent/settings\.json, which is not there"):
            world.apply("claude-code")

    def test_a_link_out_of_the_project(self, world: World) -> None:
        target = world.home / "precious.json"
        target.write_text("{}")
        path = world.text_file("claude-code", "project")
        path.parent.mkdir()
        path.symlink_to(target)
        with pytest.raises(UsageError, match="leads out of the project"):
            world.apply("claude-code", "project")
        assert target.read_text() == "{}"

    def test_a_second_name(self, world: World) -> None:
        path = world.text_file("claude-code")
        path.parent.mkdir()
        path.write_text("{}")
        os.link(path, world.home / "other")
        with pytest.raises(UsageError, match="hard links"):
            world.apply("claude-code")

    def test_a_folder(self, world: World) -> None:
        (world.home / ".bashrc").mkdir()
        with pytest.raises(UsageError, match=r"\.bashrc: not a regular file"):
            world.apply("qwen-code")

    def test_a_folder_that_cannot_stand_in_path(self, tmp_path: Path) -> None:
        for name in ("path", "qwen-code"):
            with pytest.raises(UsageError, match="cannot stand in PATH"):
                AGENTS[name].planned(Places({"HOME": str(tmp_path / "a:b")}, str(tmp_path), SHELL), USER)

    def test_a_pipe(self, world: World) -> None:
        path = world.text_file("claude-code")
        path.parent.mkdir()
        os.mkfifo(path)
        with pytest.raises(UsageError, match="not a regular file"):
            world.apply("claude-code")

    def test_something_in_the_place_of_a_shim(self, world: World) -> None:
        place = Path(world.places.agent_folder("path"), "shims", "bash")
        place.parent.mkdir(parents=True)
        place.symlink_to("/bin/bash")
        with pytest.raises(UsageError, match="is a link to /bin/bash, and not ours"):
            world.apply("path")

    def test_marks_that_do_not_pair(self, world: World) -> None:
        (world.home / ".bashrc").write_text("# >>> sidecar: qwen-code >>>\n")
        with pytest.raises(UsageError, match="do not pair"):
            world.apply("qwen-code")
        assert not Path(world.places.agent_folder("qwen-code")).exists(), "all is looked at before anything is changed"

    @pytest.mark.parametrize(
        ("content", "why"),
        [('{"v": 2}', "made by a newer sidecar"), ("{", "not a record"), ('{"v": 1, "files": 3}', "not a record")],
    )
    def test_records_of_another_kind(self, world: World, content: str, why: str) -> None:
        folder = Path(world.places.state, "claude-code")
        folder.mkdir(parents=True)
        (folder / "record.json").write_text(content)
        with pytest.raises(UsageError, match=why):
            world.apply("claude-code")

    def test_the_scope_of_an_agent_that_has_none(self, world: World) -> None:
        for name, agent in AGENTS.items():
            for scope in set(SCOPES) - set(agent.scopes):
                with pytest.raises(UsageError, match="--scope user"):
                    world.apply(name, scope)

    def test_a_project_that_is_the_home(self, world: World) -> None:
        world.places = Places(world.places.environ, str(world.home), SHELL)
        with pytest.raises(UsageError, match="use --scope user"):
            world.apply("codex", "project")

    @pytest.mark.parametrize("environ", [{"HOME": ""}, {"HOME": "relative"}, {"CLAUDE_CONFIG_DIR": "relative"}])
    def test_variables_that_name_no_place(self, tmp_path: Path, environ: dict[str, str]) -> None:
        places = Places({"HOME": str(tmp_path), **environ}, str(tmp_path), SHELL)
        with pytest.raises(UsageError, match="not an absolute path"):
            AGENTS["claude-code"].planned(places, USER)


class TestFiles:
    def test_a_dotfile_that_is_a_link_stays_one(self, world: World) -> None:
        target = world.home / "dotfiles" / "claude.json"
        target.parent.mkdir()
        target.write_text("{}\n")
        path = world.text_file("claude-code")
        path.parent.mkdir()
        path.symlink_to(target)
        world.apply("claude-code")
        assert path.is_symlink()
        assert SHELL in target.read_text()
        world.undo("claude-code")
        assert target.read_text() == "{}\n"

    @pytest.mark.parametrize("mode", [0o600, 0o640, 0o444])
    def test_its_mode_stays(self, world: World, mode: int) -> None:
        path = world.text_file("claude-code")
        path.parent.mkdir()
        path.write_text("{}")
        path.chmod(mode)
        world.apply("claude-code")
        assert path.stat().st_mode & 0o7777 == mode

    def test_what_is_new_is_the_users_alone(self, world: World) -> None:
        world.apply("claude-code")
        path = world.text_file("claude-code")
        assert path.stat().st_mode & 0o7777 == 0o600
        assert Path(world.places.state).stat().st_mode & 0o7777 == 0o700
        for each in Path(world.places.state).rglob("*"):
            assert each.stat().st_mode & 0o077 == 0

    def test_the_variables_that_move_a_home(self, tmp_path: Path) -> None:
        world = World(tmp_path, CLAUDE_CONFIG_DIR=str(tmp_path / "c"), XDG_DATA_HOME=str(tmp_path / "d"))
        world.apply("claude-code")
        world.apply("path")
        assert (tmp_path / "c" / "settings.json").exists()
        assert (tmp_path / "d" / "sidecar" / "agents" / "path" / "shims" / "bash").is_symlink()
        assert not (world.home / ".claude").exists()

    @pytest.mark.parametrize(
        ("name", "variable", "file"),
        [
            ("claude-code", "CLAUDE_CONFIG_DIR", "settings.json"),
            ("codex", "CODEX_HOME", "config.toml"),
            ("opencode", "XDG_CONFIG_HOME", "opencode/opencode.json"),
        ],
    )
    def test_the_variable_that_moves_an_agents_settings(
        self, tmp_path: Path, name: str, variable: str, file: str
    ) -> None:
        folder = tmp_path / "moved"
        world = World(tmp_path, **{variable: str(folder)})
        world.apply(name)
        assert world.edited_file(name) == folder / file
        assert (folder / file).exists()
        assert [path.name for path in world.home.iterdir()] == [".local"], "nothing where it would be without"
        world.undo(name)
        assert not folder.exists()

    def test_zdotdir_moves_the_start_up_file(self, tmp_path: Path) -> None:
        world = World(tmp_path, SHELL="/bin/zsh", ZDOTDIR=str(tmp_path / "z"))
        world.apply("gemini-cli")
        assert "agents/gemini-cli/launch" in (tmp_path / "z" / ".zshrc").read_text()

    def test_a_relative_codex_home(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match="CODEX_HOME is 'here': not an absolute path"):
            World(tmp_path, CODEX_HOME="here").apply("codex")

    def test_xdg_state_home_has_the_records_until_the_last_undo(self, tmp_path: Path) -> None:
        state = tmp_path / "state"
        world = World(tmp_path, XDG_STATE_HOME=str(state))
        world.apply("codex")
        world.apply("path")
        assert {path.name for path in (state / "sidecar" / "setup").iterdir()} == {"codex", "path", "lock"}
        world.undo("codex")
        assert (state / "sidecar" / "setup" / "lock").exists()
        world.undo("path")
        assert not (state / "sidecar").exists()

    @pytest.mark.parametrize("number", [0, 1])
    def test_what_fails_half_way_is_taken_back(
        self, world: World, monkeypatch: pytest.MonkeyPatch, number: int
    ) -> None:
        """A disk that is full from the `number`th file of the user's or ours on: no permission tells of it before."""
        (world.home / ".config" / "opencode").mkdir(parents=True)
        (world.home / ".config" / "opencode" / "opencode.json").write_text("{}")
        before = world.seen()
        real, left = files.replace, [number]

        def replace(found: files.Found, data: bytes, mode: int) -> None:
            if ".local/state" not in found.real:
                if left[0] <= 0 and data != b"{}":
                    raise UsageError(f"{found.path}: cannot be written: No space left on device")
                left[0] -= 1
            real(found, data, mode)

        monkeypatch.setattr(files, "replace", replace)
        with pytest.raises(UsageError, match="No space left"):
            world.apply("opencode")
        assert world.seen() == before
        assert not Path(world.places.state).exists()

    @pytest.mark.parametrize(
        ("shell", "file"),
        [
            ("/bin/bash", ".bashrc"),
            ("/usr/bin/zsh", ".zshrc"),
            ("/usr/bin/fish", ".config/fish/conf.d/sidecar-qwen-code.fish"),
            ("/bin/dash", ".profile"),
            ("", ".profile"),
        ],
    )
    def test_the_start_up_file_is_that_of_the_users_shell(self, tmp_path: Path, shell: str, file: str) -> None:
        world = World(tmp_path, SHELL=shell)
        world.apply("qwen-code")
        assert "agents/qwen-code/launch" in (world.home / file).read_text()


class TestCommandLine:
    def test_it_shows_by_default(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HOME", str(tmp_path))
        for name in ("CLAUDE_CONFIG_DIR", "XDG_STATE_HOME", "XDG_DATA_HOME"):
            monkeypatch.delenv(name, raising=False)
        shown = CliRunner().invoke(root, ["setup", "claude-code"])
        assert shown.exit_code == 0
        assert shown.output == CliRunner().invoke(root, ["setup", "claude-code", "--print"]).output
        assert "+++ " + str(tmp_path / ".claude" / "settings.json") in shown.output
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize("words", [[], ["--print"], ["--apply"]])
    def test_no_key_of_a_settings_file_in_one_line_is_shown(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
    ) -> None:
        monkeypatch.setenv("HOME", str(tmp_path))
        for name in ("CLAUDE_CONFIG_DIR", "XDG_STATE_HOME", "XDG_DATA_HOME"):
            monkeypatch.delenv(name, raising=False)
        path = tmp_path / ".claude" / "settings.json"
        path.parent.mkdir()
        path.write_text('{"env": {"ANTHROPIC_API_KEY": "hunter2"}, "model": "x"}')
        shown = CliRunner().invoke(root, ["setup", "claude-code", *words])
        assert shown.exit_code == 0
        assert "hunter2" not in shown.output
        assert '"ANTHROPIC_API_KEY": "[REDACTED]"}, "model": "x"' in shown.output
        assert "hunter2" in path.read_text()

    def test_refused_leaves_nothing(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HOME", str(tmp_path))
        for name in ("CLAUDE_CONFIG_DIR", "XDG_STATE_HOME", "XDG_DATA_HOME"):
            monkeypatch.delenv(name, raising=False)
        (tmp_path / ".claude").mkdir()
        (tmp_path / ".claude" / "settings.json").write_text("[]")
        assert CliRunner().invoke(root, ["setup", "claude-code", "--apply"]).exit_code != 0
        assert [path.name for path in tmp_path.iterdir()] == [".claude"]

    def test_what_is_to_be_pasted_is_quoted(self, tmp_path: Path) -> None:
        places = Places({"HOME": str(tmp_path / "it's $HOME"), "XDG_DATA_HOME": ""}, str(tmp_path), SHELL)
        said = AGENTS["path"].next_step(places).removeprefix("start an agent with ")
        shown = subprocess.run(
            ["/bin/sh", "-c", f'{said} /bin/sh -c "echo \\"\\$PATH\\""'],
            env={"PATH": "/x"},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        assert shown == f"{places.agent_folder('path')}/shims:/x\n"

    def test_done_and_undone(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HOME", str(tmp_path))
        for name in ("CLAUDE_CONFIG_DIR", "XDG_STATE_HOME", "XDG_DATA_HOME"):
            monkeypatch.delenv(name, raising=False)
        answers: list[Any] = [
            CliRunner().invoke(root, ["setup", "claude-code", word]) for word in ("--apply", "--undo")
        ]
        answers.append(CliRunner().invoke(root, ["setup", "claude-code", "--undo"]))
        assert [answer.exit_code for answer in answers] == [0, 0, 0]
        assert "nothing to undo" in answers[-1].output
        assert not (tmp_path / ".claude").exists()
