"""The settle gate of stream-json: for which tool calls a bridge may say "still running" just now.

There is no status in this protocol, so a call is running from the agent's message that makes it to the one with its
result. As in gate.py, whoever says "still running" later than that brings back to life what is over. So:

1. Only a call that an `assistant` message of the agent has made as a whole (`tool_use`). The pieces of it before, where
   partial messages are on, say neither the text nor that the call will be made.
2. Not while the client is asked for leave (`can_use_tool`), nor after it was refused or the question was withdrawn.
3. Never again after its `tool_result`, after the `result` of the turn, or once the client has interrupted the turn.
4. Never again after something that could not be read and may have been any of these: this protocol has no message
   that says once more that a call is running.

Pure. Messages must be given in the order in which they are passed on, each before anything of ours is put behind it.
Nothing raises, whatever the message is.
"""

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sidecar.gateways.commands import mapping
from sidecar.gateways.gate import MAX_CALLS, MAX_REQUESTS, Call, Message

_ASKS_LEAVE = "can_use_tool"


@dataclass(frozen=True, slots=True)
class ToolUse:
    """A call as the agent has made it. `parent`: the call of the subagent that made it."""

    call: Call
    name: str
    text: str | None
    parent: str | None


@dataclass(slots=True)
class _State:
    made: ToolUse
    is_over: bool = False
    asked: int = 0
    """Questions for leave that are open."""
    refused: bool = False


class StreamJsonGate:
    """One agent's calls, by (session id, tool use id). A bounded number is remembered; others are closed."""

    def __init__(self) -> None:
        self._calls: OrderedDict[Call, _State] = OrderedDict()
        self._by_id: dict[str, list[_State]] = {}
        self._asked: OrderedDict[str, str | None] = OrderedDict()
        """Request id -> the call's id, None where the question names none. An agent has one session at a time."""

    def may_beat(self, call: Call) -> bool:
        state = self._calls.get(call)
        return state is not None and not state.is_over and not state.asked and not state.refused

    def open_calls(self) -> list[Call]:
        """The calls for which `may_beat` holds, oldest first."""
        return [call for call in self._calls if self.may_beat(call)]

    def made(self, call: Call) -> ToolUse:
        """Of a call of `open_calls`."""
        return self._calls[call].made

    def agent_said(self, message: object) -> list[ToolUse]:
        """A message from the agent; the calls that it makes."""
        if not isinstance(message, Mapping):
            return []
        kind = message.get("type")
        if kind == "assistant":
            return self._made(message)
        if kind == "user":
            for block in _blocks(message, "tool_result"):
                self._result(block.get("tool_use_id"))
                self._remember(_call(message, block.get("tool_use_id")))
        elif kind == "system" and message.get("subtype") == "task_notification":
            # Claude Code says the end of a call's process before its result: a client may show that already.
            if isinstance(message.get("tool_use_id"), str):
                self._result(message["tool_use_id"])
        elif kind == "result":
            self._end()
        elif kind == "control_request":
            request = mapping(message.get("request"))
            self._ask(message.get("request_id"), request)
        elif kind == "control_cancel_request":
            # Withdrawn: the agent will not wait for an answer, and what became of the call it has not said.
            self._answered(message.get("request_id"), allowed=False)
        elif kind == "control_response" and "allowed" in mapping(mapping(message.get("response")).get("response")):
            self._response(message)  # Qwen Code repeats what somebody else has answered
        return []

    def client_said(self, message: object) -> None:
        """A message from the client to the agent."""
        if not isinstance(message, Mapping):
            return
        kind = message.get("type")
        if kind == "control_response":
            self._response(message)
        elif kind == "control_request" and mapping(message.get("request")).get("subtype") == "interrupt":
            self._end()

    def unreadable(self) -> None:
        """Something passed that could not be read: it may have ended any call."""
        self._end()

    def close(self) -> None:
        """One side is gone."""
        self._end()

    def _made(self, message: Message) -> list[ToolUse]:
        parent = message.get("parent_tool_use_id")
        made = []
        for block in _blocks(message, "tool_use"):
            call = _call(message, block.get("id"))
            if call is None:
                continue
            name, text = block.get("name"), mapping(block.get("input")).get("command")
            tool_use = ToolUse(
                call,
                name if isinstance(name, str) else "",
                text if isinstance(text, str) else None,
                parent if isinstance(parent, str) else None,
            )
            if call not in self._calls:  # one that comes again (a resumed session repeats them) brings nothing back
                self._put(_State(tool_use))
                made.append(tool_use)
        return made

    def _remember(self, call: Call | None) -> None:
        """The result of a call that was never made: it is over before it comes."""
        if call is not None and call not in self._calls:
            self._put(_State(ToolUse(call, "", None, None), is_over=True))

    def _put(self, state: _State) -> None:
        self._calls[state.made.call] = state
        self._by_id.setdefault(state.made.call[1], []).append(state)
        while len(self._calls) > MAX_CALLS:
            (_, tool_use_id), dropped = self._calls.popitem(last=False)
            same = [state for state in self._by_id.pop(tool_use_id) if state is not dropped]
            if same:
                self._by_id[tool_use_id] = same

    def _ask(self, request_id: object, request: Message) -> None:
        tool_use_id = request.get("tool_use_id")
        if request.get("subtype") != _ASKS_LEAVE or not isinstance(request_id, str) or request_id in self._asked:
            return
        # Claude Code did not always name the call: then it may be any that is open.
        named = tool_use_id if isinstance(tool_use_id, str) else None
        self._asked[request_id] = named
        for state in self._states(named):
            state.asked += 1
        while len(self._asked) > MAX_REQUESTS:
            # Never answered, and too old to be remembered: it stays closed.
            self._result(self._asked.popitem(last=False)[1])

    def _response(self, message: Message) -> None:
        response = mapping(message.get("response"))
        answer = mapping(response.get("response"))
        allowed = answer.get("behavior") == "allow" or answer.get("allowed") is True
        self._answered(response.get("request_id"), allowed=response.get("subtype") == "success" and allowed)

    def _answered(self, request_id: object, *, allowed: bool) -> None:
        if not isinstance(request_id, str) or request_id not in self._asked:
            return
        for state in self._states(self._asked.pop(request_id)):
            state.asked = max(0, state.asked - 1)
            state.refused = not allowed

    def _result(self, tool_use_id: object) -> None:
        for state in self._states(tool_use_id):
            state.is_over = True

    def _end(self) -> None:
        for state in self._calls.values():
            state.is_over = True

    def _states(self, tool_use_id: object) -> Iterable[_State]:
        """Those of the call, in whichever session; of all calls where none is named."""
        return self._by_id.get(tool_use_id, ()) if isinstance(tool_use_id, str) else self._calls.values()


def _call(message: Message, tool_use_id: object) -> Call | None:
    session_id = message.get("session_id")
    return (session_id if isinstance(session_id, str) else "", tool_use_id) if isinstance(tool_use_id, str) else None


def _blocks(message: Message, kind: str) -> list[Mapping[str, Any]]:
    content = mapping(message.get("message")).get("content")
    blocks = content if isinstance(content, list) else []
    return [block for block in blocks if isinstance(block, Mapping) and block.get("type") == kind]
