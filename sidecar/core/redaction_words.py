"""A text taken apart as a shell would: commands of words, each of which knows where in the text it stood.

Lenient, since it also reads prose and here-documents: a quote that is never closed is a character like any other.
One pass, and nothing is looked at twice.
"""

import re
from bisect import bisect_right

_PLAIN = re.compile(r"[^\s'\"\\;|&()<>`$]++")
_BLANK = re.compile(r"[^\S\n]++")
_REDIRECTION = re.compile(r"[<>]++&?|&>>?")
_DOUBLE = re.compile(r'[^"\\]++|\\.', re.DOTALL)
_ANSI = re.compile(r"[^'\\]++|\\.", re.DOTALL)
_ANSI_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}


class Word:
    """`value` is the word without its quotes. `raw_span` finds a piece of it in the text again.

    `here`: it is a here-string (`<<< word`), what the command reads and none of its arguments.
    """

    __slots__ = ("_pieces", "_raw_ends", "_raw_starts", "_starts", "end", "here", "quoted")

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._starts: list[int] = []
        self._raw_starts: list[int] = []
        self._raw_ends: list[int] = []
        self.end = 0
        self.here = False
        self.quoted = False

    @property
    def value(self) -> str:
        return "".join(self._pieces)

    def add(self, piece: str, raw_start: int, raw_end: int) -> None:
        if piece:
            self._pieces.append(piece)
            self._starts.append(self.end)
            self._raw_starts.append(raw_start)
            self._raw_ends.append(raw_end)
            self.end += len(piece)

    def raw_span(self, start: int, end: int) -> tuple[int, int]:
        """Where value[start:end] stands in the text; start < end."""
        first, last = bisect_right(self._starts, start) - 1, bisect_right(self._starts, end - 1) - 1
        raw_start = self._raw_starts[first]
        if not self._is_escape(first):
            raw_start += start - self._starts[first]
        raw_end = self._raw_ends[last]
        if not self._is_escape(last):
            raw_end = self._raw_starts[last] + end - self._starts[last]
        return raw_start, raw_end

    def _is_escape(self, index: int) -> bool:
        return self._raw_ends[index] - self._raw_starts[index] != len(self._pieces[index])


def split(text: str) -> list[list[Word]]:
    """The commands of `text`. What separates them (`;`, `|`, `&`, newlines, brackets, backticks) is dropped."""
    commands: list[list[Word]] = []
    words: list[Word] = []
    word: Word | None = None
    here = False
    closes = {"'": True, '"': True, "$'": True}  # whether such a quote may still be closed further on
    position, length = 0, len(text)
    while position < length:
        if (plain := _PLAIN.match(text, position)) is not None:
            word = word or _begin(words, here=here)
            here = False
            word.add(plain[0], position, plain.end())
            position = plain.end()
            continue
        character = text[position]
        if (blank := _BLANK.match(text, position) or _REDIRECTION.match(text, position)) is not None:
            word = None
            here = blank[0] == "<<<" or (here and blank[0].isspace())
            position = blank.end()
        elif character in "\n;|&()`":
            word, here = None, False
            if words:
                commands.append(words)
                words = []
            position += 1
        elif character == "\\":
            if text[position + 1 : position + 2] != "\n":
                word = word or _begin(words, here=here)
                here = False
                word.quoted = True
                word.add(text[position + 1 : position + 2] or "\\", position, min(position + 2, length))
            elif word is not None:
                word.quoted = True  # goes on in the next line: what it says is not what is written
            position += 2
        else:
            kind = "$'" if text.startswith("$'", position) else character
            word = word or _begin(words, here=here)
            here = False
            end = _quotation(text, position, kind, word) if closes.get(kind) else -1
            if end < 0:
                if kind in closes:
                    closes[kind] = False
                word.add(character, position, position + 1)
                position += 1
            else:
                word.quoted = True
                position = end
    if words:
        commands.append(words)
    return commands


def _begin(words: list[Word], *, here: bool) -> Word:
    words.append(Word())
    words[-1].here = here
    return words[-1]


def _quotation(text: str, start: int, kind: str, word: Word) -> int:
    """Read a quotation into `word`; where it ends, or -1 where it never does."""
    if kind == "'":
        end = text.find("'", start + 1)
        if end >= 0:
            word.add(text[start + 1 : end], start + 1, end)
        return end + 1 if end >= 0 else -1
    chunk, closing = (_ANSI, "'") if kind == "$'" else (_DOUBLE, '"')
    pieces: list[tuple[str, int, int]] = []
    position = start + len(kind)
    while (match := chunk.match(text, position)) is not None:
        pieces.append((match[0], position, match.end()))
        position = match.end()
    if not text.startswith(closing, position):
        return -1
    for piece, piece_start, piece_end in pieces:
        if piece[0] != "\\":
            word.add(piece, piece_start, piece_end)
        elif kind == "$'":
            word.add(_ANSI_ESCAPES.get(piece[1], piece[1]), piece_start, piece_end)
        elif piece[1] in '"\\$`':
            word.add(piece[1], piece_start, piece_end)
        elif piece[1] != "\n":
            word.add(piece, piece_start, piece_end)
    return position + 1
