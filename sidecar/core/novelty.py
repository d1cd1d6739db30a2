"""Does the output say anything new? A spinner, and a counter of seconds, are output and no progress.

The last chunks are kept, bounded, and taken apart only when somebody asks. Terminal text is reduced to frames: what
stands between carriage returns, newlines and cursor movements, with colours removed (ECMA-48, XTerm control
sequences). Nothing of the text leaves this module.

silent     no bytes in the window
spinner    few distinct frames, again and again
ticker     frames that differ in a number only, which grows by one a second: a clock
progress   frames that differ in a number only, which moves at another rate: a percentage, bytes, n of m
new        anything else
"""

import re
from collections import deque

SILENT, SPINNER, TICKER, PROGRESS, NEW = "silent", "spinner", "ticker", "progress", "new"
KINDS = (SILENT, SPINNER, TICKER, PROGRESS, NEW)

_CHUNKS_AT_MOST = 256
_CHUNK_BYTES_AT_MOST = 512
_FRAMES_TO_TELL, _CLOCK_FRAMES_TO_TELL = 8, 4
_DISTINCT_AT_MOST = 12
_CLOCK_RATES = (0.8, 1.2)
_CONTROL = re.compile(
    rb"\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)"  # operating system command: a window title
    rb"|\x1b\[[0-9;]*m"  # colours: within a frame
    rb"|\x1b[()][A-Z0-9]"
)
_MOVEMENT = re.compile(rb"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b[78=>]|\x08+|[\r\n]+")
_NUMBER = re.compile(rb"\d+(?:\.\d+)?")


class OutputWindow:
    """The last chunks of one command's output. Times are monotonic nanoseconds."""

    __slots__ = ("_chunks",)

    def __init__(self) -> None:
        self._chunks: deque[tuple[int, bytes]] = deque(maxlen=_CHUNKS_AT_MOST)

    def record(self, chunk: bytes, now_ns: int) -> None:
        """Keep (the end of) a chunk: constant time and bounded memory, 128 KiB at most."""
        self._chunks.append((now_ns, chunk[-_CHUNK_BYTES_AT_MOST:]))

    def kind(self, since_ns: int) -> str:
        """What the output since then was: one of KINDS."""
        return classify([chunk for chunk in self._chunks if chunk[0] >= since_ns])


def classify(chunks: list[tuple[int, bytes]]) -> str:
    """One of KINDS, from chunks with their times in nanoseconds."""
    frames = _frames(chunks)
    if not frames:
        return SILENT if not any(chunk for _, chunk in chunks) else NEW
    texts = [text for _, text in frames]
    distinct = len(set(texts))
    if len(texts) >= _FRAMES_TO_TELL and distinct <= _DISTINCT_AT_MOST and distinct * 2 <= len(texts):
        return SPINNER
    masked = len({_NUMBER.sub(b"#", text) for text in texts})
    span_s = (frames[-1][0] - frames[0][0]) / 1e9
    if len(texts) < _CLOCK_FRAMES_TO_TELL or masked * 2 > len(texts) or masked > _DISTINCT_AT_MOST or span_s < 1:
        return NEW
    rates = _rates(frames)
    if not rates:
        return SPINNER
    return TICKER if all(_CLOCK_RATES[0] <= abs(rate) <= _CLOCK_RATES[1] for rate in rates) else PROGRESS


def _frames(chunks: list[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
    frames = []
    for at_ns, chunk in chunks:
        for part in _MOVEMENT.split(_CONTROL.sub(b"", chunk)):
            text = part.strip()
            if text:
                frames.append((at_ns, text))
    return frames


def _rates(frames: list[tuple[int, bytes]]) -> list[float]:
    """How fast the first, second, ... number of the frames moves, in units a second; not those that stand still."""
    columns: list[list[tuple[int, float]]] = []
    for at_ns, text in frames:
        for index, number in enumerate(_NUMBER.findall(text)):
            if index == len(columns):
                columns.append([])
            columns[index].append((at_ns, float(number)))
    rates = []
    for column in columns:
        (first_ns, first), (last_ns, last) = column[0], column[-1]
        if len(column) >= _CLOCK_FRAMES_TO_TELL - 1 and last != first and last_ns > first_ns:
            rates.append((last - first) / ((last_ns - first_ns) / 1e9))
    return rates
