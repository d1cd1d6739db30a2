"""Is what a consumer shows what the vector says, and if not, which rule is broken? Pure.

Of a call the status must be shown. `title`, `kind`, `output` and the conversation's `text` are compared where the
consumer says them: not every one shows them all. What it has said before a beat must be there after it, too. What it
shows besides is its own affair, calls excepted.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from sidecar.conformance.vectors import Step

ENDED: Final = ("completed", "failed", "cancelled")
_RULES: Final = {
    "title": "title-is-kept",
    "kind": "kind-is-not-required",
    "output": "output-is-kept",
    "text": "progress-is-not-text",
    "calls": "no-call-is-invented",
}
_SHAPE: Final = 'the answer must be {"calls": {ID: {"status": ...}}}'


def fault_of(step: Step, shown: object, before: object = None) -> tuple[str, str] | None:
    """(the rule, what is wrong in words); None where nothing is. `before`: what was shown before this line."""
    calls = shown.get("calls") if isinstance(shown, Mapping) else None
    if not isinstance(shown, Mapping) or not isinstance(calls, Mapping):
        return "one-answer-a-line", _SHAPE
    before = before if isinstance(before, Mapping) and step.beat is not None else {}
    for call_id, expected in step.view["calls"].items():
        said = _mapping(_mapping(before.get("calls")).get(call_id))
        for key, found in _differences(call_id, expected, calls.get(call_id), said):
            return _rule(step, key, call_id, expected, calls.get(call_id)), found
    for call_id in calls:
        if call_id not in step.view["calls"]:
            return _rule(step, "calls", call_id, None, None), f"a call {call_id} is shown, and there is none"
    if "text" in step.view and "text" in shown and shown["text"] != step.view["text"]:
        text = f"the text of the conversation is {step.view['text']!r}, shown is {shown['text']!r}"
        return _rule(step, "text", step.beat, None, None), text
    if step.beat is not None and (shown.get("text") or "") != (before.get("text") or ""):
        text = f"the text of the conversation was {before.get('text')!r}, shown is {shown.get('text')!r}"
        return _rule(step, "text", step.beat, None, None), text
    return None


def _differences(
    call_id: str, expected: Mapping[str, Any] | None, call: object, said: Mapping[str, Any]
) -> Iterator[tuple[str, str]]:
    if expected is None:
        if _has_ended(call):
            yield "status", f"{call_id} is shown as over"
        return
    if not isinstance(call, Mapping) or "status" not in call:
        yield "missing", f"{call_id} is not shown, or without a status"
        return
    allowed = expected["status"] if isinstance(expected["status"], list) else [expected["status"]]
    if call["status"] not in allowed:
        yield "status", f"{call_id} is {' or '.join(allowed)}, shown as {call['status']}"
    for key in ("title", "kind", "output"):
        if key not in expected:
            continue
        if key in call and call[key] != expected[key]:
            yield key, f"the {key} of {call_id} is {expected[key]!r}, shown as {call[key]!r}"
        elif key not in call and said.get(key) is not None:
            yield key, f"the {key} of {call_id} is {expected[key]!r}, and shown no more"


def _rule(step: Step, key: str, call_id: str | None, expected: Mapping[str, Any] | None, shown: object) -> str:
    """What is broken; where the line is no beat, the step says it."""
    if step.beat is None:
        return step.rule
    if key != "calls" and call_id != step.beat:
        return "other-calls-are-untouched"
    if _has_ended(expected):
        return "late-beat-is-dropped"
    if key == "status" and _has_ended(shown):
        return "beat-is-no-end"
    return _RULES.get(key, step.rule)


def _has_ended(call: object) -> bool:
    return isinstance(call, Mapping) and call.get("status") in ENDED


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
