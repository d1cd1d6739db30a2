"""Does a stream keep the rules that every producer, bridge and gateway of beats keeps? Pure: lines in, faults out.

A stream is what a client reads of one connection: the agent's messages with beats between them. What the agent does
with its calls is its own affair; only beats are judged. Of a gateway, which makes such a stream of another one, what is
no beat must come out whole and in order, too.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from sidecar.conformance.consumer import Fault
from sidecar.core.values import counted

_A_GATEWAYS: Final = {"call-is-known", "not-after-the-end"}
_ENDED: Final = ("completed", "failed", "cancelled")
_PAYLOAD: Final = {"elapsedMs", "lastOutputAgeMs", "totalLines", "totalBytes", "timeoutMs"}
_ACP_KEYS: Final = {"sessionUpdate", "toolCallId", "status", "_meta"}
_CLAUDE_KEYS: Final = {
    "type", "tool_use_id", "tool_name", "parent_tool_use_id", "elapsed_time_seconds", "uuid", "session_id",
    "heartbeat", "task_id", "_meta",
}  # fmt: skip
_QWEN_KEYS: Final = {"type", "tool_use_id", "content", "_meta"}


def faults(lines: Iterable[bytes], protocol: str) -> list[Fault]:
    """All faults of a stream, in order. A line that is no JSON object is nobody's beat."""
    checker = _CHECKERS[protocol]()
    for number, line in enumerate(lines, 1):
        checker.number = number
        message = _object(line)
        if message is not None:
            checker.look(message)
    return checker.faults


def faults_of_gateway(given: Iterable[bytes], passed: Iterable[bytes], protocol: str) -> list[Fault]:
    """Those of the stream that a gateway made of another one, and what it lost, changed or added of what is no beat."""
    given, passed = list(given), list(passed)
    # What it was given with a fault it may pass on, save what it is there to drop.
    excused = {fault.rule for fault in faults(given, protocol)} - _A_GATEWAYS
    found = [fault for fault in faults(passed, protocol) if fault.rule not in excused]
    left, kept = ([each for each in map(_object, lines) if not is_beat(each)] for lines in (given, passed))
    if left != kept:
        went_in = counted(len(left), "message that is no beat", "messages that are no beat")
        counts = f"{went_in} went in, {len(kept)} came out, or others"
        found.append(Fault(0, "nothing-is-lost", counts))
    return found


def is_beat(message: Mapping[str, Any] | None) -> bool:
    """Whether a message of either protocol is a beat, or a change of verdict."""
    message = message or {}
    update = _mapping(_mapping(message.get("params")).get("update"))
    meta = _mapping(update.get("_meta"))
    if update.get("sessionUpdate") == "tool_call_update" and ("shellProgress" in meta or "sidecar" in meta):
        return True
    return _progress_of(message) is not None or message.get("subtype") == "sidecar_verdict"


class _Checker:
    def __init__(self) -> None:
        self.number = 0
        self.faults: list[Fault] = []
        self._known: set[tuple[str, str]] = set()
        self._over: set[tuple[str, str]] = set()
        self._seq: dict[str, int] = {}

    def look(self, message: Mapping[str, Any]) -> None:
        raise NotImplementedError

    def fault(self, rule: str, found: str) -> None:
        self.faults.append(Fault(self.number, rule, found))

    def _judge_call(self, call: tuple[str, str]) -> None:
        if call not in self._known:
            self.fault("call-is-known", f"nobody has made a call {call[1]}")
        if call in self._over:
            self.fault("not-after-the-end", f"{call[1]} had ended")

    def _judge_payload(self, payload: object) -> None:
        said = _mapping(payload)
        wrong = [key for key, value in said.items() if key != "type" and not (key in _PAYLOAD and _is_count(value))]
        if said.get("type") != "shell_progress" or "elapsedMs" not in said or wrong:
            self.fault("payload-to-the-letter", f"the object is {json.dumps(payload)[:200]}")

    def _judge_seq(self, meta: Mapping[str, Any]) -> None:
        said = _mapping(meta.get("sidecar"))
        command_id, seq = said.get("commandId"), said.get("seq")
        if not isinstance(command_id, str) or not isinstance(seq, int):
            return
        if seq <= self._seq.get(command_id, -1):
            self.fault("seq-increases", f"{seq} follows {self._seq[command_id]}")
        self._seq[command_id] = seq

    def _judge_keys(self, said: Mapping[str, Any], allowed: set[str]) -> None:
        if more := sorted(set(said) - allowed):
            self.fault("meta-only", f"it has {', '.join(more)}")


class _Acp(_Checker):
    def look(self, message: Mapping[str, Any]) -> None:
        params = _mapping(message.get("params"))
        update = _mapping(params.get("update"))
        # A question for leave may be the first that a client hears of a call; in version 2 it has it in its subject.
        asked = _mapping(params.get("toolCall")) or _mapping(_mapping(params.get("subject")).get("toolCall"))
        tool_call_id = update.get("toolCallId", asked.get("toolCallId"))
        if update and update.get("sessionUpdate") not in ("tool_call", "tool_call_update"):
            return
        if not isinstance(tool_call_id, str):
            return
        call = (str(params.get("sessionId")), tool_call_id)
        if is_beat(message):
            self._beat(call, update)
            return
        self._known.add(call)
        if update.get("status") in _ENDED:
            self._over.add(call)

    def _beat(self, call: tuple[str, str], update: Mapping[str, Any]) -> None:
        self._judge_call(call)
        self._judge_keys(update, _ACP_KEYS)
        if update.get("status") != "in_progress":
            self.fault("status-is-in_progress", f"the status is {update.get('status')!r}")
        meta = _mapping(update.get("_meta"))
        if "shellProgress" in meta:
            self._judge_payload(meta["shellProgress"])
        self._judge_seq(meta)


class _StreamJson(_Checker):
    def look(self, message: Mapping[str, Any]) -> None:
        session = str(message.get("session_id"))
        said = _progress_of(message)
        if said is not None:
            self._judge_call((session, str(said.get("tool_use_id"))))
            if said is message:
                self._judge_keys(said, _CLAUDE_KEYS)
            else:
                self._judge_keys(said, _QWEN_KEYS)
                self._judge_payload(said.get("content"))
            return
        content = _mapping(message.get("message")).get("content")
        blocks = [_mapping(block) for block in content] if isinstance(content, list) else []
        if message.get("type") == "assistant":
            self._known.update((session, str(block.get("id"))) for block in blocks if block.get("type") == "tool_use")
        elif message.get("type") == "user":
            results = [block for block in blocks if block.get("type") == "tool_result"]
            self._over.update((session, str(block.get("tool_use_id"))) for block in results)
        elif message.get("type") == "result":
            self._over.update(self._known)


_CHECKERS: Final[dict[str, type[_Checker]]] = {"acp": _Acp, "stream-json": _StreamJson}


def _progress_of(message: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The progress of a shell in either dialect of stream-json; a tool of MCP has another."""
    if message.get("type") == "tool_progress":
        return message
    event = _mapping(message.get("event"))
    of_a_shell = _mapping(event.get("content")).get("type") != "mcp_tool_progress"
    return event if event.get("type") == "tool_progress" and of_a_shell else None


def _object(line: bytes) -> Mapping[str, Any] | None:
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return message if isinstance(message, dict) else None


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
