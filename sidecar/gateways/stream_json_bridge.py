"""What a bridge behind `--output-format stream-json` adds to the agent's stream, and when. Pure: lines in, lines out.

The two agents that speak it (Claude Code, Qwen Code) say a heartbeat each in its own way (stream_json.py), and beat by
themselves in their present versions. Those are not doubled: their clients get the changes of the verdict, as a `system`
message with a subtype of ours, which clients of both skip unless they know it.

Qwen's clients get nothing of ours unless they asked for partial messages (`--include-partial-messages`), as with its
own beats.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from sidecar.gateways import stream_json
from sidecar.gateways.commands import Commands, News, mapping
from sidecar.gateways.context import Context, Record
from sidecar.gateways.matching import Matcher
from sidecar.gateways.stream_json_gate import StreamJsonGate

PARTIAL_MESSAGES: Final = "--include-partial-messages"
_VERSION_KEYS: Final = {"claude": "claude_code_version", "qwen": "qwen_code_version"}
"""In the agent's first message, {"type": "system", "subtype": "init", ...}: whose dialect it speaks."""
_BEATS_SINCE: Final = {"claude": (2, 1, 332), "qwen": (0, 24, 4)}
"""The versions that were seen to beat by themselves. Any other agent is found out when it does."""
_SHELLS: Final = {"Bash": "claude", "run_shell_command": "qwen"}
"""The agents' shells by name; they tell the dialect where the first message did not."""
_TELLING: Final = (b'"tool_', b'"result"', b'"control_', b'"init"')
"""An agent's line that has none of these (a piece of its answer, mostly) tells nothing of a call or a turn."""
_ASKING: Final = (b'"control_',)
"""The same for a client's."""
_PARTIAL: Final = b'"stream_event"'


class StreamJsonBridge:
    """Give it each line before anything follows it; what `record` returns goes to the client, behind whole lines only.

    `argv` is the agent's: whether it was asked for partial messages.
    """

    def __init__(self, bridge_id: str, argv: Sequence[str] = ()) -> None:
        self._gate = StreamJsonGate()
        self._matcher = Matcher(bridge_id)
        self._commands = Commands(bridge_id, self._matcher)
        self._offered: News | None = None
        self._dialect: str | None = None
        self._agent_beats = False
        self._partial_messages = PARTIAL_MESSAGES in argv

    def agent_line(self, line: bytes | None) -> None:
        """From the agent; None: one that was too long to be looked at."""
        if line is not None:
            if not self._partial_messages and _PARTIAL in line:
                self._partial_messages = _is_partial(line)
            if not any(word in line for word in _TELLING):
                return
        message = self._message(line)
        self._look_at(message)
        for made in self._gate.agent_said(message):
            self._matcher.call_seen(made.call, made.text, is_shell=made.name in _SHELLS)

    def agent_words(self) -> Sequence[bytes]:
        """An agent's line that has none of them need not be given."""
        return _TELLING if self._partial_messages else (*_TELLING, _PARTIAL)

    def client_words(self) -> Sequence[bytes]:
        """The same of the client's."""
        return _ASKING

    def client_line(self, line: bytes | None) -> None:
        """From the client; None: one that was too long to be looked at."""
        if line is None or any(word in line for word in _ASKING):
            self._gate.client_said(self._message(line))

    def close(self) -> None:
        """One side is gone: nothing more is added."""
        self._gate.close()

    def record(self, record: Record) -> bytes:
        """What the daemon said (a record of the format ndjson), as lines for the client; empty = nothing."""
        self._offered = None
        news = self._commands.news(record, self._gate.open_calls())
        messages = [] if news is None else self._words(news)
        if messages:
            self._offered = news
        return b"".join(json.dumps(message, separators=(",", ":")).encode() + b"\n" for message in messages)

    def passed_on(self) -> None:
        """What `record` gave last is with the client."""
        if self._offered is not None:
            self._commands.told(self._offered)

    def _words(self, news: News) -> list[Record]:
        made = self._gate.made(news.call)
        dialect = self._dialect or _SHELLS.get(made.name, "claude")
        if dialect == "qwen" and not self._partial_messages:
            return []
        encode = stream_json.qwen if dialect == "qwen" else stream_json.claude
        command = {**news.command, "toolName": made.name or None}
        session_id, tool_call_id = news.call
        context = Context(session_id, tool_call_id, partial_messages=True)
        messages = [
            None if self._agent_beats else encode(command, news.frame, context),
            stream_json.verdict(command, news.frame, context) if news.verdict_is_new else None,
        ]
        return [{**message, "parent_tool_use_id": made.parent} for message in messages if message is not None]

    def _look_at(self, message: object) -> None:
        """What the agent says of itself."""
        said = mapping(message)
        if said.get("type") == "system" and said.get("subtype") == "init":
            for dialect, key in _VERSION_KEYS.items():
                if key in said:
                    self._dialect = dialect
                    self._agent_beats = self._agent_beats or _version(said[key]) >= _BEATS_SINCE[dialect]
        content = mapping(mapping(said.get("event")).get("content"))
        of_a_shell = said.get("type") == "tool_progress" and said.get("tool_name") in list(_SHELLS)
        if of_a_shell or content.get("type") == "shell_progress":
            self._agent_beats = True

    def _message(self, line: bytes | None) -> object:
        try:
            message = None if line is None else json.loads(line)
        except (ValueError, RecursionError):
            message = None
        if message is None:
            self._gate.unreadable()
        return message


def _is_partial(line: bytes) -> bool:
    try:
        message: Any = json.loads(line)
    except (ValueError, RecursionError):
        return False
    if not isinstance(message, Mapping) or message.get("type") != "stream_event":
        return False
    kind = mapping(message.get("event")).get("type")
    # Qwen Code says the state of its goal (`goal_state`) to those, too, who asked for nothing in parts.
    return isinstance(kind, str) and kind.startswith(("message_", "content_block_"))


def _version(text: object) -> tuple[int, ...]:
    """(2, 1, 332); an empty tuple, which is older than any, where it says none."""
    found = re.match(r"(\d{1,9})\.(\d{1,9})\.(\d{1,9})", text) if isinstance(text, str) else None
    return tuple(map(int, found.groups())) if found else ()
