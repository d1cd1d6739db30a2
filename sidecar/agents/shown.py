"""What `sidecar setup` shows of a change: a unified diff, without the secrets that a user's file may have beside it.

Settings hold API keys, often in one long line, and what is printed is pasted into tickets. What changes is shown whole,
for it is ours; of the rest, what looks like a secret becomes [REDACTED], and most of a line that is very long [...].
Pure.
"""

import difflib
from collections.abc import Iterable, Iterator, Sequence

from sidecar.core import redaction_shapes
from sidecar.core.redaction import REDACTED

CUT = "[...]"
_LONG = 160
_AROUND = 40
_CONTEXT_LINES = 3
_NO_NEWLINE = "\\ No newline at end of file\n"

Span = tuple[int, int]
"""Start and end, in characters of a line, or of a whole text."""


def diff(path: str, before: bytes | None, after: bytes | None) -> str:
    """From `before` to `after`, None for no file. For people: it does not apply where something is left out."""
    old, new = _Side(before), _Side(after)
    matcher = difflib.SequenceMatcher(None, old.lines, new.lines)
    pieces: list[str] = []
    for group in matcher.get_grouped_opcodes(_CONTEXT_LINES):
        first, last = group[0], group[-1]
        pieces.append(f"@@ -{_range(first[1], last[2])} +{_range(first[3], last[4])} @@\n")
        for kind, start, end, new_start, new_end in group:
            if kind == "equal":
                pieces += old.shown(" ", start, end, (0, 0))
                continue
            changed, new_changed = _changed(old.lines[start:end], new.lines[new_start:new_end])
            pieces += old.shown("-", start, end, changed)
            pieces += new.shown("+", new_start, new_end, new_changed)
    if not pieces:
        return ""
    return "".join([f"--- {name(path, before)}\n", f"+++ {name(path, after)}\n", *pieces])


def name(path: str, data: object) -> str:
    """What stands in the head of a diff: no file is /dev/null."""
    return "/dev/null" if data is None else path


class _Side:
    """One of the two texts: its lines, and where in it there are secrets."""

    def __init__(self, data: bytes | None) -> None:
        text = (data or b"").decode("utf-8", "replace")
        self.lines = text.splitlines(keepends=True)
        self._secrets = sorted(redaction_shapes.find(text, script=False))
        self._starts = [0]
        for line in self.lines:
            self._starts.append(self._starts[-1] + len(line))

    def shown(self, sign: str, first: int, last: int, changed: Span) -> Iterator[str]:
        """The lines from `first` to before `last`. `changed`: where they changed, from the first of them on."""
        origin = self._starts[first]
        for number in range(first, last):
            start = self._starts[number]
            line = self.lines[number]
            ours = _within((changed[0] + origin - start, changed[1] + origin - start), len(line))
            secrets = (_within((one - start, other - start), len(line)) for one, other in self._secrets)
            yield (
                sign + _line(line.rstrip("\r\n"), ours, secrets) + ("\n" if line[-1] in "\r\n" else f"\n{_NO_NEWLINE}")
            )


def _line(line: str, ours: Span, secrets: Iterable[Span]) -> str:
    left_out = [(start, end, REDACTED) for start, end in secrets if start < end and not _meet((start, end), ours)]
    if len(line) > _LONG:
        left_out += [(0, ours[0] - _AROUND, CUT), (ours[1] + _AROUND, len(line), CUT)]
    pieces: list[str] = []
    position = 0
    for start, end, mark in sorted(each for each in left_out if each[0] < each[1]):
        if end <= position:
            continue
        if start >= position:
            pieces += (line[position:start], mark)
        position = end
    return "".join([*pieces, line[position:]])


def _changed(old: Sequence[str], new: Sequence[str]) -> tuple[Span, Span]:
    """What is between the common start and the common end of two runs of lines, in characters of each."""
    one, other = "".join(old), "".join(new)
    start = _common(one, other)
    end = min(_common(one[::-1], other[::-1]), min(len(one), len(other)) - start)
    return (start, len(one) - end), (start, len(other) - end)


def _common(one: str, other: str) -> int:
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def _within(span: Span, length: int) -> Span:
    return max(0, min(span[0], length)), max(0, min(span[1], length))


def _meet(one: Span, other: Span) -> bool:
    return one[0] < other[1] and other[0] < one[1]


def _range(start: int, end: int) -> str:
    """As a unified diff counts lines."""
    length = end - start
    return str(start + 1) if length == 1 else f"{start + 1 if length else start},{length}"
