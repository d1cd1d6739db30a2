"""What is shown of a change: the change whole, and of the user's file around it no secret and no endless line."""

import difflib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.agents import jsonc, toml_text
from sidecar.agents.shown import diff

KEY = "sk-ant-api03-Zk3yTq8Lw2Rb9XvN5mPc7Jd1Hs6Gf4"
PREFIX = "/opt/sidecar/bin/sidecar-sh"


def shown_of(settings: str, keys: tuple[str, ...] = ("env", "CLAUDE_CODE_SHELL_PREFIX")) -> str:
    return diff("/h/settings.json", settings.encode(), jsonc.with_key(settings, keys, PREFIX).encode())


@pytest.mark.parametrize("indent", [None, 2])
def test_a_key_beside_the_change_is_not_shown(indent: int | None) -> None:
    settings = {"env": {"ANTHROPIC_API_KEY": "hunter2", "DATABASE_PASSWORD": "hunter2"}, "apiKeyHelper": KEY}
    shown = shown_of(json.dumps(settings, indent=indent))
    assert "hunter2" not in shown
    assert KEY not in shown
    assert "[REDACTED]" in shown
    assert f'"CLAUDE_CODE_SHELL_PREFIX": "{PREFIX}"' in shown


def test_a_long_line_is_shown_around_the_change_only() -> None:
    settings = json.dumps({"notes": "n" * 4000, "env": {"A": "b"}, "more": "m" * 4000})
    shown = shown_of(settings)
    assert max(map(len, shown.splitlines())) < 300
    assert shown.count("[...]") == 4, "before and after the change, in the old line and in the new one"
    assert f'"CLAUDE_CODE_SHELL_PREFIX": "{PREFIX}"' in shown


def test_a_long_line_beside_the_change_is_cut() -> None:
    shown = shown_of('{\n  "env": {},\n  "notes": "' + "n" * 4000 + '"\n}\n')
    assert max(map(len, shown.splitlines())) < 100
    assert ' "notes": "nnn' in shown


def test_toml() -> None:
    text = f'api_key = "{KEY}"\npassword = "hunter2"\n[shell_environment_policy.set]\n'
    after = toml_text.with_key(text, ("shell_environment_policy", "set", "BASH_ENV"), "/x/sidecar-bash-env")
    shown = diff("/h/config.toml", text.encode(), after.encode())
    assert KEY not in shown
    assert "hunter2" not in shown
    assert '+BASH_ENV = "/x/sidecar-bash-env"\n' in shown


def test_what_is_ours_is_shown_whole_however_it_looks() -> None:
    line = f"PATH=/home/u/agents/codex.project-{'0a1b2c3d' * 20}:$PATH\n"
    assert (
        diff("/h/.bashrc", b"a\n", b"a\n" + line.encode())
        == f"--- /h/.bashrc\n+++ /h/.bashrc\n@@ -1 +1,2 @@\n a\n+{line}"
    )


@given(*[st.lists(st.sampled_from(["a\n", "b\n", "{\n", "\n", "a\r\n", "c"]), max_size=12)] * 2)
def test_without_secrets_and_long_lines_it_is_a_unified_diff(old: list[str], new: list[str]) -> None:
    one, other = "".join(old), "".join(new)
    lines = difflib.unified_diff(one.splitlines(keepends=True), other.splitlines(keepends=True), "/f", "/f")
    expected = "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)
    assert diff("/f", one.encode(), other.encode()) == expected.replace("\r\n", "\n")
