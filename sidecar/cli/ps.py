"""`sidecar ps`: the commands that run now. It starts no daemon: without one there is nothing to list."""

import json
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import click

from sidecar.cli.errors import complain
from sidecar.cli.parameters import daemon_socket, socket_options
from sidecar.core.errors import NoDaemon
from sidecar.core.values import printable
from sidecar.daemon.client import request

if TYPE_CHECKING:
    Record = Mapping[str, Any]

WIDE_COLUMNS = 1000
COLUMNS = ("PROGRAM", "PID", "RUNS", "SILENT", "TIMEOUT", "VERDICT", "COMMAND ID", "TOOL CALL", "SESSION")
ALWAYS_SHOWN = 4
NUMBERS = (1, 2, 3, 4)
PROGRAM, VERDICT, TOOL_CALL, SESSION = 0, 5, 7, 8
MIN_ID_CHARS = 13
MAX_PROGRAM_WIDTH = 16
MIN_WIDTHS = {PROGRAM: 8, VERDICT: 14}
"""Down to which a column gives way on a narrow terminal, in this order."""
GAP = 2


@click.command("ps", short_help="List what runs now: for how long, and how old its output is.")
@click.option("--json", "as_json", is_flag=True, help="For programs: one array of the daemon's own records.")
@socket_options
def ps(as_json: bool, socket: str | None, config_path: str | None) -> None:
    """List the commands that run now.

    RUNS is the time since the start, SILENT that since the last output (or since the start, where there was
    none yet). VERDICT is why it is silent, and for how long that has held; `sidecar explain` says more. "Output
    repeats" stands where it writes nothing but a spinner or a clock. COMMAND ID
    is as much of it as `explain` and `cancel` need. No daemon means no commands; one that does not answer is an error.
    """
    try:
        answers = list(request(daemon_socket(socket, config_path), "list"))
    except NoDaemon as error:
        complain(str(error))
        answers = []
    commands = [answer for answer in answers if answer.get("type") == "command"]
    commands.sort(key=lambda command: -int(command.get("elapsedMs", 0)))
    if as_json:
        click.echo(json.dumps(commands, indent=2))
    elif commands:
        _print_table(commands)
    elif answers:
        complain("no command is running")


def unique_prefixes(ids: Sequence[str]) -> list[str]:
    """As much of each id as tells it from the others: of a UUIDv7 at least the time it starts with."""
    prefixes = []
    for number, own in enumerate(ids):
        others = [other for index, other in enumerate(ids) if index != number]
        length = MIN_ID_CHARS
        while length < len(own) and any(other.startswith(own[:length]) for other in others):
            length += 1
        prefixes.append(own[:length])
    return prefixes


def cells(command: "Record", command_id: str = "") -> tuple[str, ...]:
    """One row, in the order of COLUMNS; `-` where nothing is known."""
    elapsed_ms = int(command.get("elapsedMs", 0))
    silent_ms = command.get("lastOutputAgeMs", elapsed_ms)
    timeout_ms = command.get("timeoutMs")
    return (
        _word(command.get("program")),
        _word(command.get("pid")),
        span_text(elapsed_ms),
        span_text(int(silent_ms)),
        "-" if timeout_ms is None else span_text(int(timeout_ms)),
        _verdict(command),
        _word(command_id),
        _word(command.get("toolCallId")),
        _word(command.get("sessionId")),
    )


def span_text(span_ms: int) -> str:
    """A span for eyes, two units at most: `0.4s`, `12s`, `3m05s`, `2h07m`, `3d04h`."""
    seconds = span_ms // 1000
    if seconds < 10:
        return f"{span_ms // 100 / 10:.1f}s"
    if seconds < 60:
        return f"{seconds}s"
    if seconds < 3600:
        return f"{seconds // 60}m{seconds % 60:02}s"
    if seconds < 86400:
        return f"{seconds // 3600}h{seconds // 60 % 60:02}m"
    return f"{seconds // 86400}d{seconds // 3600 % 24:02}h"


def _verdict(command: "Record") -> str:
    """`awaiting_input 1m05s`"""
    verdict = _word(command.get("verdict"))
    if "sinceMs" not in command:
        return verdict
    repeats = ", output repeats" if command.get("repeats") is True else ""
    return f"{verdict} {span_text(int(command['sinceMs']))}{repeats}"


def _word(value: object) -> str:
    return "-" if value in (None, "") else printable(str(value))


def _print_table(commands: Sequence["Record"]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    # Into a pipe nothing is cut off; on a terminal the ids, which are the last and the longest, give way.
    console = Console(file=sys.stdout, highlight=False, width=None if sys.stdout.isatty() else WIDE_COLUMNS)
    ids = unique_prefixes([str(command.get("commandId", "")) for command in commands])
    rows = [cells(command, command_id) for command, command_id in zip(commands, ids, strict=True)]
    widths = column_widths(rows, console.width)
    table = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="")
    for index, width in widths.items():
        justify: Literal["left", "right"] = "right" if index in NUMBERS else "left"
        table.add_column(COLUMNS[index], justify=justify, no_wrap=True, overflow="ellipsis", width=width)
    for command, row in zip(commands, rows, strict=True):
        table.add_row(*(Text(row[index]) for index in widths), style="yellow" if command.get("silent") else "")
    console.print(table)


def column_widths(rows: Sequence[tuple[str, ...]], room: int) -> dict[int, int]:
    """Index -> width of the columns to show: not those that say nothing, and the ids share what room is left.

    Where not even their headings have room, the session goes, then the tool call, and then others are cut.
    """
    from rich.cells import cell_len

    widths = {
        index: max(len(name), *(cell_len(row[index]) for row in rows))
        for index, name in enumerate(COLUMNS)
        if index < ALWAYS_SHOWN or any(row[index] != "-" for row in rows)
    }
    if room < WIDE_COLUMNS:
        widths[PROGRAM] = min(widths[PROGRAM], MAX_PROGRAM_WIDTH)
    ids = [index for index in (TOOL_CALL, SESSION) if index in widths]
    while ids and _too_wide({**widths, **{index: len(COLUMNS[index]) for index in ids}}, room) > 0:
        del widths[ids.pop()]
    if not ids:
        for index, least in MIN_WIDTHS.items():
            if index in widths and (excess := _too_wide(widths, room)) > 0:
                widths[index] = max(widths[index] - excess, min(least, widths[index]))
    left = room - sum(width + GAP for index, width in widths.items() if index not in ids) - GAP * len(ids)
    for place, index in enumerate(ids):
        share = left // (len(ids) - place)
        widths[index] = min(widths[index], max(share, len(COLUMNS[index])))
        left -= widths[index]
    return widths


def _too_wide(widths: Mapping[int, int], room: int) -> int:
    """By how many columns. Negative: so many are left."""
    return sum(widths.values()) + GAP * (len(widths) - 1) - room
