"""JSON with comments and trailing commas (JSONC), edited as text: what is not ours keeps every byte.

A member is put in first, right after the brace of its object; taken out, it leaves what was there before. Each edit is
checked by parsing the text again: the values must be those of before but for the one key. Pure.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

MAX_DEPTH = 100
_SPACE = re.compile(r"(?:[ \t\r\n]|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"')
_SCALAR = re.compile(r"true|false|null|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?")


class NotUnderstood(ValueError):  # noqa: N818 - said of the text, and not a mistake of the program
    """The text is not JSONC, or has a shape that is not edited. The message says where and why."""


@dataclass(slots=True)
class Node:
    """A value and where it stands: `text[start:end]`. `members` are an object's: name -> (start of the key, value)."""

    start: int
    end: int
    value: Any
    members: "dict[str, tuple[int, Node]] | None" = field(default=None)


def parse(text: str) -> Any:
    """The values of the text. Raises NotUnderstood."""
    return read(text).value


def read(text: str) -> Node:
    """The text as a tree. A leading byte order mark is passed over. Raises NotUnderstood."""
    start = _skip(text, 1 if text.startswith("\ufeff") else 0)
    node = _read_value(text, start, 0)
    end = _skip(text, node.end)
    if end != len(text):
        raise NotUnderstood(f"line {_line(text, end)}: there is more after the end")
    return node


def with_key(text: str, keys: Sequence[str], value: Any) -> str:
    """The text with `keys` (a path of names) set to `value`, objects on the way made where they are missing.

    A key that is there already keeps its place and gets the value. Raises NotUnderstood.
    """
    if not text.strip("\ufeff \t\r\n"):
        return text + _dumped(_nested(keys, value), "  ", "\n", 0) + "\n"
    root = read(text)
    node, depth = _object(root, keys, 0), 0
    while depth < len(keys) - 1 and node.members is not None and keys[depth] in node.members:
        node = _object(node.members[keys[depth]][1], keys, depth + 1)
        depth += 1
    assert node.members is not None
    name = keys[depth]
    if name in node.members:
        old = node.members[name][1]
        after = text[: old.start] + json.dumps(value, ensure_ascii=False) + text[old.end :]
    else:
        after = _insert(text, root, node, depth, name, _nested(keys[depth + 1 :], value))
    return _checked(after, _set(root.value, keys, value))


def without_key(text: str, keys: Sequence[str], *, empty: Sequence[str] = ()) -> str:
    """The text without the key. `empty` is a prefix of `keys`: an object there that is empty then goes too.

    Raises NotUnderstood; a key that is not there is none of its reasons.
    """
    root = read(text)
    node = root
    for depth, name in enumerate(keys[:-1]):
        if node.members is None or name not in node.members:
            return text
        node = _object(node.members[name][1], keys, depth + 1)
    if node.members is None or keys[-1] not in node.members:
        return text
    after = _checked(_cut(text, node, keys[-1]), _unset(root.value, keys))
    if empty and list(empty) == list(keys[:-1]) and not _get(parse(after), empty):
        return without_key(after, empty)
    return after


def get(text: str, keys: Sequence[str]) -> Any:
    """The value at the path; None where there is none. Raises NotUnderstood."""
    return _get(parse(text), keys) if text.strip("\ufeff \t\r\n") else None


def _get(value: Any, keys: Sequence[str]) -> Any:
    for name in keys:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _insert(text: str, root: Node, node: Node, depth: int, name: str, value: Any) -> str:
    """The member first in its object, on a line of its own where the object has lines."""
    newline = "\r\n" if "\r\n" in text else "\n"
    unit = _indentation(text, root)
    inside = text[node.start + 1 : node.end - 1]
    outer = _line_start(text, node.start)
    key = json.dumps(name, ensure_ascii=False)
    comma = "," if node.members else ""
    if "\n" in inside or not inside.strip():
        indent = outer + unit
        member = f"{newline}{indent}{key}: {_dumped(value, unit, newline, 0, indent)}{comma}"
        tail = "" if "\n" in inside else newline + outer
        return text[: node.start + 1] + member + (inside if tail == "" else tail) + text[node.end - 1 :]
    member = f"{key}: {json.dumps(value, ensure_ascii=False)}{comma}"
    first = text[node.start + 1]
    return text[: node.start + 1] + (f"{first}{member}" if first in " \t" else member + " ") + text[node.start + 1 :]


def _cut(text: str, node: Node, name: str) -> str:
    """The text without a member: its line with it, where it has one; and the comma before it, if it was the last."""
    assert node.members is not None
    start, value = node.members[name]
    comma = _skip(text, value.end)
    begin = start
    while begin > node.start + 1 and text[begin - 1] in " \t":
        begin -= 1
    if begin > node.start + 1 and text[begin - 1] == "\n":
        begin -= 1
        begin -= text[begin - 1] == "\r"
    if text[comma] == ",":
        after = comma + 1
        while begin == start and value.end == comma and text[after] in " \t":
            after += 1  # what separates it from the next one; where white space is before it, that does
        return text[:begin] + text[value.end : comma] + text[after:]
    names = sorted(node.members, key=lambda each: node.members[each][0] if node.members else 0)
    if len(names) == 1:
        inside = text[node.start + 1 : begin] + text[value.end : node.end - 1]
        return text[: node.start + 1] + (inside if inside.strip() else "") + text[node.end - 1 :]
    before = node.members[names[-2]][1]
    comma = _skip(text, before.end)
    return text[: before.end] + text[before.end : comma] + text[comma + 1 : begin] + text[value.end :]


def _checked(after: str, expected: Any) -> str:
    if parse(after) != expected:
        raise NotUnderstood("its shape is not one that is edited here")
    return after


def _object(node: Node, keys: Sequence[str], depth: int) -> Node:
    if node.members is None:
        where = ".".join(keys[:depth]) or "the whole"
        raise NotUnderstood(f"{where} is not an object")
    return node


def _set(value: Any, keys: Sequence[str], new: Any) -> Any:
    if not keys:
        return new
    return {**value, keys[0]: _set(value.get(keys[0], {}), keys[1:], new)}


def _unset(value: Any, keys: Sequence[str]) -> Any:
    if len(keys) == 1:
        return {name: each for name, each in value.items() if name != keys[0]}
    return {**value, keys[0]: _unset(value[keys[0]], keys[1:])}


def _nested(keys: Sequence[str], value: Any) -> Any:
    return {keys[0]: _nested(keys[1:], value)} if keys else value


def _dumped(value: Any, unit: str, newline: str, depth: int, outer: str = "") -> str:
    text = json.dumps(value, ensure_ascii=False, indent=unit)
    return text.replace("\n", newline + outer)


def _indentation(text: str, root: Node) -> str:
    """What the first member of the whole is indented by; two spaces where it has no line of its own."""
    for start, _ in (root.members or {}).values():
        indent = _line_start(text, start)
        if indent and text[:start].endswith("\n" + indent):
            return indent
    return "  "


def _line_start(text: str, position: int) -> str:
    """The white space that the line of `position` begins with."""
    line = text[text.rfind("\n", 0, position) + 1 : position]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _skip(text: str, position: int) -> int:
    found = _SPACE.match(text, position)
    assert found is not None
    return found.end()


def _line(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


def _read_value(text: str, start: int, depth: int) -> Node:
    if depth > MAX_DEPTH:
        raise NotUnderstood(f"line {_line(text, start)}: nested too deeply")
    letter = text[start : start + 1]
    if letter == "{":
        return _read_object(text, start, depth)
    if letter == "[":
        return _read_array(text, start, depth)
    found = _STRING.match(text, start) or _SCALAR.match(text, start)
    if found is None:
        raise NotUnderstood(f"line {_line(text, start)}: not JSON" if letter else "it ends too early")
    try:
        return Node(start, found.end(), json.loads(found[0]))
    except ValueError:
        raise NotUnderstood(f"line {_line(text, start)}: not JSON") from None


def _read_object(text: str, start: int, depth: int) -> Node:
    members: dict[str, tuple[int, Node]] = {}
    position = _skip(text, start + 1)
    while text[position : position + 1] != "}":
        name = _read_value(text, position, depth)
        if not isinstance(name.value, str):
            raise NotUnderstood(f"line {_line(text, position)}: a name is expected")
        if name.value in members:
            raise NotUnderstood(f"line {_line(text, position)}: {name.value!r} is there twice")
        colon = _skip(text, name.end)
        if text[colon : colon + 1] != ":":
            raise NotUnderstood(f"line {_line(text, colon)}: a colon is expected")
        value = _read_value(text, _skip(text, colon + 1), depth + 1)
        members[name.value] = (position, value)
        position = _next(text, value.end, "}")
    return Node(start, position + 1, {name: node.value for name, (_, node) in members.items()}, members)


def _read_array(text: str, start: int, depth: int) -> Node:
    values = []
    position = _skip(text, start + 1)
    while text[position : position + 1] != "]":
        node = _read_value(text, position, depth + 1)
        values.append(node.value)
        position = _next(text, node.end, "]")
    return Node(start, position + 1, values)


def _next(text: str, end: int, closing: str) -> int:
    """Behind the comma after a value, or at the closing bracket."""
    position = _skip(text, end)
    if text[position : position + 1] == ",":
        return _skip(text, position + 1)
    if text[position : position + 1] != closing:
        raise NotUnderstood(f"line {_line(text, position)}: a comma or {closing} is expected")
    return position
