"""Does the output say anything new? A spinner, and a counter of seconds, are output and no progress.

The last chunks (core/output_window.py) are taken apart when somebody asks. Terminal text is reduced to frames: what
stands between carriage returns, newlines and cursor movements, with colours removed (ECMA-48, XTerm control
sequences). Nothing of the text leaves this module.

silent     no bytes in the window
spinner    few distinct frames, each again and again, drawn in one place or at regular times
ticker     the same, but for a number that goes with the time, a second a second: a clock
progress   the same, but for a number that goes otherwise, or is one of so many: a percentage, bytes, n of m
new        anything else; also where among all that a frame came only once. The dots of a test run and the lines of an
           access log are alike as well, but they come when something was done: at no regular times
"""

import re
from collections import Counter
from itertools import pairwise

TYPE_CHECKING = False  # typing.TYPE_CHECKING, without the 7 ms of importing typing
if TYPE_CHECKING:
    from collections.abc import Iterator

SILENT, SPINNER, TICKER, PROGRESS, NEW = "silent", "spinner", "ticker", "progress", "new"
KINDS = (SILENT, SPINNER, TICKER, PROGRESS, NEW)

_FRAMES_TO_TELL = 4
_FRAMES_AT_MOST = 4096
"""More is a flood, whatever it says: nobody draws a spinner like that, and taking it apart takes time."""
_DISTINCT_AT_MOST = 32
"""Spinners have up to thirty frames (cli-spinners: 4 to 12 most of them, "pong" 30)."""
_CLOCK_SPREAD_S = 2.0
"""A clock may be off by what it rounds, and by how late its frame comes."""
_CONTROL = re.compile(
    rb"\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)"  # operating system command: a window title
    rb"|\x1b\[[0-9;]*m"  # colours: within a frame
    rb"|\x1b[()][A-Z0-9]"
)
_MOVEMENT = re.compile(rb"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b[78=>]|\x08+|[\r\n]+")
_IN_PLACE = re.compile(rb"\r(?![\r\n])|\x08|\x1b\[[0-9;]*[A-Hdfu]|\x1b[78]")
_NUMBER = re.compile(rb"\d+(?::[0-5]\d)+(?:\.\d+)?|\d+m ?[0-5]?\d(?:\.\d+)?(?=s)|\d+(?:\.\d+)?")
"""A time of day or a span, `1:05`, `1m 05s`, is one number: else the turn of a minute would be no tick."""
_SHARE = re.compile(rb"\d ?%|\d ?(?:/|of) ?\d")
"""How much of the whole is done: progress at whatever rate it moves."""

Frame = tuple[int, bytes]
Column = list[tuple[int, float]]


def classify(chunks: list[Frame]) -> str:
    """One of KINDS, from chunks with their times in nanoseconds. A log is known at once."""
    frames: list[Frame] = []
    masks: set[bytes] = set()
    for at_ns, text in _frames(chunks):
        frames.append((at_ns, text))
        masks.add(_NUMBER.sub(b"#", text))
        if len(masks) > _DISTINCT_AT_MOST or len(frames) > _FRAMES_AT_MOST:
            return NEW
    if not frames:
        return NEW if any(chunk for _, chunk in chunks) else SILENT
    if len(frames) < _FRAMES_TO_TELL or not _come_again([_NUMBER.sub(b"#", text) for _, text in frames]):
        return NEW
    if not _is_drawn_in_place(chunks) and not _is_regular(frames):
        return NEW
    moving = _moving(frames)
    if not moving or _come_again([text for _, text in frames]):
        return SPINNER
    if any(_SHARE.search(text) for _, text in frames):
        return PROGRESS
    return TICKER if all(map(_is_clock, moving)) else PROGRESS


def _come_again(texts: list[bytes]) -> bool:
    """Few, each of which comes, goes and comes again. The first may have lost its beginning."""
    turns = [text for index, text in enumerate(texts) if index == 0 or text != texts[index - 1]]
    counts = Counter(turns)
    if len(counts) == 1:
        return True
    if len(counts) > _DISTINCT_AT_MOST or len(counts) * 2 > len(turns):
        return False
    return all(count > 1 or text == turns[0] for text, count in counts.items())


def _is_drawn_in_place(chunks: list[Frame]) -> bool:
    """Over what stood there, as a spinner is; else each frame is one more."""
    return sum(_IN_PLACE.search(chunk) is not None for _, chunk in chunks) * 2 >= len(chunks)


def _is_regular(frames: list[Frame]) -> bool:
    """Whether they come as by a timer: nine gaps of ten are between half the middle one and twice as long."""
    times = sorted({at_ns for at_ns, _ in frames})
    gaps = sorted(later - earlier for earlier, later in pairwise(times))
    if len(gaps) < _FRAMES_TO_TELL - 1:
        return False
    middle = gaps[len(gaps) // 2]
    return sum(middle <= 2 * gap <= 4 * middle for gap in gaps) * 10 >= len(gaps) * 9


def _frames(chunks: list[Frame]) -> "Iterator[Frame]":
    for at_ns, chunk in chunks:
        for part in _MOVEMENT.split(_CONTROL.sub(b"", chunk)):
            text = part.strip()
            if text:
                yield at_ns, text


def _moving(frames: list[Frame]) -> list[Column]:
    """The first, second, ... number of the frames with its times; not those that stand still."""
    columns: list[Column] = []
    for at_ns, text in frames:
        for index, number in enumerate(_NUMBER.findall(text)):
            if index == len(columns):
                columns.append([])
            columns[index].append((at_ns, _value(number)))
    return [column for column in columns if any(value != column[0][1] for _, value in column)]


def _is_clock(column: Column) -> bool:
    """Whether a number goes with the time, up or down: what it differs from the time by stays the same."""
    span_s = (column[-1][0] - column[0][0]) / 1e9
    if len(column) < _FRAMES_TO_TELL - 1 or span_s < 2 * _CLOCK_SPREAD_S:
        return False
    for sign in (1, -1):
        offsets = [value - sign * at_ns / 1e9 for at_ns, value in column]
        if max(offsets) - min(offsets) <= _CLOCK_SPREAD_S:
            return True
    return False


def _value(number: bytes) -> float:
    """Of a time, its seconds."""
    value = 0.0
    for part in re.split(rb":|m ?", number):
        value = value * 60 + float(part)
    return value
