"""sidecar-sh called as a shell, or as a launcher."""

import os
from pathlib import Path

import pytest

from sidecar.agents import launcher
from sidecar.supervisor.shell import parse_shell
from sidecar.supervisor.shim import is_launcher, shim_of

QWEN = "/h/.local/share/sidecar/agents/qwen-code/shims"


@pytest.mark.parametrize(
    ("called", "environ", "supervises"),
    [
        ("/x/shims/bash", {"PATH": "/x/shims:/bin"}, True),
        (f"{QWEN}/bash", {"PATH": f"{QWEN}:/bin", "QWEN_CODE": "1"}, True),
        (f"{QWEN}/bash", {"PATH": f"{QWEN}:/bin", "QWEN_PROJECT_DIR": "/p"}, False),
    ],
)
def test_what_a_shim_supervises(called: str, environ: dict[str, str], supervises: bool) -> None:
    shim = shim_of(called, environ)
    assert shim is not None
    assert (shim.name, shim.path, shim.supervises) == ("bash", "/bin", supervises)
    plan = parse_shell(["-c", "echo"], environ, called)
    assert plan.argv == ["bash", "-c", "echo"]
    assert plan.environ == {**environ, "PATH": "/bin"}
    assert plan.program == "/bin/bash"
    assert (plan.options is not None) is supervises


@pytest.mark.parametrize("called", ["/x/bin/sidecar-sh", "/elsewhere/bash", "bash", ""])
def test_what_is_no_shim(called: str) -> None:
    assert shim_of(called, {"PATH": "/x/shims:/bin"}) is None
    assert parse_shell(["-c", "echo"], {"PATH": "/x/shims:/bin"}, called).argv[0] == "/bin/bash"


def test_an_agent_that_searches_path_itself_calls_the_shell_by_what_it_found() -> None:
    shims = "/h/.local/share/sidecar/agents/gemini-cli/shims"
    plan = parse_shell(
        ["-c", "echo"], {"PATH": f"{shims}:/bin", "GEMINI_CLI": "1", "SHELL": "/x/bash"}, f"{shims}/bash"
    )
    assert plan.argv == ["/bin/bash", "-c", "echo"]
    assert plan.environ["PATH"] == "/bin"


def test_a_shell_that_is_named_by_its_path_is_the_users(tmp_path: Path) -> None:
    shims = "/h/.local/share/sidecar/agents/opencode/shims"
    usual = tmp_path / "bash"
    usual.write_text("#!/bin/sh\n")
    usual.chmod(0o755)
    environ = {"PATH": "/bin", "SHELL": str(usual)}
    assert parse_shell(["-c", "echo"], environ, f"{shims}/bash").argv == [str(usual), "-c", "echo"]
    assert parse_shell(["-c", "echo"], {"PATH": "/bin", "SHELL": "/bin/zsh"}, f"{shims}/bash").argv[0] == "/bin/bash"
    assert parse_shell(["-c", "echo"], {"SHELL": f"{shims}/bash"}, f"{shims}/bash").argv[0] == "/bin/bash"


def test_one_word_is_a_script_to_a_shim_as_to_a_shell() -> None:
    plan = parse_shell(["nowhere.sh"], {"PATH": "/x/shims:/bin"}, "/x/shims/bash")
    assert plan.argv == ["bash", "nowhere.sh"]


def test_a_shell_that_path_has_not_is_the_usual_one() -> None:
    plan = parse_shell(["-c", "echo"], {"PATH": "/x/shims"}, "/x/shims/bash")
    assert plan.argv[0] == plan.program == "/bin/bash"


def test_the_launcher_starts_what_is_behind_it(tmp_path: Path) -> None:
    folder, real = tmp_path / "agents" / "qwen-code", tmp_path / "bin"
    (folder / "launch").mkdir(parents=True)
    real.mkdir()
    called = str(folder / "launch" / "qwen")
    for path in (folder / "launch" / "qwen", real / "qwen"):
        path.write_text("#!/bin/sh\n")
        path.chmod(0o755)
    again = tmp_path / "again"
    again.symlink_to(folder / "launch")  # the same folder by another name is not behind it
    assert is_launcher(called)
    environ = {"PATH": f"{folder}/launch:{again}:{real}:/bin", "A": "1"}
    program, given = launcher.plan(called, environ)
    assert program == str(real / "qwen")
    assert given == {"A": "1", "PATH": f"{folder}/shims:{again}:{real}:/bin"}
    assert launcher.plan(called, {"PATH": "/nowhere"})[0] is None
    assert launcher.launch(called, [], {"PATH": "/nowhere"}) == 127


@pytest.mark.parametrize("path", ["/a/agents/x/shims/bash", "/launch/qwen", "qwen", "/bin/sidecar-sh"])
def test_what_is_no_launcher(path: str) -> None:
    assert not is_launcher(path)
    assert os.path.basename(path)
