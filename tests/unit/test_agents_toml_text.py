"""TOML is edited as text: what is not ours keeps every byte, and out again has the values of before."""

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.agents import toml_text
from sidecar.agents.jsonc import NotUnderstood

KEYS = ("shell_environment_policy", "set", "BASH_ENV")
OURS = "/h/.local/share/sidecar/agents/codex/sidecar-bash-env"
LINES = st.sampled_from(
    [
        'model = "o"',
        "# a comment",
        "",
        "  ",
        'quoted = """\n[shell_environment_policy.set]\n"""',
        "[tui] # mine",
        "x = 1",
        "[[hooks]]",
        "[mcp_servers.a]",
        "[shell_environment_policy]",
        'inherit = "core"',
        "[shell_environment_policy.set]",
        '["shell_environment_policy".set]',
        'A = "b"',
        "set = {}",
        'set = { A = "b" }',
        'set.A = "b"',
        'shell_environment_policy = { inherit = "all", set = { C = "d" } }',
        'shell_environment_policy.set.E = "f"',
    ]
)


@given(st.lists(LINES, max_size=8), st.sampled_from(["\n", "\r\n"]), st.booleans())
def test_in_and_out_again(lines: list[str], newline: str, ends: bool) -> None:
    text = newline.join(lines).replace("\r\n", "\n").replace("\n", newline) + (newline if ends else "")
    try:
        before = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        with pytest.raises(NotUnderstood, match="not valid TOML"):
            toml_text.with_key(text, KEYS, OURS)
        return
    after = toml_text.with_key(text, KEYS, OURS)
    table = before.get("shell_environment_policy", {}).get("set", {})
    assert toml_text.get(after, KEYS) == OURS
    assert toml_text.get(after, KEYS[:-1]) == {**table, "BASH_ENV": OURS}
    assert is_subsequence(text, after)
    assert toml_text.with_key(after, KEYS, OURS) == after
    moved = toml_text.with_key(after, KEYS, OURS + "2")
    assert toml_text.get(moved, KEYS) == OURS + "2"
    had = toml_text.get(text, KEYS[:-1]) is not None
    back = toml_text.without_key(after, KEYS, table_too=not had)
    assert is_subsequence("".join(text.split()), "".join(back.split()))
    without = tomllib.loads(back)
    assert without == before or (not had and toml_text.get(back, KEYS[:-1]) in (None, {}))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", f'[shell_environment_policy.set]\nBASH_ENV = "{OURS}"\n'),
        ('model = "o"\n', f'model = "o"\n\n[shell_environment_policy.set]\nBASH_ENV = "{OURS}"\n'),
        (
            '[shell_environment_policy.set] # mine\nA = "b"\n',
            f'[shell_environment_policy.set] # mine\nBASH_ENV = "{OURS}"\nA = "b"\n',
        ),
        (
            'shell_environment_policy.set = { A = "b" }\n',
            f'shell_environment_policy.set = {{ BASH_ENV = "{OURS}", A = "b" }}\n',
        ),
    ],
)
def test_it_looks_as_a_person_would_have_written_it(before: str, after: str) -> None:
    assert toml_text.with_key(before, KEYS, OURS) == after
    had = toml_text.get(before, KEYS[:-1]) is not None
    assert toml_text.without_key(after, KEYS, table_too=not had) == before


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a =", "not valid TOML"),
        ('shell_environment_policy = "all"', "is not a table"),
        ("[shell_environment_policy.set]\nBASH_ENV = 1", "is not a string"),
    ],
)
def test_what_is_not_understood_is_left(text: str, why: str) -> None:
    with pytest.raises(NotUnderstood, match=why):
        toml_text.with_key(text, KEYS, OURS)


@given(st.text())
def test_anything_else_is_refused(text: str) -> None:
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        with pytest.raises(NotUnderstood):
            toml_text.with_key(text, KEYS, OURS)


def is_subsequence(part: str, whole: str) -> bool:
    letters = iter(whole)
    return all(letter in letters for letter in part)
