"""Which tool call does a supervised command belong to? By the call's id, else by the command's text and by order.

1. A command that carries a tool call id belongs to the running call of that id. If the agent has made no such call,
   the command belongs to none: its text is not looked at.
2. Else it belongs to the oldest running call that no command has been given to, and whose text is its own.
3. Else, where exactly one running shell call says no text (Gemini's do not), and exactly one command is left over, they
   belong together.
4. Else it belongs to none. Never a guess.

What was matched once stays. Pure; sessions and ids are the agent's, keys are of core.match_key.
"""

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass

from sidecar.core.match_key import match_key
from sidecar.gateways.gate import MAX_CALLS, Call


@dataclass(slots=True)
class _ToolCall:
    key: str | None = None
    is_shell: bool = False
    command_id: str | None = None


@dataclass(slots=True)
class _Command:
    tool_call_id: str | None
    key: str | None
    call: Call | None = None


class Matcher:
    """One bridge's calls and commands."""

    def __init__(self, bridge_id: str) -> None:
        self._bridge_id = bridge_id
        self._calls: OrderedDict[Call, _ToolCall] = OrderedDict()
        self._commands: OrderedDict[str, _Command] = OrderedDict()

    def call_seen(self, call: Call, text: str | None, *, is_shell: bool) -> None:
        """The agent said something of a call. `text`: the command it runs, None where it was not said (again)."""
        known = self._calls.setdefault(call, _ToolCall())
        if text:
            known.key = match_key(self._bridge_id, text)
        known.is_shell = known.is_shell or is_shell or text is not None
        while len(self._calls) > MAX_CALLS:
            self._calls.popitem(last=False)

    def command_started(self, command_id: str, tool_call_id: str | None, key: str | None) -> None:
        self._commands.setdefault(command_id, _Command(tool_call_id, key))

    def command_ended(self, command_id: str) -> None:
        self._commands.pop(command_id, None)

    def call_of(self, command_id: str, running: Iterable[Call]) -> Call | None:
        """The call that the command belongs to; `running` are the calls that may be beaten for, oldest first."""
        command = self._commands.get(command_id)
        if command is None:
            return None
        if command.call is None:
            self._match(list(running))
        return command.call

    def _match(self, running: list[Call]) -> None:
        left = []
        for command_id, command in self._commands.items():
            if command.call is None and not self._match_by_name(command_id, command, running):
                left.append((command_id, command))
        nameless = [(command_id, command) for command_id, command in left if command.tool_call_id is None]
        silent_calls = [call for call in running if self._is_free(call) and self._calls[call].key is None]
        if len(nameless) == len(silent_calls) == 1 and self._calls[silent_calls[0]].is_shell:
            self._give(silent_calls[0], *nameless[0])

    def _match_by_name(self, command_id: str, command: _Command, running: list[Call]) -> bool:
        if command.tool_call_id is not None:
            named = [call for call in running if call[1] == command.tool_call_id]
            if len(named) == 1:  # one id in two sessions tells nothing
                command.call = named[0]
            return command.call is not None
        for call in running:
            if command.key is not None and self._is_free(call) and self._calls[call].key == command.key:
                self._give(call, command_id, command)
                return True
        return False

    def _is_free(self, call: Call) -> bool:
        known = self._calls.get(call)
        return known is not None and known.is_shell and known.command_id is None

    def _give(self, call: Call, command_id: str, command: _Command) -> None:
        self._calls[call].command_id = command_id
        command.call = call
