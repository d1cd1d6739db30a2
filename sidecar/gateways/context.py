"""What a consumer's protocol needs to know, and no frame says."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Record = dict[str, Any]
Frame = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Context:
    """`session_id` and `tool_call_id` stand in for the command's own, where a gateway knows better.

    `partial_messages`: the consumer of stream-json asked for them (--include-partial-messages). `progress_token` is the
    one of the MCP request.
    """

    session_id: str | None = None
    tool_call_id: str | None = None
    partial_messages: bool = False
    progress_token: str | int | None = None

    def session_of(self, command: Frame) -> str | None:
        return self.session_id if self.session_id is not None else command.get("sessionId")

    def tool_call_of(self, command: Frame) -> str | None:
        return self.tool_call_id if self.tool_call_id is not None else command.get("toolCallId")
