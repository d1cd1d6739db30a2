"""Bytes of a terminal -> keys. Pure."""

from collections.abc import Iterator

_NAMED = {
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


def keys_of(data: bytes) -> Iterator[str]:
    """The keys in what was read at once: names, or the character itself. A lone escape is `escape`; sequences that are
    not known are left out."""
    while data:
        known = next((sequence for sequence in _NAMED if data.startswith(sequence)), None)
        if known is not None:
            yield _NAMED[known]
            data = data[len(known) :]
        elif data[:1] == b"\x1b":
            length = _sequence_length(data)
            if length == 1:
                yield "escape"
            data = data[length:]
        else:
            length = _character_length(data)
            text = data[:length].decode("utf-8", "replace")
            if text.isprintable():
                yield text
            data = data[length:]


def _sequence_length(data: bytes) -> int:
    """Of an escape sequence (ECMA-48): ESC [ parameters and a final byte from @ to ~; ESC O and one more; else ESC."""
    if data[1:2] == b"O":
        return min(3, len(data))
    if data[1:2] != b"[":
        return 1
    for place in range(2, len(data)):
        if 0x40 <= data[place] <= 0x7E:
            return place + 1
    return len(data)


def _character_length(data: bytes) -> int:
    first = data[0]
    return 1 if first < 0xC0 else 2 if first < 0xE0 else 3 if first < 0xF0 else 4
