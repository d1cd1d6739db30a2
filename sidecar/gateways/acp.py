"""ACP: a heartbeat, or a change of verdict, as a `session/update` notification with a `tool_call_update`.

https://agentclientprotocol.com/protocol/tool-calls, versions 1 and 2: both say it with the same object. In version 2 an
update may create a call that the client has not seen, and `_meta` patches what was there by its top-level keys; so
whoever forwards these must know that the call exists (sidecar/gateways/gate.py).
"""

from sidecar.core import frame as wire
from sidecar.gateways.context import Context, Frame, Record

METHOD = "session/update"


def encode(command: Frame, frame: Frame, context: Context) -> Record | None:
    """The notification; None without a tool call or a session, and for other frames."""
    session_id = context.session_of(command)
    body = update(command, frame, context)
    if session_id is None or body is None:
        return None
    return {"jsonrpc": "2.0", "method": METHOD, "params": {"sessionId": session_id, "update": body}}


def update(command: Frame, frame: Frame, context: Context) -> Record | None:
    """The `update` alone, for whoever has a connection of their own: `await connection.session_update(...)`."""
    tool_call_id = context.tool_call_of(command)
    if tool_call_id is None:
        return None
    identity = {**command, "toolCallId": tool_call_id}
    if frame["type"] == wire.PROGRESS:
        return {"sessionUpdate": "tool_call_update", **wire.native(identity, frame)}
    if frame["type"] == wire.VERDICT:
        # A change between two heartbeats: the same update, without a progress object.
        return {"sessionUpdate": "tool_call_update", **wire.native(identity, {**frame, "shellProgress": None})}
    return None
