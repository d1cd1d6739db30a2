"""Shims and launchers as real processes: what the command sees is what it would have seen without."""

import os
import subprocess
import sysconfig
from pathlib import Path

import pytest

SCRIPT = Path(sysconfig.get_path("scripts"), "sidecar-sh")
REPORT = "echo $0 $#; echo $PATH; nosuchcommand; bash -c 'echo nested $0'; exit 7"


@pytest.fixture
def shims(tmp_path: Path) -> Path:
    folder = tmp_path / "agents" / "qwen-code" / "shims"
    folder.mkdir(parents=True)
    (folder / "bash").symlink_to(SCRIPT)
    return folder


def run(words: list[str], tmp_path: Path, **environ: str) -> "subprocess.CompletedProcess[str]":
    given = {"HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path), "SIDECAR_INLINE": "true", **environ}
    return subprocess.run(words, env=given, capture_output=True, text=True, timeout=60, cwd=tmp_path, check=False)


@pytest.mark.parametrize("marker", [{"QWEN_CODE": "1"}, {}, {"QWEN_CODE": "1", "SIDECAR_ACTIVE": "1"}])
def test_a_shim_is_the_shell_behind_it(shims: Path, tmp_path: Path, marker: dict[str, str]) -> None:
    path = os.environ["PATH"]
    bare = run(["bash", "-c", REPORT], tmp_path, PATH=path)
    wrapped = run(["bash", "-c", REPORT], tmp_path, PATH=f"{shims}:{path}", **marker)
    assert bare.stderr == "bash: line 1: nosuchcommand: command not found\n"
    assert (wrapped.stdout, wrapped.stderr, wrapped.returncode) == (bare.stdout, bare.stderr, 7)


def test_only_what_has_the_agents_marker_is_supervised(shims: Path, tmp_path: Path) -> None:
    path = f"{shims}:{os.environ['PATH']}"
    show = ["bash", "-c", "echo ${SIDECAR_ACTIVE-none}"]
    assert run(show, tmp_path, PATH=path, QWEN_CODE="1").stdout == "1\n"
    assert run(show, tmp_path, PATH=path, QWEN_PROJECT_DIR="/p").stdout == "none\n"


def test_a_launcher_becomes_the_agent_with_the_shims_before_it(shims: Path, tmp_path: Path) -> None:
    launch, real = shims.parent / "launch", tmp_path / "bin"
    launch.mkdir()
    real.mkdir()
    (launch / "qwen").symlink_to(SCRIPT)
    (real / "qwen").write_text(
        '#!/bin/sh\necho "$*"; echo $PATH; QWEN_CODE=1 bash -c "echo $0 \\$SIDECAR_ACTIVE"; exit 3\n'
    )
    (real / "qwen").chmod(0o755)
    rest = f"{real}:{os.environ['PATH']}"
    ended = run(["qwen", "--acp", "a b"], tmp_path, PATH=f"{launch}:{rest}")
    assert ended.stderr == ""
    assert ended.stdout == f"--acp a b\n{shims}:{rest}\n{real}/qwen 1\n"
    assert ended.returncode == 3


def test_without_the_sidecar_the_links_lead_nowhere_and_the_agent_goes_on(shims: Path, tmp_path: Path) -> None:
    (shims / "bash").unlink()
    (shims / "bash").symlink_to("/nonexistent/sidecar-sh")
    ended = run(["bash", "-c", "echo $0"], tmp_path, PATH=f"{shims}:{os.environ['PATH']}")
    assert ended.stdout == "bash\n"
