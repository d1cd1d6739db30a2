"""Bytes of a terminal -> keys. Pure."""

from collections.abc import Iterator
from typing import Final

_NAMED: Final = {
    b"\x1b[A": "up",
    b"\x1bOA": "up",
    b"\x1b[B": "down",
    b"\x1bOB": "down",
    b"\x1b[5~": "page_up",
    b"\x1b[6~": "page_down",
    b"\x1b[H": "home",
    b"\x1b[1~": "home",
    b"\x1b[F": "end",
    b"\x1b[4~": "end",
    b"\r": "enter",
    b"\n": "enter",
    b"\x7f": "backspace",
    b"\x08": "backspace",
    b"\x0c": "redraw",
    b"\x04": "q",
}
_LONGEST_SEQUENCE: Final = 32


class Keys:
    """Puts together what comes in pieces, as it does over a slow line: an arrow key cut in two is no Escape.

    `waits`: the beginning of a key is held. Where nothing follows within a tenth of a second or so, `flush` says what
    it was: a lone escape is the key Escape.
    """

    def __init__(self) -> None:
        self._held = b""

    @property
    def waits(self) -> bool:
        return bool(self._held)

    def feed(self, data: bytes) -> Iterator[str]:
        """The keys that are whole: names, or the character itself. Sequences that are not known are left out."""
        data = self._held + data
        self._held = b""
        while data:
            length = _length(data)
            if length is None:
                self._held = data
                return
            yield from _key(data[:length])
            data = data[length:]

    def flush(self) -> Iterator[str]:
        """Nothing more comes."""
        held, self._held = self._held, b""
        if held == b"\x1b":
            yield "escape"


def _key(whole: bytes) -> Iterator[str]:
    name = _NAMED.get(whole)
    if name is not None:
        yield name
    elif whole == b"\x1b":
        yield "escape"
    elif whole[:1] != b"\x1b":
        text = whole.decode("utf-8", "replace")
        if text.isprintable():
            yield text


def _length(data: bytes) -> int | None:
    """Of the first key; None where it is not whole yet."""
    if data[:1] == b"\x1b":
        return _sequence_length(data)
    first = data[0]
    length = 1 if first < 0xC0 else 2 if first < 0xE0 else 3 if first < 0xF0 else 4
    going_on = next((place for place in range(1, length) if data[place : place + 1] and data[place] & 0xC0 != 0x80), 0)
    if going_on:
        return going_on  # broken UTF-8: what follows is a key of its own
    return length if len(data) >= length else None


def _sequence_length(data: bytes) -> int | None:
    """Of an escape sequence (ECMA-48): ESC [ parameters and a final byte from @ to ~; ESC O and one more; else ESC."""
    if len(data) == 1:
        return None
    if data[1:2] == b"O":
        return 3 if len(data) >= 3 else None
    if data[1:2] != b"[":
        return 1
    for place in range(2, min(len(data), _LONGEST_SEQUENCE)):
        if 0x40 <= data[place] <= 0x7E:
            return place + 1
    return None if len(data) < _LONGEST_SEQUENCE else _LONGEST_SEQUENCE
