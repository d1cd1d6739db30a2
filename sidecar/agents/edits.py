"""What `sidecar setup` may do to one file, each with its way back. Pure: text in, text out.

An edit knows whether it is done in a text, does it, and takes it out of a text that others have changed meanwhile. What
it does not understand it refuses, by raising NotUnderstood; what is there and is not ours it leaves.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import ClassVar

from sidecar.agents import jsonc, toml_text
from sidecar.agents.jsonc import NotUnderstood

__all__ = ["Block", "Edit", "JsonKey", "Link", "NotUnderstood", "OwnFile", "TextEdit", "TomlKey"]


@dataclass(frozen=True)
class _Key:
    """One key of a file with a syntax. `is_ours` tells a value of ours, of this or another installation."""

    path: str
    keys: tuple[str, ...]
    value: str
    is_ours: Callable[[object], bool]
    mode: int = 0o600
    _syntax: ClassVar[ModuleType]

    def is_done(self, text: str) -> bool:
        return bool(self._syntax.get(text, self.keys) == self.value)

    def is_left(self, text: str) -> bool:
        """Is anything of ours in it, be it of another installation?"""
        return self.is_ours(self._syntax.get(text, self.keys))

    def do(self, text: str) -> str:
        present = self._syntax.get(text, self.keys)
        if present is not None and not self.is_ours(present):
            raise NotUnderstood(f"{'.'.join(self.keys)} is set to something else already; take it out first")
        return str(self._syntax.with_key(text, self.keys, self.value))


class JsonKey(_Key):
    """One key of a JSON or JSONC file."""

    _syntax: ClassVar[ModuleType] = jsonc

    def undo(self, text: str, original: str | None) -> str | None:
        """Without our key; and without the object around it, unless `original` had one. None = nothing is left."""
        if not self.is_left(text):
            return text
        had = original is not None and original.strip() and jsonc.get(original, self.keys[:-1]) is not None
        after = jsonc.without_key(text, self.keys, empty=() if had else self.keys[:-1])
        return None if original is None and jsonc.parse(after) == {} else after


class TomlKey(_Key):
    """One key of a TOML file."""

    _syntax: ClassVar[ModuleType] = toml_text

    def undo(self, text: str, original: str | None) -> str | None:
        """As JsonKey."""
        if not self.is_left(text):
            return text
        had = bool(original) and toml_text.get(original or "", self.keys[:-1]) is not None
        after = toml_text.without_key(text, self.keys, table_too=not had)
        return None if original is None and not after.strip() else after


@dataclass(frozen=True)
class Block:
    """Lines of a shell's start-up file, between two marks."""

    path: str
    name: str
    lines: tuple[str, ...]
    mode: int = 0o644

    @property
    def _first(self) -> str:
        return f"# >>> sidecar: {self.name} >>>"

    @property
    def _last(self) -> str:
        return f"# <<< sidecar: {self.name} <<<"

    @property
    def _text(self) -> str:
        return "\n".join([self._first, *self.lines, self._last]) + "\n"

    def is_done(self, text: str) -> bool:
        return self._found(text) == self._text

    def is_left(self, text: str) -> bool:
        return self._found(text) is not None

    def do(self, text: str) -> str:
        found = self._found(text)
        if found is not None:
            return text.replace(found, self._text)
        return text + ("\n" if text and not text.endswith("\n") else "") + self._text

    def undo(self, text: str, original: str | None) -> str | None:
        found = self._found(text)
        after = text if found is None else text.replace(found, "")
        return None if original is None and not after else after

    def _found(self, text: str) -> str | None:
        """Our block as it stands there. Raises NotUnderstood where the marks do not pair."""
        first, last = text.count(self._first), text.count(self._last)
        found = re.search(rf"^{re.escape(self._first)}\n(?:.*\n)*?{re.escape(self._last)}(?:\n|\Z)", text, re.MULTILINE)
        if (first, last) == (0, 0):
            return None
        if (first, last) != (1, 1) or found is None:
            raise NotUnderstood(f"the marks {self._first!r} and {self._last!r} do not pair")
        return found[0]


@dataclass(frozen=True)
class OwnFile:
    """A file that is ours as a whole; `sign` is in every version of it."""

    path: str
    content: str
    sign: str
    mode: int = 0o644

    def is_done(self, text: str) -> bool:
        return text == self.content

    def is_left(self, text: str) -> bool:
        return self.sign in text

    def do(self, text: str) -> str:
        if text and not self.is_left(text):
            raise NotUnderstood("it is there already, and not ours")
        return self.content

    def undo(self, text: str, original: str | None) -> str | None:
        return None if self.is_left(text) else text


@dataclass(frozen=True)
class Link:
    """A symbolic link that is ours: it points to a `sidecar-sh`."""

    path: str
    target: str


TextEdit = JsonKey | TomlKey | Block | OwnFile
Edit = TextEdit | Link
