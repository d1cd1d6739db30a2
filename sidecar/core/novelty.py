"""Does the output say anything new? A spinner, and a counter of seconds, are output and no progress.

The last chunks are kept, bounded, and taken apart only when somebody asks. Terminal text is reduced to frames: what
stands between carriage returns, newlines and cursor movements, with colours removed (ECMA-48, XTerm control
sequences). Nothing of the text leaves this module.

silent     no bytes in the window
spinner    few distinct frames, each again and again
ticker     frames that differ in a number only, which grows by one a second: a clock
progress   frames that differ in a number only, which moves at another rate: a percentage, bytes, n of m
new        anything else; also where among all that a frame came only once
"""

import re
from collections import Counter, deque

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
_NUMBER = re.compile(rb"\d+(?::[0-5]\d)+(?:\.\d+)?|\d+m ?[0-5]?\d(?:\.\d+)?(?=s)|\d+(?:\.\d+)?")
"""A time of day or a span, `1:05`, `1m 05s`, is one number: else the turn of a minute would be no tick."""


class OutputWindow:
    """The last chunks of one command's output. Times are monotonic nanoseconds.

    What comes within `slot_ns` of a chunk is joined to it, so that the window holds 256 slots at least.
    """

    __slots__ = ("_chunks", "_kept_bytes", "_slot_ns")

    def __init__(self, slot_ns: int = 0) -> None:
        self._chunks: deque[tuple[int, bytes]] = deque(maxlen=_CHUNKS_AT_MOST)
        self._slot_ns = slot_ns
        self._kept_bytes = 0

    def record(self, chunk: bytes, now_ns: int) -> None:
        """Keep a chunk (the end of a long one): constant time and bounded memory, 128 KiB at most.

        One that has no room in its slot is left out.
        """
        if self._chunks:
            last_ns, last = self._chunks[-1]
            if now_ns - last_ns < self._slot_ns:
                if len(last) + len(chunk) <= _CHUNK_BYTES_AT_MOST:
                    self._chunks[-1] = last_ns, last + chunk
                    self._kept_bytes += len(chunk)
                return
        kept = chunk[-_CHUNK_BYTES_AT_MOST:]
        self._chunks.append((now_ns, kept))
        self._kept_bytes += len(kept)

    def take_bytes(self) -> int:
        """How many bytes were kept since this was asked last: less than came, where something was left out."""
        kept_bytes, self._kept_bytes = self._kept_bytes, 0
        return kept_bytes

    def first_ns(self, since_ns: int) -> int | None:
        """When the first chunk since then came."""
        return next((at_ns for at_ns, _ in self._chunks if at_ns >= since_ns), None)

    def clear(self) -> None:
        """Forget all chunks."""
        self._chunks.clear()

    def kind(self, since_ns: int) -> str:
        """What the output since then was: one of KINDS."""
        return classify([chunk for chunk in self._chunks if chunk[0] >= since_ns])


def classify(chunks: list[tuple[int, bytes]]) -> str:
    """One of KINDS, from chunks with their times in nanoseconds."""
    frames = _frames(chunks)
    if not frames:
        return SILENT if not any(chunk for _, chunk in chunks) else NEW
    texts = [text for _, text in frames]
    if len(texts) >= _FRAMES_TO_TELL and _is_few(texts):
        return SPINNER
    masked = [_NUMBER.sub(b"#", text) for text in texts]
    span_s = (frames[-1][0] - frames[0][0]) / 1e9
    if len(texts) < _CLOCK_FRAMES_TO_TELL or not _is_few(masked) or span_s < 1:
        return NEW
    rates = _rates(frames)
    if not rates:
        return SPINNER
    return TICKER if all(_CLOCK_RATES[0] <= abs(rate) <= _CLOCK_RATES[1] for rate in rates) else PROGRESS


def _is_few(texts: list[bytes]) -> bool:
    """The same few again and again. One that came only once is news; but the first may have lost its beginning."""
    counts = Counter(texts)
    if len(counts) > _DISTINCT_AT_MOST or len(counts) * 2 > len(texts):
        return False
    return all(count > 1 or text == texts[0] for text, count in counts.items())


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
            columns[index].append((at_ns, _value(number)))
    rates = []
    for column in columns:
        (first_ns, first), (last_ns, last) = column[0], column[-1]
        if len(column) >= _CLOCK_FRAMES_TO_TELL - 1 and last != first and last_ns > first_ns:
            rates.append((last - first) / ((last_ns - first_ns) / 1e9))
    return rates


def _value(number: bytes) -> float:
    """Of a time, its seconds."""
    value = 0.0
    for part in re.split(rb":|m ?", number):
        value = value * 60 + float(part)
    return value
