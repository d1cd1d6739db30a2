"""A board as lines for a terminal. Pure; nothing is wider than the terminal, and colour is never all that tells.

80 columns by 24 lines are enough; fewer lines show fewer commands, more columns show the ids too. What is `printed`
once has them always: nobody can press a key there. Widths are those of terminals, in which a letter of Chinese is two
columns wide.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from sidecar.cli.history import ending
from sidecar.cli.ps import span_text
from sidecar.cli.tables import MIN_ID_CHARS, cut
from sidecar.cli.wrapping import wrapped
from sidecar.core.values import counted, printable
from sidecar.top.board import Board, Ended, Row

BARS: Final = " ▁▂▃▄▅▆▇█"
ASCII_BARS: Final = " .:-=+*#@"
_GAP: Final = "  "
_MARKS: Final = {"may_be_hung": "!", "needs_someone": "?"}
_STYLES: Final = {"may_be_hung": "bold red", "needs_someone": "yellow", "working": "green"}
_KEYS: Final = "up/down select  enter explain  c cancel  / filter  s sort  q quit"
_FEW_KEYS: Final = "q quit  enter explain  c cancel  / filter"
"""How to leave it is what a narrow terminal has room for first."""
_ENDED_LINES: Final = 4
_PROBLEM_LINES: Final = 4
_ROOMY_LINES: Final = 16
_REPEATS: Final = " repeats"
_PROGRAM, _VERDICT, _SPARK, _CALL, _WHOLE_ID = 14, 24, 10, 24, 36
_WIDTHS: Final = (_PROGRAM, 6, 6, _VERDICT, 4, 6, _SPARK)
"""Of the columns before the id; of these OUTPUT, BYTES and CPU are the last."""
_OUTPUT, _ID, _TOOL_CALL = 6, 7, 8
_CAN_DO_WITHOUT: Final = (5, 4)
_UNITS: Final = ("", "k", "M", "G", "T")


@dataclass(slots=True)
class Ui:
    """What the keys have brought about. `page`: lines that cover the board (an explanation), or None. `prompt`: a
    question or the filter that is being typed, in place of the keys; None = neither. Of one that is too long the end
    stays where it is being `typed`, else the beginning."""

    page: list[str] | None = None
    page_top: int = 0
    prompt: str | None = None
    typed: bool = False
    message: str = ""


class Size(NamedTuple):
    columns: int
    lines: int


def lines_of(board: Board, ui: Ui, size: Size, now_s: float, clock: str, *, unicode: bool = True) -> list[Text]:
    """At most `size.lines` lines, none wider than `size.columns`. `clock` is the time of day, for the corner."""
    lines = _board(board, ui, size, now_s, clock, unicode=unicode) if ui.page is None else _page(ui, size)
    for line in lines:
        line.truncate(size.columns)
    return lines[: size.lines]


def printed(board: Board, columns: int, now_s: float, clock: str, *, unicode: bool = True) -> list[Text]:
    """All commands, with their ids, in as many lines as they take: for who cannot press a key."""
    rows = board.rows()
    id_width = _id_width(rows)
    shown = _shown_once(columns, id_width)
    lines = [_title(board, columns, clock), *_state(board, Size(columns, _ROOMY_LINES), now_s)]
    lines.append(_header(shown, id_width))
    lines += [_row(row, shown, id_width, False, unicode=unicode) for row in rows] or [_nothing(board)]
    for line in lines:
        line.truncate(columns)
    return lines


def _board(board: Board, ui: Ui, size: Size, now_s: float, clock: str, *, unicode: bool) -> list[Text]:
    rows = board.rows()
    id_width = _id_width(rows)
    columns = _shown_live(size.columns, id_width)
    title, header = _title(board, size.columns, clock), _header(columns, id_width)
    state = _state(board, size, now_s)
    if size.lines == 1 and (ui.prompt is not None or ui.message):
        return [_last(ui, size.columns)]
    # On a terminal of a few lines what is asked and what is selected come first.
    if size.lines >= 5:
        head = [title, *state, header]
    else:
        head = ([title, *state] if board.problem is None else [*state, title])[: max(0, size.lines - 2)]
    selected = board.row()
    foot = _selected_lines(selected, size) + _ended_lines(board.ended, now_s, size) + [_last(ui, size.columns)]
    room = max(1, size.lines - len(head) - len(foot))
    top = _scrolled(rows, selected, room)
    shown = [_row(row, columns, id_width, selected is row, unicode=unicode) for row in rows[top : top + room]]
    if len(rows) > top + room and room > 1:
        shown[-1] = Text(f"  ... and {len(rows) - top - room + 1} more", style="dim")
    if not rows:
        shown = [_nothing(board)]
    shown += [Text("")] * (room - len(shown))
    return [*head, *shown, *foot]


def _nothing(board: Board) -> Text:
    return Text(f"  {'nothing fits the filter' if board.running else 'no command is running'}", style="dim")


def _title(board: Board, columns: int, clock: str) -> Text:
    counts = f"{board.running} running"
    if hung := board.count("may_be_hung"):
        counts += f", {hung} may be hung"
    if needy := board.count("needs_someone"):
        counts += f", {needy} need{'s' if needy == 1 else ''} someone"
    left = f"sidecar top - {counts}"
    return Text(
        left + clock.rjust(max(0, columns - len(left))) if len(left) + len(clock) < columns else left, style="bold"
    )


def _state(board: Board, size: Size, now_s: float) -> list[Text]:
    if board.problem is None:
        order = f"sorted by {board.sort}"
        return [Text(order + (f", only with: {printable(board.filter)}" if board.filter else ""), style="dim")]
    # How old it is comes first: the rest may have no room.
    old = "" if board.heard_s is None else f", all this is {span_text(int((now_s - board.heard_s) * 1000))} old"
    nobody = "NO ANSWER" if board.is_daemon_there else "NO DAEMON"
    text = f"{nobody}{old}: {printable(board.problem)}"
    lines = wrapped(text, size.columns)[: _PROBLEM_LINES if size.lines >= _ROOMY_LINES else 1]
    return [Text(line, style="bold red") for line in lines]


def _id_width(rows: Sequence[Row]) -> int:
    return min(_WHOLE_ID, max([MIN_ID_CHARS, *(cell_len(printable(row.short_id)) for row in rows)]))


def _shown_live(columns: int, id_width: int) -> list[int]:
    """The columns to show, by index: ids where there is room."""
    shown = list(range(len(_WIDTHS)))
    for index in (_ID, _TOOL_CALL):
        if _width_of([*shown, index], id_width) <= columns:
            shown.append(index)
    return shown


def _shown_once(columns: int, id_width: int) -> list[int]:
    """The same of what is printed once: no bars of output, which take two looks, and the id before all else."""
    shown = [*range(_OUTPUT), _ID]
    for index in _CAN_DO_WITHOUT:
        if _width_of(shown, id_width) > columns:
            shown.remove(index)
    return [*shown, _TOOL_CALL] if _width_of([*shown, _TOOL_CALL], id_width) <= columns else shown


def _width_of(shown: Sequence[int], id_width: int) -> int:
    widths = (*_WIDTHS, id_width, _CALL)
    return sum(widths[index] for index in shown) + len(_GAP) * (len(shown) - 1)


def _header(shown: Sequence[int], id_width: int) -> Text:
    cells = [f"  {'PROGRAM':<{_PROGRAM - 2}}", f"{'AGE':>6}", f"{'SILENT':>6}", f"{'VERDICT':<{_VERDICT}}"]
    cells += [f"{'CPU':>4}", f"{'BYTES':>6}", f"{'OUTPUT':<{_SPARK}}", f"{'ID':<{id_width}}", f"{'TOOL CALL':<{_CALL}}"]
    return Text(_GAP.join(cells[index] for index in shown), "dim")


def _row(row: Row, shown: Sequence[int], id_width: int, selected: bool, *, unicode: bool) -> Text:
    record = row.record
    verdict = str(record.get("verdict", "-"))
    held = f" {span_text(int(record['sinceMs']))}" if "sinceMs" in record else ""
    if record.get("repeats") is True and len(verdict) + len(held) + len(_REPEATS) <= _VERDICT:
        held += _REPEATS
    # Of a long name the age is worth more than the last letters.
    verdict = printable(verdict)[: _VERDICT - len(held)] + held
    if "heartbeatDelayMs" in record:  # nobody knows whether that holds still
        verdict = f"heartbeat {span_text(int(record['heartbeatDelayMs']))} late"
    mark = _MARKS.get(row.group or "", " ")
    cells = [
        f"{'>' if selected else ' '}{mark}{set_cell_size(cut(record.get('program'), _PROGRAM - 2), _PROGRAM - 2)}",
        f"{span_text(int(record.get('elapsedMs', 0))):>6}",
        f"{span_text(row.silent_ms):>6}",
        set_cell_size(verdict, _VERDICT),
        f"{'-' if row.cpu_percent is None else f'{row.cpu_percent:.0f}%':>4}",
        f"{size_text(int(record.get('totalBytes', 0))):>6}",
        sparkline(list(row.rates), _SPARK, unicode=unicode),
        set_cell_size(cut(row.short_id, id_width), id_width),
        set_cell_size(cut(record.get("toolCallId", ""), _CALL), _CALL),
    ]
    line = _GAP.join(cells[index] for index in shown)
    return Text(line, style=_STYLES.get(row.group or "", "") + (" reverse" if selected else ""))


def _selected_lines(row: Row | None, size: Size) -> list[Text]:
    """The weightiest fact of what is selected, where there is room."""
    if row is None or size.lines < _ROOMY_LINES:
        return []
    evidence = row.record.get("evidence") or ()
    fact = printable(str(evidence[0])) if evidence else "no verdict yet" if "verdict" not in row.record else ""
    return [Text(""), Text(f"{cut(row.short_id, _WHOLE_ID)}  {fact}")]


def _ended_lines(ended: Sequence[Ended], now_s: float, size: Size) -> list[Text]:
    if not ended or size.lines < 20:
        return []
    lines = [Text("")]
    for one in list(ended)[:_ENDED_LINES]:
        ago = span_text(int((now_s - one.at_s) * 1000))
        ran, silence = (span_text(int(one.record.get(key, 0))) for key in ("elapsedMs", "longestSilenceMs"))
        program = set_cell_size(cut(one.record.get("program") or "-", 12), 12)
        said = f"  {program}  {printable(ending(one.record))}, ran {ran}, silent {silence}"
        lines.append(Text(f"{said}, {ago} ago", style="dim"))
    return lines


def _last(ui: Ui, columns: int) -> Text:
    if ui.prompt is not None:
        prompt = printable(ui.prompt)
        while ui.typed and cell_len(prompt) > columns:
            prompt = prompt[1:]
        return Text(prompt, style="bold")
    keys = _KEYS if columns >= len(_KEYS) else _FEW_KEYS
    return Text(printable(ui.message) if ui.message else keys, style="" if ui.message else "dim")


def _page(ui: Ui, size: Size) -> list[Text]:
    parts = [part for line in ui.page or () for part in wrapped(line, size.columns)]
    room = max(1, size.lines - 1)
    ui.page_top = min(ui.page_top, max(0, len(parts) - room))
    shown = [Text(line) for line in parts[ui.page_top : ui.page_top + room]]
    shown += [Text("")] * (room - len(shown))
    left = len(parts) - ui.page_top - room
    more = f"  ({counted(left, 'more line')})" if left > 0 else ""
    return [*shown, Text(f"up/down scroll  q back{more}", style="dim")]


def _scrolled(rows: Sequence[Row], selected: Row | None, room: int) -> int:
    if selected is None or len(rows) <= room:
        return 0
    place = rows.index(selected)
    if room == 1:
        return place
    # One line tells of those that are further down.
    return min(max(0, place - room + 2), len(rows) - room)


def sparkline(rates: Sequence[float], width: int, *, unicode: bool = True) -> str:
    """The last `width` rates as bars; any output at all is a bar, nothing is a blank."""
    bars = BARS if unicode else ASCII_BARS
    shown = list(rates)[-width:]
    most = max(shown, default=0.0)
    steps = len(bars) - 1
    drawn = "".join(bars[0] if rate <= 0 else bars[max(1, round(rate / most * steps))] for rate in shown)
    return drawn.rjust(width)


def size_text(size_bytes: int) -> str:
    """`0`, `999`, `1.2k`, `34M`: at most four characters."""
    size = float(size_bytes)
    for unit in _UNITS:
        if size < 999.5 or unit == _UNITS[-1]:
            return f"{size:.1f}{unit}" if unit and size < 9.95 else f"{size:.0f}{unit}"
        size /= 1000
    raise AssertionError("unreachable")  # pragma: no cover
