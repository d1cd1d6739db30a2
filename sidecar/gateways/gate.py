"""The settle gate: for which tool calls a gateway may say "still running" just now, from what both sides have said.

A heartbeat carries the status in_progress, and would bring back to life whatever the client holds to be over. So:

1. Only a call that the agent has made, and that it says is running: its last status is in_progress, or the client
   has allowed it and the agent has said nothing since. `pending` may be waiting for the user's leave.
2. Not while a permission request for the call is open, nor after it was refused.
3. Never again after any other status (completed, failed, cancelled, or one of a later version), save paused
   (version 2), from which the agent may come back.
4. Never again once the client has cancelled the session's work, or the agent has ended the turn (the answer to
   session/prompt in version 1, an idle state in version 2): calls of it that were left open are over.
5. After something that could not be read, nothing, until the agent next says that the call is running.
6. Not by what the agent repeats of a session that the client loads (session/load): that is how it once was.

ACP: https://agentclientprotocol.com/protocol/tool-calls. Pure. Messages must be given in the order in which they are
passed on, each before anything of ours is put behind it. Nothing raises, whatever the message is.
"""

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

Message = Mapping[str, Any]
Call = tuple[str, str]

RUNNING: Final = "in_progress"
_COMES_BACK: Final = frozenset({"pending", "paused"})
MAX_CALLS: Final = 4096
MAX_REQUESTS: Final = 4096


@dataclass(slots=True)
class _State:
    status: str | None = None
    is_over: bool = False
    asked: int = 0
    """Permission requests that are open."""
    refused: bool = False


class Gate:
    """One connection's calls, by (session id, tool call id). A bounded number is remembered; others are closed."""

    def __init__(self) -> None:
        self._calls: OrderedDict[Call, _State] = OrderedDict()
        self._asked: OrderedDict[object, tuple[Call, frozenset[str]]] = OrderedDict()
        self._prompts: OrderedDict[object, str] = OrderedDict()
        self._loads: OrderedDict[object, str] = OrderedDict()

    def may_beat(self, session_id: str, tool_call_id: str) -> bool:
        """Whether an update with the status in_progress may be sent for this call now."""
        state = self._calls.get((session_id, tool_call_id))
        return (
            state is not None
            and not state.is_over
            and state.asked == 0
            and not state.refused
            and state.status == RUNNING
        )

    def open_calls(self) -> list[Call]:
        """The calls for which `may_beat` holds, oldest first."""
        return [call for call in self._calls if self.may_beat(*call)]

    def agent_said(self, message: object) -> None:
        """A message from the agent to the client."""
        if not isinstance(message, Mapping):
            return
        method, params = message.get("method"), _mapping(message.get("params"))
        if method == "session/update":
            self._updated(params)
        elif method == "session/request_permission" and "id" in message:
            self._permission_asked(_key(message["id"]), params)
        elif method is None and "id" in message:
            self._loads.pop(_key(message["id"]), None)
            session_id = self._prompts.pop(_key(message["id"]), None)
            # In version 2 the answer only confirms the prompt, and says no reason.
            if session_id is not None and ("error" in message or "stopReason" in _mapping(message.get("result"))):
                self._end(session_id)

    def client_said(self, message: object) -> None:
        """A message from the client to the agent."""
        if not isinstance(message, Mapping):
            return
        method, params = message.get("method"), _mapping(message.get("params"))
        session_id = params.get("sessionId")
        if method in ("session/cancel", "session/close", "session/delete") and isinstance(session_id, str):
            self._end(session_id)
        elif method == "session/prompt" and isinstance(session_id, str) and "id" in message:
            _put(self._prompts, _key(message["id"]), session_id)
        elif method == "session/load" and isinstance(session_id, str) and "id" in message:
            _put(self._loads, _key(message["id"]), session_id)
        elif method == "$/cancel_request" and "requestId" in params:
            # The agent answers it as cancelled, and what it says meanwhile is of work that is over for the client.
            cancelled = self._prompts.get(_key(params["requestId"]))
            if cancelled is not None:
                self._end(cancelled)
        elif method is None and "id" in message:
            self._permission_answered(_key(message["id"]), _mapping(message.get("result")))

    def unreadable(self) -> None:
        """Something passed that could not be read: it may have ended any call."""
        for state in self._calls.values():
            state.status = None

    def close(self) -> None:
        """The connection is over."""
        for state in self._calls.values():
            state.is_over = True

    def _updated(self, params: Message) -> None:
        session_id, update = params.get("sessionId"), _mapping(params.get("update"))
        if not isinstance(session_id, str):
            return
        kind = update.get("sessionUpdate")
        if kind in ("tool_call", "tool_call_update"):
            self._status(session_id, update)
        elif kind == "state_update" and update.get("state") == "idle":
            self._end(session_id)

    def _status(self, session_id: str, update: Message) -> None:
        tool_call_id = update.get("toolCallId")
        if not isinstance(tool_call_id, str):
            return
        call = (session_id, tool_call_id)
        state = self._calls.get(call)
        if state is None:
            state = _State()
            _put(self._calls, call, state)
        if "status" not in update:
            return
        status = update["status"]
        # null: no change in version 1, pending in version 2; to be silent is right in both.
        state.status = status if isinstance(status, str) else None
        if isinstance(status, str) and status != RUNNING and status not in _COMES_BACK:
            state.is_over = True
        if status == RUNNING:
            state.refused = False
            if session_id in self._loads.values():
                state.status = None

    def _permission_asked(self, request: object, params: Message) -> None:
        session_id = params.get("sessionId")
        # Version 2 has the call in the subject of the question.
        tool_call = _mapping(params.get("toolCall")) or _mapping(_mapping(params.get("subject")).get("toolCall"))
        tool_call_id = tool_call.get("toolCallId")
        if not isinstance(session_id, str) or not isinstance(tool_call_id, str):
            return
        self._status(session_id, tool_call)
        options = params.get("options")
        allowing = frozenset(
            option["optionId"]
            for option in (options if isinstance(options, list) else [])
            if isinstance(option, Mapping)
            and isinstance(option.get("optionId"), str)
            and str(option.get("kind")).startswith("allow")
        )
        call = (session_id, tool_call_id)
        if request in self._asked:
            # An id that is in use: the answer is the first question's. One for another call stays open.
            self._calls[call].asked += self._asked[request][0] != call
            return
        self._calls[call].asked += 1
        for dropped, _allowing in _put(self._asked, request, (call, allowing)):
            # Never answered, and too old to be remembered: it stays closed.
            self._over(dropped)

    def _permission_answered(self, request: object, result: Message) -> None:
        call, allowing = self._asked.pop(request, (None, frozenset[str]()))
        state = None if call is None else self._calls.get(call)
        if state is None:
            return
        state.asked -= 1
        outcome = _mapping(result.get("outcome"))
        option = outcome.get("optionId")
        if outcome.get("outcome") == "selected" and isinstance(option, str) and option in allowing:
            state.refused = False
            state.status = RUNNING
        else:
            state.refused = True

    def _end(self, session_id: str) -> None:
        for call in self._calls:
            if call[0] == session_id:
                self._over(call)

    def _over(self, call: Call) -> None:
        state = self._calls.get(call)
        if state is not None:
            state.is_over = True


def _put(table: "OrderedDict[Any, Any]", key: object, value: Any) -> list[Any]:
    """Add to a bounded table; the values that had to go for it."""
    table[key] = value
    table.move_to_end(key)
    limit = MAX_CALLS if isinstance(value, _State) else MAX_REQUESTS
    return [table.popitem(last=False)[1] for _ in range(len(table) - limit)]


def _mapping(value: object) -> Message:
    return value if isinstance(value, Mapping) else {}


def _key(request_id: object) -> object:
    """Ids are strings, numbers or null; 1 and "1" are two, 1 and 1.0 are one. What is no id becomes one that nothing
    matches."""
    if isinstance(request_id, bool) or not isinstance(request_id, str | int | float | None):
        return object()
    if isinstance(request_id, float) and request_id.is_integer():
        request_id = int(request_id)
    return (type(request_id).__name__, request_id)
