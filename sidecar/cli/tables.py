"""A table for eyes, as wide as the terminal is. Widths are those of terminals, in which a letter of Chinese is two
columns wide. Into a pipe nothing is cut off. rich is loaded only for a table: JSON can do without."""

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TextIO

from sidecar.core.values import printable

GAP: Final = 2
MIN_ID_CHARS: Final = 13
NOTHING: Final = "-"


@dataclass(frozen=True, slots=True)
class Layout:
    """The columns of a table; all but `names` are by index into these.

    `always`: those that are shown even where they say nothing. `numbers`: at the right of their columns. `widest`: on a
    terminal at most so wide. `ids`: they share what room is left, and where not even their headings have room the
    last goes, and then the others. Then those of `least` give way, down to that width, in this order; and then those
    of `spare` go, in this order.
    """

    names: tuple[str, ...]
    always: frozenset[int]
    numbers: frozenset[int]
    widest: Mapping[int, int]
    ids: tuple[int, ...]
    least: Mapping[int, int]
    spare: tuple[int, ...]


Row = tuple[str, ...]


def print_table(layout: Layout, rows: Sequence[Row], styles: Sequence[str]) -> None:
    """On stdout; a style of rich for each row. There is at least one row, of as many cells as there are columns."""
    from rich.console import Console
    from rich.text import Text

    room = terminal_columns()
    widths = column_widths(layout, rows, room)
    # Not rich's Table, which takes 6 s for the 10,000 rows that the history may have.
    lines = [Text(_line(layout, layout.names, widths))]
    lines += [Text(_line(layout, row, widths), style) for row, style in zip(rows, styles, strict=True)]
    console = Console(file=sys.stdout, highlight=False, width=room or _width_of(widths))
    console.print(Text("\n").join(lines), no_wrap=True, overflow="crop")


def is_terminal(stream: TextIO | None) -> bool:
    """None is one that was closed before we began."""
    return stream is not None and stream.isatty()


def terminal_columns() -> int | None:
    """The width of the terminal that stdout is; None where it is none."""
    if not is_terminal(sys.stdout):
        return None
    from rich.console import Console

    return Console(file=sys.stdout).width


def _line(layout: Layout, cells: Row, widths: Mapping[int, int]) -> str:
    from rich.cells import cell_len

    filled = []
    for index, width in widths.items():
        text = cut(cells[index], width)
        blank = " " * (width - cell_len(text))
        filled.append(blank + text if index in layout.numbers else text + blank)
    return (" " * GAP).join(filled).rstrip()


def column_widths(layout: Layout, rows: Sequence[Row], room: int | None) -> dict[int, int]:
    """Index -> width of the columns to show, which fit into `room` if there is a way. None: a pipe, which takes all."""
    from rich.cells import cell_len

    widths = {
        index: max(len(name), *(cell_len(row[index]) for row in rows))
        for index, name in enumerate(layout.names)
        if index in layout.always or any(row[index] != NOTHING for row in rows)
    }
    if room is None:
        return widths
    for index, widest in layout.widest.items():
        if index in widths:
            widths[index] = min(widths[index], widest)
    ids = [index for index in layout.ids if index in widths]
    while ids and _width_of({**widths, **{index: len(layout.names[index]) for index in ids}}) > room:
        del widths[ids.pop()]
    if not ids:
        for index, least in layout.least.items():
            if index in widths and (excess := _width_of(widths) - room) > 0:
                widths[index] = max(widths[index] - excess, min(least, widths[index]))
        for index in layout.spare:
            if index in widths and _width_of(widths) > room:
                del widths[index]
    left = room - sum(width + GAP for index, width in widths.items() if index not in ids) - GAP * len(ids)
    for place, index in enumerate(ids):
        share = left // (len(ids) - place)
        widths[index] = min(widths[index], max(share, len(layout.names[index])))
        left -= widths[index]
    return widths


def _width_of(widths: Mapping[int, int]) -> int:
    return sum(widths.values()) + GAP * (len(widths) - 1)


def unique_prefixes(ids: Sequence[str], others: Iterable[str] = ()) -> list[str]:
    """As much of each id as tells it from the rest and from `others`: of a UUIDv7 at least the time it starts with."""
    ordered = sorted({*ids, *others})
    lengths = {}
    for before, own, after in zip(["", *ordered], ordered, [*ordered[1:], ""], strict=False):
        # By letters, as it should be: these are no paths.
        same = max(len(os.path.commonprefix([own, other])) for other in (before, after))  # noqa: RUF071
        lengths[own] = max(MIN_ID_CHARS, same + 1)
    return [own[: lengths[own]] for own in ids]


def word(value: object) -> str:
    """A cell: what is known, harmless to a terminal; else NOTHING."""
    return NOTHING if value in (None, "") else printable(str(value))


def cut(value: object, width: int) -> str:
    """At most so many columns wide; a `~` where something is missing."""
    from rich.cells import cell_len, set_cell_size

    text = printable(str(value or ""))
    return text if cell_len(text) <= width else set_cell_size(text, width - 1).rstrip() + "~"
