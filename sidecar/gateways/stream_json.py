"""The stream-json of Qwen Code and of Claude Code: heartbeats as tool_progress messages.

Qwen wraps the reference's progress object in a partial message, and says nothing to consumers that did not ask for
partial messages. Claude has a message of its own, which says the seconds and no more. Claude itself names the real call
in `parent_tool_use_id` and makes an id up for `tool_use_id`, which gave consumers cards of calls that never were: ours
names the call itself.

The `uuid` is made from the command's id and the frame's sequence number: the same frame has the same one.
"""

from uuid import NAMESPACE_OID, uuid5

from sidecar.core import frame as wire
from sidecar.gateways.context import Context, Frame, Record

UNKNOWN_TOOL = "Bash"
"""tool_name must be a string; it is Claude's own name of its shell."""
VERDICT_SUBTYPE = "sidecar_verdict"


def qwen(command: Frame, frame: Frame, context: Context) -> Record | None:
    """A `stream_event` with a `tool_progress` event; None unless partial messages were asked for."""
    tool_call_id, session_id = context.tool_call_of(command), context.session_of(command)
    if not context.partial_messages or tool_call_id is None or session_id is None or frame["type"] != wire.PROGRESS:
        return None
    return {
        "type": "stream_event",
        "uuid": _uuid(frame),
        "session_id": session_id,
        "parent_tool_use_id": None,
        "event": {"type": "tool_progress", "tool_use_id": tool_call_id, "content": frame["shellProgress"]},
    }


def claude(command: Frame, frame: Frame, context: Context) -> Record | None:
    """A `tool_progress` message, in whole seconds."""
    tool_call_id, session_id = context.tool_call_of(command), context.session_of(command)
    if tool_call_id is None or session_id is None or frame["type"] != wire.PROGRESS:
        return None
    return {
        "type": "tool_progress",
        "tool_use_id": tool_call_id,
        "tool_name": command.get("toolName") or UNKNOWN_TOOL,
        "parent_tool_use_id": None,
        "elapsed_time_seconds": frame["shellProgress"]["elapsedMs"] // 1000,
        "uuid": _uuid(frame),
        "session_id": session_id,
    }


def verdict(command: Frame, frame: Frame, context: Context) -> Record | None:
    """Why a command is silent, from a heartbeat or a verdict frame: a `system` message with a subtype of ours.

    Both agents' clients take `system` messages of any subtype, and this one has no status: it says of no call that it
    runs. None without a tool call, a session or a verdict.
    """
    tool_call_id, session_id = context.tool_call_of(command), context.session_of(command)
    if tool_call_id is None or session_id is None or "verdict" not in frame:
        return None
    meta = wire.native(command, {**frame, "shellProgress": None})["_meta"]
    return {
        "type": "system",
        "subtype": VERDICT_SUBTYPE,
        "uuid": _uuid(frame, "verdict"),
        "session_id": session_id,
        "parent_tool_use_id": None,
        "data": {"tool_use_id": tool_call_id, "_meta": meta},
    }


def _uuid(frame: Frame, part: str = "") -> str:
    return str(uuid5(NAMESPACE_OID, f"{frame['commandId']}/{frame['seq']}{part}"))
