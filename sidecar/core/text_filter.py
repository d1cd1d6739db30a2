"""Which commands a person wants who gives a word to look for: the one filter of `ps`, `top` and `history`."""

from collections.abc import Mapping
from typing import Any, Final

from sidecar.core.verdict_names import group_of

_SEARCHED: Final = ("program", "commandId", "toolCallId", "toolName", "sessionId", "verdict", "traceId", "pid")


def fits(record: Mapping[str, Any], text: str) -> bool:
    """Whether the daemon's or the history's record of a command has `text`, of whatever case, in a name, an id, its
    pid, its verdict or that one's group. An empty text fits all."""
    words = [*(str(record.get(key, "")) for key in _SEARCHED), group_now(record) or ""]
    return text.lower() in " ".join(words).lower()


def group_now(record: Mapping[str, Any]) -> str | None:
    """Of the command's verdict; None where there is none now. One whose supervisor says nothing any more needs
    someone."""
    if "heartbeatDelayMs" in record:
        return "needs_someone"
    verdict = record.get("verdict")
    return None if verdict is None else str(record.get("group", group_of(verdict)))
