"""One string in a TOML file, put in and taken out as text: comments, order and every other byte stay.

There are a few places where a key may stand (in a table of its own, in an inline table, dotted, in a new table at the
end). Each is tried, and the first counts whose text, parsed again, has the values of before but for the one key. Where
none does, the file has a shape that is not edited here. Pure.
"""

import json
import re
import tomllib
from collections.abc import Iterator, Sequence
from typing import Any

from sidecar.agents.jsonc import NotUnderstood


def parse(text: str) -> dict[str, Any]:
    """Raises NotUnderstood."""
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise NotUnderstood(f"not valid TOML: {str(error) or 'nested too deeply'}") from None


def get(text: str, keys: Sequence[str]) -> Any:
    """The value at the path of `keys`; None where there is none. Raises NotUnderstood."""
    value: Any = parse(text)
    for name in keys:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def with_key(text: str, keys: Sequence[str], value: str) -> str:
    """The text with the key set. Raises NotUnderstood."""
    before = parse(text)
    old = get(text, keys)
    if old is not None and not isinstance(old, str):
        raise NotUnderstood(f"{'.'.join(keys)} is not a string")
    expected = _set(before, keys, value)
    places = _inserted(text, keys, value) if old is None else _replaced(text, old, value)
    return _first(places, expected)


def without_key(text: str, keys: Sequence[str], *, table_too: bool) -> str:
    """The text without the key; `table_too`: without its table as well, where that is empty then.

    Raises NotUnderstood.
    """
    old = get(text, keys)
    if not isinstance(old, str):
        return text
    without = _unset(parse(text), keys)
    gone = list(_removed(text, keys, old))
    if table_too and get_from(without, keys[:-1]) == {}:
        bare = _pruned(without, keys[:-1])
        try:
            return _first((less for each in gone for less in _without_table(each, keys[:-1])), bare)
        except NotUnderstood:
            pass
    return _first(iter(gone), without)


def get_from(value: Any, keys: Sequence[str]) -> Any:
    for name in keys:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _first(candidates: Iterator[str], expected: dict[str, Any]) -> str:
    for each in candidates:
        try:
            if tomllib.loads(each) == expected:
                return each
        except tomllib.TOMLDecodeError:
            continue
    raise NotUnderstood("its shape is not one that is edited here")


def _inserted(text: str, keys: Sequence[str], value: str) -> Iterator[str]:
    newline = "\r\n" if "\r\n" in text else "\n"
    table, name = keys[:-1], keys[-1]
    line = f"{name} = {json.dumps(value, ensure_ascii=False)}"
    for header in _headers(text, table):
        yield _after_line(text, header.end(), line, newline)
    end = "" if not text else newline if text.endswith("\n") else newline * 2
    yield f"{text}{end}[{'.'.join(table)}]{newline}{line}{newline}"
    for header in _headers(text, table[:-1]):
        yield _after_line(text, header.end(), f"{table[-1]}.{line}", newline)
    for brace in re.finditer(rf"\b{re.escape(table[-1])}[ \t]*=[ \t]*\{{[ \t]*", text):
        comma = "" if text[brace.end() : brace.end() + 1] == "}" else ", "
        yield f"{text[: brace.end()]}{line}{comma}{text[brace.end() :]}"
    yield f"{'.'.join(table)}.{line}{newline}{text}"


def _after_line(text: str, end: int, line: str, newline: str) -> str:
    start = "" if text[:end].endswith("\n") else newline
    return f"{text[:end]}{start}{line}{newline}{text[end:]}"


def _headers(text: str, table: Sequence[str]) -> Iterator[re.Match[str]]:
    path = r"[ \t]*\.[ \t]*".join(rf"[\"']?{re.escape(name)}[\"']?" for name in table)
    return re.finditer(rf"^[ \t]*\[[ \t]*{path}[ \t]*\][ \t]*(?:#[^\n]*)?(?:\r?\n|\Z)", text, re.MULTILINE)


def _replaced(text: str, old: str, value: str) -> Iterator[str]:
    new = json.dumps(value, ensure_ascii=False)
    for written in {json.dumps(old, ensure_ascii=False), json.dumps(old), f"'{old}'"}:
        for found in re.finditer(re.escape(written), text):
            yield text[: found.start()] + new + text[found.end() :]


def _removed(text: str, keys: Sequence[str], old: str) -> Iterator[str]:
    values = "|".join(re.escape(each) for each in {json.dumps(old, ensure_ascii=False), json.dumps(old), f"'{old}'"})
    key = rf"(?:[\w.\"'-]+\.)?[\"']?{re.escape(keys[-1])}[\"']?[ \t]*=[ \t]*(?:{values})"
    for pattern in (
        rf"^[ \t]*{key}[ \t]*(?:#[^\n]*)?(?:\r?\n|\Z)",
        rf"{key}[ \t]*,[ \t]*",
        rf"[ \t]*,[ \t]*{key}",
        key,
    ):
        for found in re.finditer(pattern, text, re.MULTILINE):
            yield text[: found.start()] + text[found.end() :]


def _without_table(text: str, table: Sequence[str]) -> Iterator[str]:
    """Without the header of the table, and the empty line before it."""
    for header in _headers(text, table):
        before = text[: header.start()]
        for blank in ("\r\n", "\n"):
            if before.endswith(blank * 2):
                yield before[: -len(blank)] + text[header.end() :]
        yield before + text[header.end() :]


def _set(value: Any, keys: Sequence[str], new: Any) -> Any:
    if not keys:
        return new
    inner = value.get(keys[0], {})
    if len(keys) > 1 and not isinstance(inner, dict):
        raise NotUnderstood(f"{keys[0]} is not a table")
    return {**value, keys[0]: _set(inner, keys[1:], new)}


def _unset(value: Any, keys: Sequence[str]) -> Any:
    if len(keys) == 1:
        return {name: each for name, each in value.items() if name != keys[0]}
    return {**value, keys[0]: _unset(value[keys[0]], keys[1:])}


def _pruned(value: Any, keys: Sequence[str]) -> Any:
    """Without the table at the path, and without those around it that are empty then."""
    if not keys:
        return value
    left = _unset(value, keys)
    around = keys[:-1]
    return _pruned(left, around) if around and get_from(left, around) == {} else left
