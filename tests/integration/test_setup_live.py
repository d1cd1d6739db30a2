"""`sidecar setup` as real processes: many at once, and where nothing may be written."""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

SIDECAR = str(Path(sysconfig.get_path("scripts"), "sidecar"))
WAIT_S = 120
SETTINGS = '{\n  // mine\n  "model": "x"\n}\n'
RC = "alias ll='ls -l'\n"

# Each process is one user of the command line; imports are paid once.
MANY = """
import random, sys
from click.testing import CliRunner
from sidecar.agents import records
from sidecar.cli.main import root
records._LOCK_WAIT_S = 100
chance = random.Random(sys.argv[1])
for _ in range(12):
    agent = chance.choice(["claude-code", "qwen-code", "gemini-cli", "opencode"])
    ended = CliRunner().invoke(root, ["setup", agent, chance.choice(["--apply", "--undo"])])
    assert ended.exit_code == 0, ended.output
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home" / ".claude").mkdir(parents=True)
    (tmp_path / "home" / ".claude" / "settings.json").write_text(SETTINGS)
    (tmp_path / "home" / ".bashrc").write_text(RC)
    return tmp_path / "home"


def environ(home: Path) -> dict[str, str]:
    return {"HOME": str(home), "SHELL": "/bin/bash", "PATH": os.environ["PATH"]}


def setup(home: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [SIDECAR, "setup", *words], env=environ(home), capture_output=True, text=True, timeout=WAIT_S, cwd="/"
    )


def everything(home: Path) -> dict[str, object]:
    return {
        str(path): os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else None
        for path in home.rglob("*")
    }


def test_many_at_once_leave_what_one_after_the_other_would(home: Path) -> None:
    others = [
        subprocess.Popen(
            [sys.executable, "-c", MANY, str(number)],
            env=environ(home),
            cwd="/",
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(5)
    ]
    said = [other.communicate(timeout=WAIT_S)[1] for other in others]
    assert [other.returncode for other in others] == [0] * 5, said
    assert not [path for path in home.rglob("*") if path.name.startswith(".sidecar-")], "no scratch file is left"
    agents = ("claude-code", "qwen-code", "gemini-cli", "opencode")
    for agent in agents:
        assert setup(home, agent, "--apply").returncode == 0
    assert "CLAUDE_CODE_SHELL_PREFIX" in (home / ".claude" / "settings.json").read_text()
    for agent in agents:
        assert setup(home, agent, "--undo").returncode == 0
    assert (home / ".claude" / "settings.json").read_text() == SETTINGS
    assert (home / ".bashrc").read_text() == RC
    assert not (home / ".local" / "state" / "sidecar").exists(), "with the last record the lock goes"


def in_a_read_only(folder: Path, home: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    unshare = shutil.which("unshare")
    if unshare is None:
        pytest.skip("no unshare")
    who = [] if os.getuid() == 0 else ["--user", "--map-root-user"]
    mount = 'mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" || exit 99; shift; exec "$@"'
    ended = subprocess.run(
        [unshare, *who, "--mount", "sh", "-c", mount, "sh", str(folder), SIDECAR, "setup", *words],
        env=environ(home),
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        cwd="/",
    )
    if ended.returncode == 99 or "unshare" in ended.stderr:
        pytest.skip(f"no mount namespace: {ended.stderr.strip()}")
    return ended


@pytest.mark.parametrize("action", ["--apply", "--undo"])
@pytest.mark.parametrize(
    ("agent", "folder"),
    [
        ("claude-code", "."),
        ("claude-code", ".claude"),
        ("claude-code", ".claude/settings.json"),
        ("qwen-code", "."),
        ("qwen-code", ".bashrc"),
        ("qwen-code", ".local/share"),
        ("opencode", ".config"),
        ("codex", ".local/state"),
    ],
)
def test_where_nothing_may_be_written_nothing_is_half_done(home: Path, agent: str, folder: str, action: str) -> None:
    for each in (".local/share", ".local/state", ".config"):
        (home / each).mkdir(parents=True)
    if action == "--undo":
        assert setup(home, agent, "--apply").returncode == 0
    before = everything(home)
    ended = in_a_read_only(home / folder, home, agent, action)
    assert ended.returncode == 125
    assert ended.stdout == ""
    (line,) = ended.stderr.splitlines()
    assert line.startswith("sidecar: ")
    assert str(home) in line
    assert everything(home) == before
