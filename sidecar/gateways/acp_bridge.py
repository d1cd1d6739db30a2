"""What a bridge between an ACP client and its agent adds to the stream, and when. Pure: lines in, lines out.

It reads what passes, and is told what the daemon says of the commands that run behind it. Everything that it adds is
for the client: one `session/update` with the status in_progress and `_meta`, for a call that the gate lets through
(gate.py) and the command belongs to (matching.py). An agent that beats by itself (Qwen Code) is not doubled: its calls
get the verdict, when that changes.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from sidecar.core import frame as wire
from sidecar.gateways import acp
from sidecar.gateways.commands import Commands, News, mapping
from sidecar.gateways.context import Context, Record
from sidecar.gateways.gate import Gate
from sidecar.gateways.matching import Matcher

BEAT_BY_THEMSELVES = ("qwen-code",)
"""Agents by the name they give in the answer to `initialize`; others are found out when they do."""
_TELLING = (b'"toolCallId"', b'"result"', b'"error"', b'"state_update"')
"""An agent's line that has none of these (a piece of its answer, mostly) tells nothing of a call or a turn."""
_ASKING = (b"prompt", b"cancel", b"close", b"delete", b'/load"', b'"outcome"')
"""The same for a client's: the methods that begin or end work, and the answer to a permission request."""
_SHELL_KINDS = frozenset({"execute"})


class AcpBridge:
    """Give it each line before it is passed on; what `record` returns goes to the client, behind whole lines only."""

    def __init__(self, bridge_id: str) -> None:
        self._gate = Gate()
        self._matcher = Matcher(bridge_id)
        self._commands = Commands(bridge_id, self._matcher)
        self._offered: News | None = None
        self._agent_beats = False

    def agent_line(self, line: bytes | None) -> None:
        """From the agent; None: one that was too long to be looked at."""
        if line is not None and not any(word in line for word in _TELLING):
            return
        for part in self._messages(line):
            self._gate.agent_said(part)
            self._look_at(part)

    def agent_words(self) -> Sequence[bytes]:
        """An agent's line that has none of them need not be given."""
        return _TELLING

    def client_words(self) -> Sequence[bytes]:
        """The same of the client's."""
        return _ASKING

    def client_line(self, line: bytes | None) -> None:
        """From the client; None: one that was too long to be looked at."""
        if line is not None and not any(word in line for word in _ASKING):
            return
        for part in self._messages(line):
            self._gate.client_said(part)
            session_id = mapping(mapping(part).get("params")).get("sessionId")
            if isinstance(session_id, str):
                self._matcher.session_seen(session_id)

    def close(self) -> None:
        """One side is gone: nothing more is added."""
        self._gate.close()

    def record(self, record: Record) -> bytes:
        """What the daemon said (a record of the format ndjson), as a line for the client; empty = nothing."""
        self._offered = None
        news = self._commands.news(record, self._gate.open_calls())
        update = None if news is None else self._update(news)
        if news is None or update is None:
            return b""
        self._offered = news
        notification = {
            "jsonrpc": "2.0",
            "method": acp.METHOD,
            "params": {"sessionId": news.call[0], "update": update},
        }
        return json.dumps(notification, separators=(",", ":")).encode() + b"\n"

    def passed_on(self) -> None:
        """The line that `record` gave last is with the client."""
        if self._offered is not None:
            self._commands.told(self._offered)

    def _update(self, news: News) -> Record | None:
        if news.record.get("type") == wire.VERDICT:
            update = acp.update(news.command, news.record, Context(tool_call_id=news.call[1]))
        else:
            update = {"sessionUpdate": "tool_call_update", **news.record, "toolCallId": news.call[1]}
        if update is not None and self._agent_beats:
            update["_meta"] = {key: value for key, value in update["_meta"].items() if key != "shellProgress"}
            return update if news.verdict_is_new else None
        return update

    def _messages(self, line: bytes | None) -> list[Any]:
        """The messages of a line; a batch (JSON-RPC 2.0) is a list of them."""
        try:
            message = None if line is None else json.loads(line)
        except (ValueError, RecursionError):
            message = None
        if message is None:
            self._gate.unreadable()
            return []
        return message if isinstance(message, list) else [message]

    def _look_at(self, message: object) -> None:
        """What the agent says of its calls' texts, and of itself."""
        if not isinstance(message, Mapping):
            return
        agent = mapping(mapping(message.get("result")).get("agentInfo"))
        if agent.get("name") in BEAT_BY_THEMSELVES:
            self._agent_beats = True
        params = mapping(message.get("params"))
        update = mapping(params.get("update")) or mapping(params.get("toolCall"))
        if not update and isinstance(params.get("subject"), Mapping):
            update = mapping(params["subject"].get("toolCall"))
        session_id, tool_call_id = params.get("sessionId"), update.get("toolCallId")
        if not isinstance(session_id, str) or not isinstance(tool_call_id, str):
            return
        if "shellProgress" in mapping(update.get("_meta")):
            self._agent_beats = True
        text = mapping(update.get("rawInput")).get("command")
        self._matcher.call_seen(
            (session_id, tool_call_id),
            text if isinstance(text, str) else None,
            is_shell=update.get("kind") in _SHELL_KINDS if isinstance(update.get("kind"), str) else False,
        )
