"""Which tool call does a supervised command belong to? By the call's id, else by the command's text and by order.

1. A command that carries a tool call id belongs to the running call of that id. If the agent has made no such call,
   the command belongs to none: its text is not looked at.
2. Else it belongs to the oldest running call that no command has been given to, and whose text is its own. Order says
   nothing of two sessions: where both have such a call, the session that the command names decides.
3. Else, where exactly one running shell call says no text (Gemini's do not), and exactly one command is left over, they
   belong together.
4. Else it belongs to none. Never a guess.

What was matched once stays: a call whose command has ended waits for its own end, and takes no other. A command that
names a session of this connection belongs to no call of another one. Pure; sessions and ids are the agent's, keys are
of core.match_key.
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
    session_id: str | None = None
    call: Call | None = None


class Matcher:
    """One bridge's calls and commands."""

    def __init__(self, bridge_id: str) -> None:
        self._bridge_id = bridge_id
        self._calls: OrderedDict[Call, _ToolCall] = OrderedDict()
        self._commands: OrderedDict[str, _Command] = OrderedDict()
        self._sessions: OrderedDict[str, None] = OrderedDict()

    def session_seen(self, session_id: str) -> None:
        """The client works in this session: a command that names it is of no other one."""
        self._sessions[session_id] = None
        self._sessions.move_to_end(session_id)
        while len(self._sessions) > MAX_CALLS:
            self._sessions.popitem(last=False)

    def call_seen(self, call: Call, text: str | None, *, is_shell: bool) -> None:
        """The agent said something of a call. `text`: the command it runs, None where it was not said (again)."""
        known = self._calls.setdefault(call, _ToolCall())
        if text:
            known.key = match_key(self._bridge_id, text)
        known.is_shell = known.is_shell or is_shell or text is not None
        while len(self._calls) > MAX_CALLS:
            self._calls.popitem(last=False)

    def command_started(
        self,
        command_id: str,
        tool_call_id: str | None,
        key: str | None,
        session_id: str | None,
        running: Iterable[Call],
    ) -> None:
        """Also of one that runs already, which a daemon tells of again: it keeps its call.

        `running`: as for `call_of`. A call that fits now is taken now, for order is the order of the starts.
        """
        if command_id in self._commands:
            return
        command = self._commands[command_id] = _Command(tool_call_id, key, session_id)
        command.call = next((call for call, known in self._calls.items() if known.command_id == command_id), None)
        if command.call is None:
            self._match_by_name(command_id, command, list(running))

    def command_ended(self, command_id: str, running: Iterable[Call]) -> None:
        """It is given to its call first, if that was not asked before: the call is not free for another one."""
        self.call_of(command_id, running)
        self._commands.pop(command_id, None)

    def commands_unknown(self) -> None:
        """Another daemon speaks from here on, and says itself which commands run."""
        self._commands.clear()

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
            command_id, command = nameless[0]
            if silent_calls == self._of_session(command, silent_calls):
                self._give(silent_calls[0], command_id, command)

    def _match_by_name(self, command_id: str, command: _Command, running: list[Call]) -> bool:
        if command.tool_call_id is not None:
            named = self._of_session(command, [call for call in running if call[1] == command.tool_call_id])
            if len(named) == 1:  # one id in two sessions tells nothing
                command.call = named[0]
            return command.call is not None
        if command.key is None:
            return False
        fitting = [call for call in running if self._is_free(call) and self._calls[call].key == command.key]
        fitting = self._of_session(command, fitting)
        if len({session_id for session_id, _ in fitting}) != 1:
            return False
        self._give(fitting[0], command_id, command)
        return True

    def _of_session(self, command: _Command, calls: list[Call]) -> list[Call]:
        """Those of the session that the command names; all, where that is none of this connection's."""
        if command.session_id not in self._sessions:
            return calls
        return [call for call in calls if call[0] == command.session_id]

    def _is_free(self, call: Call) -> bool:
        known = self._calls.get(call)
        return known is not None and known.is_shell and known.command_id is None

    def _give(self, call: Call, command_id: str, command: _Command) -> None:
        self._calls[call].command_id = command_id
        command.call = call
