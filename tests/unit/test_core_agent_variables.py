"""What agents put into the environment: taken where it is clear, and only then."""

import pytest

from sidecar.core.agent_variables import SESSION, session_id, tool_call_id


@pytest.mark.parametrize("name", SESSION)
def test_each_agents_session(name: str) -> None:
    assert session_id({name: "s-42", "PATH": "/bin"}) == "s-42"
    assert session_id({name: ""}) is None


@pytest.mark.parametrize("text", ["a\nb", "x" * 257, "\udcff"])
def test_what_is_no_identifier_is_none(text: str) -> None:
    assert session_id({"CLAUDE_CODE_SESSION_ID": text}) is None


def test_of_two_agents_one_within_the_other_none_is_guessed() -> None:
    environ = {"CLAUDE_CODE_SESSION_ID": "outer", "CODEX_SESSION_ID": "inner", "CODEX_TOOL_CALL_ID": "c1"}
    assert (session_id(environ), tool_call_id(environ)) == (None, None)
    environ["CLAUDE_CODE_SESSION_ID"] = "inner"
    assert session_id(environ) == "inner"


def test_codex_says_the_call() -> None:
    assert tool_call_id({"CODEX_SESSION_ID": "s", "CODEX_TOOL_CALL_ID": "call_7"}) == "call_7"
    assert tool_call_id({}) is None
