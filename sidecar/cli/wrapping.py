"""Lines of words for eyes: as wide as the terminal is, whose letters may be two columns wide; as they are elsewhere."""

import re
from typing import Final

import click

from sidecar.cli.tables import terminal_columns

_TITLE_COLUMNS: Final = 12
"""Of the titles of `sidecar explain`, which are followed by two blanks at least."""
_INDENTED_FROM: Final = 40
_QUOTED: Final = re.compile("`[^`]+`")
_KEPT: Final = "\ue000"
"""For a blank at which no line is to be broken; no text of ours has it, since it is not printable."""


def say(line: str) -> None:
    """On stdout. Into a pipe nothing is broken."""
    columns = terminal_columns()
    for part in [line] if columns is None else wrapped(line, columns):
        click.echo(part)


def wrapped(line: str, columns: int) -> list[str]:
    """At blanks, where there are some; what follows a title stays at the right of it, and what is to be pasted (between
    backquotes) in one line, if that is long enough."""
    from rich.cells import cell_len, chop_cells

    titled = line[_TITLE_COLUMNS - 2 : _TITLE_COLUMNS] == "  " and columns >= _INDENTED_FROM
    indent = " " * _TITLE_COLUMNS if titled else ""
    room = columns - len(indent)
    line = _QUOTED.sub(lambda found: found[0].replace(" ", _KEPT) if cell_len(found[0]) <= room else found[0], line)
    lines = []
    while cell_len(line) > columns:
        head = chop_cells(line, columns)[0] or line[0]  # one column is too few for some letters
        end = len(head) if line[len(head)] == " " else head.rfind(" ")
        if end < len(indent) or not head[:end].strip():
            end = len(head)
        lines.append(line[:end].rstrip())
        line = indent + line[end:].lstrip()
    return [part.replace(_KEPT, " ") for part in (*lines, line)]
