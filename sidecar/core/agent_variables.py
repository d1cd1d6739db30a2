"""The names that some agents put into the environment of the commands they run.

As observed of qwen-code 0.24, claude-code 2.1 and codex 0.171. What the user or the agent says to us directly
(`--session-id`, SIDECAR_SESSION_ID) wins over these.
"""

TYPE_CHECKING = False  # typing.TYPE_CHECKING, without the 7 ms of importing typing
if TYPE_CHECKING:
    from collections.abc import Mapping

SESSION = ("QWEN_CODE_SESSION_ID", "CLAUDE_CODE_SESSION_ID", "CODEX_SESSION_ID")
TOOL_CALL = ("CODEX_TOOL_CALL_ID",)


def session_id(environ: "Mapping[str, str]") -> str | None:
    """The agent's session; None where no agent says one.

    None too where two agents say different ones: one was started by the other, and which of them runs this command
    cannot be told.
    """
    return _the_one(environ, SESSION)


def tool_call_id(environ: "Mapping[str, str]") -> str | None:
    """The agent's id of the tool call; None where it says none, or where the session is not clear."""
    if sum(bool(environ.get(name)) for name in SESSION) > 1:
        return None
    return _the_one(environ, TOOL_CALL)


def _the_one(environ: "Mapping[str, str]", names: tuple[str, ...]) -> str | None:
    said = {text for name in names if (text := environ.get(name))}
    if len(said) != 1:
        return None
    from sidecar.core.values import parse_identifier

    try:
        return parse_identifier(said.pop())
    except ValueError:
        return None
