"""The parts of `sidecar top` that need no terminal: the board, the picture, the keys, what the keys do."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import set_cell_size
from rich.text import Text

from sidecar.core.errors import DaemonSilent
from sidecar.core.verdict_names import ALL
from sidecar.daemon.tree_cpu import AT_MOST, TreeCpu
from sidecar.top.board import RATES_KEPT, SORTS, Board
from sidecar.top.keys import Keys
from sidecar.top.loop import Live
from sidecar.top.screen import ansi
from sidecar.top.view import Size, Ui, lines_of, printed, size_text, sparkline

SIZE = Size(80, 24)


def command(name: str, **fields: Any) -> dict[str, Any]:
    return {
        "type": "command",
        "commandId": f"01a2374c-a45d-{name}",
        "program": name,
        "pid": 4711,
        "elapsedMs": 60_000,
        "totalBytes": 0,
        **fields,
    }


HUNG = command("npm", verdict="deadlock_suspected", group="may_be_hung", sinceMs=50_000, evidence=["a futex"])
ASKS = command("ssh", verdict="awaiting_input", group="needs_someone", sinceMs=3000, toolCallId="call_7")
BUSY = command("cc", verdict="computing", group="working", sinceMs=1000, lastOutputAgeMs=2000, totalBytes=1234)
TALKS = command("make", lastOutputAgeMs=10, totalBytes=99)


def board(*records: dict[str, Any]) -> Board:
    made = Board()
    made.update(records, 100.0)
    return made


def picture(made: Board, size: Size = SIZE, ui: Ui | None = None, now_s: float = 100.0) -> list[str]:
    return [line.plain for line in lines_of(made, ui or Ui(), size, now_s, "12:00:00")]


class TestBoard:
    def test_trouble_comes_first(self) -> None:
        assert [row.record["program"] for row in board(TALKS, BUSY, ASKS, HUNG).rows()] == ["npm", "ssh", "cc", "make"]

    def test_a_verdict_of_a_newer_version_is_unknown_and_sorted(self) -> None:
        odd = command("odd", verdict="brand_new", group="of_another_kind")
        assert [row.record["program"] for row in board(BUSY, odd, ASKS).rows()] == ["ssh", "odd", "cc"]

    @pytest.mark.parametrize(("sort", "first"), [("silence", "npm"), ("bytes", "cc"), ("program", "cc")])
    def test_other_orders(self, sort: str, first: str) -> None:
        made = board(TALKS, BUSY, HUNG)
        made.sort = sort
        assert made.rows()[0].record["program"] == first

    def test_the_sorts_come_round(self) -> None:
        made = Board()
        for _ in SORTS:
            made.next_sort()
        assert made.sort == SORTS[0]

    @pytest.mark.parametrize("text", ["SSH", "call_7", "needs_someone", "awaiting"])
    def test_the_filter_finds_names_ids_and_verdicts(self, text: str) -> None:
        made = board(TALKS, BUSY, ASKS, HUNG)
        made.filter = text
        assert [row.record["program"] for row in made.rows()] == ["ssh"]

    def test_rates_are_of_what_came_between_two_looks(self) -> None:
        made = board(command("make", totalBytes=100))
        made.update([command("make", totalBytes=300)], 102.0)
        made.update([command("make", totalBytes=300)], 103.0)
        assert list(made.rows()[0].rates) == [100.0, 0.0]
        for second in range(2 * RATES_KEPT):
            made.update([command("make", totalBytes=300)], 104.0 + second)
        assert len(made.rows()[0].rates) == RATES_KEPT

    def test_the_selection_stays_with_its_command(self) -> None:
        made = board(HUNG, ASKS, BUSY)
        made.move(1)
        assert made.row().record["program"] == "ssh"  # type: ignore[union-attr]
        made.update([ASKS, BUSY], 101.0)
        assert made.row().record["program"] == "ssh"  # type: ignore[union-attr]
        made.settle({"commandId": ASKS["commandId"], "reason": "exited", "exitCode": 0}, 102.0)
        assert made.row().record["program"] == "cc"  # type: ignore[union-attr]
        assert made.ended[0].record["program"] == "ssh"

    def test_moving_stops_at_the_ends(self) -> None:
        made = board(HUNG, ASKS)
        made.move(100)
        assert made.row().record["program"] == "ssh"  # type: ignore[union-attr]
        made.move(-100)
        assert made.row().record["program"] == "npm"  # type: ignore[union-attr]
        Board().move(1)


class TestPicture:
    def test_at_80_by_24(self) -> None:
        made = board(HUNG, ASKS, BUSY, TALKS)
        made.settle(
            {"commandId": "x", "program": "git", "reason": "timeout", "elapsedMs": 9000, "longestSilenceMs": 8000}, 90.0
        )
        assert picture(made) == [
            "sidecar top - 4 running, 1 may be hung, 1 needs someone                 12:00:00",
            "sorted by trouble",
            "  PROGRAM          AGE  SILENT  VERDICT                    CPU   BYTES  OUTPUT  ",
            ">!npm            1m00s   1m00s  deadlock_suspected 50s       -       0          ",
            " ?ssh            1m00s   1m00s  awaiting_input 3.0s          -       0          ",
            "  cc             1m00s    2.0s  computing 1.0s               -    1.2k          ",
            "  make           1m00s    0.0s  -                            -      99          ",
            *[""] * 12,
            "",
            "01a2374c-a45d-n  a futex",
            "",
            "  git           timeout, ran 9.0s, silent 8.0s, 10s ago",
            "up/down select  enter explain  c cancel  / filter  s sort  q quit",
        ]

    def test_a_narrow_one_tells_first_how_to_leave_it(self) -> None:
        assert picture(board(BUSY), Size(40, 24))[-1].startswith("q quit")

    def test_wider_ones_have_the_ids(self) -> None:
        assert picture(board(ASKS), Size(140, 24))[3].endswith("01a2374c-a45d  call_7                  ")

    def test_an_id_is_shown_as_far_as_no_other_has_it(self) -> None:
        """As `sidecar ps` shows it: of what began in the same millisecond, too, and of what has ended."""
        made = Board()
        made.know_ended(["01a2374c-a45d-mast", "01a2374c-a000-none"])
        made.update([TALKS, BUSY], 100.0)
        assert [row.short_id for row in made.rows()] == ["01a2374c-a45d-c", "01a2374c-a45d-mak"]
        wide = picture(made, Size(140, 24))
        assert [line[84:101].strip() for line in wide[2:5]] == ["ID", "01a2374c-a45d-c", "01a2374c-a45d-mak"]
        made.settle({"commandId": TALKS["commandId"], "reason": "exited", "exitCode": 0}, 101.0)
        made.update([command("makes")], 102.0)
        assert [row.short_id for row in made.rows()] == ["01a2374c-a45d-makes"]

    def test_printed_once_it_has_the_ids_and_no_lines_of_nothing(self) -> None:
        made = board(HUNG, ASKS, BUSY, TALKS)
        assert [line.plain.rstrip() for line in printed(made, 80, 100.0, "12:00:00")] == [
            "sidecar top - 4 running, 1 may be hung, 1 needs someone                 12:00:00",
            "sorted by trouble",
            "  PROGRAM          AGE  SILENT  VERDICT                    CPU  ID",
            " !npm            1m00s   1m00s  deadlock_suspected 50s       -  01a2374c-a45d-n",
            " ?ssh            1m00s   1m00s  awaiting_input 3.0s          -  01a2374c-a45d-s",
            "  cc             1m00s    2.0s  computing 1.0s               -  01a2374c-a45d-c",
            "  make           1m00s    0.0s  -                            -  01a2374c-a45d-m",
        ]
        wide = [line.plain for line in printed(made, 160, 100.0, "12:00:00")]
        assert wide[2].split() == ["PROGRAM", "AGE", "SILENT", "VERDICT", "CPU", "BYTES", "ID", "TOOL", "CALL"]
        assert wide[4].rstrip().endswith("01a2374c-a45d-s  call_7")
        made.filter = "zzz"
        assert printed(made, 80, 100.0, "12:00:00")[-1].plain == "  nothing fits the filter"

    def test_without_a_daemon_it_says_so_and_how_old_it_is(self) -> None:
        made = board(BUSY)
        made.lose("no daemon is running on /run/s.sock")
        assert (
            picture(made, now_s=165.0)[1]
            == ("NO DAEMON, all this is 1m05s old: no daemon is running on /run/s.sock"[:80])
        )

    def test_one_that_does_not_answer_is_another_thing_than_none_and_what_to_do_has_room(self) -> None:
        made = board(BUSY)
        made.lose(str(DaemonSilent("the daemon did not answer within 3 s", 4194304)), is_there=True)
        assert picture(made, now_s=165.0)[1:3] == [
            "NO ANSWER, all this is 1m05s old: the daemon did not answer within 3 s:",
            "`sidecar why 4194304` says why, `sidecar daemon stop` ends it",
        ]
        assert [len(picture(made, Size(columns, 24), now_s=165.0)) for columns in (40, 1)] == [24, 24]
        assert "`sidecar daemon stop` ends it" in " ".join(picture(made, Size(40, 24), now_s=165.0)[1:5])
        assert sum(line.startswith("NO ANSWER") for line in picture(made, Size(80, 5))) == 1

    @pytest.mark.parametrize(
        ("commands", "said"),
        [([ASKS], "1 needs someone"), ([ASKS, {**BUSY, **ASKS, "commandId": "b"}], "2 need someone")],
    )
    def test_one_needs_and_two_need(self, commands: list[dict[str, Any]], said: str) -> None:
        assert picture(board(*commands))[0].split(", ")[1].startswith(said)

    def test_nothing_runs_or_nothing_fits(self) -> None:
        assert picture(Board())[3] == "  no command is running"
        made = board(BUSY)
        made.filter = "zzz"
        assert picture(made)[3] == "  nothing fits the filter"

    def test_more_than_there_is_room_for(self) -> None:
        made = board(*(command(f"p{number:02}") for number in range(40)))
        assert picture(made)[-4].strip() == "... and 23 more"
        made.move(39)
        assert picture(made)[-4].startswith("> p39")

    @pytest.mark.parametrize("name", ["日本語の名前です長い長い", "é" * 20, "👩family", "x" * 200, "a\u202eb\x1b[31m"])
    def test_whatever_a_program_is_named_the_columns_stay(self, name: str) -> None:
        made = board(command(name))
        verdict = picture(made)[2].index("VERDICT")
        assert set_cell_size(picture(made)[3], verdict).endswith(" 1m00s   1m00s  ")

    @pytest.mark.parametrize("lines", [1, 2, 3, 4, 5, 10, 24])
    def test_on_few_lines_the_selected_one_and_what_is_asked_stay(self, lines: int) -> None:
        made = board(*(command(f"p{number:02}", elapsedMs=100 - number) for number in range(40)))
        made.move(20)
        size = Size(40, lines)
        shown = [line.plain for line in lines_of(made, Ui(), size, 100.0, "12:00:00")]
        assert [line[:6].strip() for line in shown if line.startswith(">")] == ["> p20"]
        asked = Ui(prompt="cancel (y/n)? p20")
        assert lines_of(made, asked, size, 100.0, "12:00:00")[-1].plain == "cancel (y/n)? p20"

    def test_of_a_long_filter_the_end_is_shown(self) -> None:
        ui = Ui(prompt="only with (enter; escape = all): " + "x" * 30 + "語_", typed=True)
        shown = lines_of(board(BUSY), ui, Size(40, 24), 100.0, "12:00:00")[-1]
        assert shown.plain.endswith("xx語_")
        assert shown.cell_len <= 40

    def test_output_that_repeats_is_no_progress(self) -> None:
        made = board({**BUSY, "verdict": "polling", "sinceMs": 2000, "repeats": True})
        assert "polling 2.0s repeats" in picture(made)[3]

    def test_what_ended_before_anybody_looked(self) -> None:
        made = board(BUSY)
        ended = {"commandId": "e", "program": "make", "reason": "exited", "exitCode": 2, "elapsedMs": 1000}
        made.remember([{**ended, "endUnixMs": 990_000}, {**ended, "endUnixMs": 1}], 100.0, 1_000_000)
        (line,) = [line for line in picture(made) if "exit 2" in line]
        assert line.strip() == "make          exit 2, ran 1.0s, silent 0.0s, 10s ago"

    def test_a_page_is_scrolled_and_wrapped(self) -> None:
        ui = Ui(page=["evidence    " + "word " * 40, *(f"line {number}" for number in range(50))])
        first = picture(board(BUSY), ui=ui)
        assert first[1].startswith("            word")
        assert "more lines" in first[-1]
        ui.page_top = 1000
        assert picture(board(BUSY), ui=ui)[-2] == "line 49"
        ui.page_top -= 1
        assert picture(board(BUSY), ui=ui)[-1].endswith("(1 more line)")

    RECORDS = st.fixed_dictionaries(
        {
            "commandId": st.text(),
            "program": st.text(),
            "pid": st.integers(1, 2**22),
            "elapsedMs": st.integers(0, 2**62),
        },
        optional={
            "verdict": st.sampled_from(ALL) | st.text(max_size=40),
            "group": st.text(max_size=20),
            "sinceMs": st.integers(0, 2**62),
            "lastOutputAgeMs": st.integers(0, 2**62),
            "totalBytes": st.integers(0, 2**62),
            "toolCallId": st.text(),
            "evidence": st.lists(st.text()),
        },
    )

    @given(st.lists(RECORDS, max_size=8), st.integers(1, 200), st.integers(1, 60), st.text(), st.booleans())
    def test_it_is_never_larger_than_the_terminal_and_moves_no_cursor(
        self, records: list[dict[str, Any]], columns: int, lines: int, text: str, unicode: bool
    ) -> None:
        made = board(*records)
        made.settle({"commandId": "gone", "program": text, "reason": text}, 99.0)
        ui = Ui(message=text)
        drawn = lines_of(made, ui, Size(columns, lines), 100.0, "12:00:00", unicode=unicode)
        assert len(drawn) <= lines
        for line in [*drawn, *printed(made, columns, 100.0, "12:00:00", unicode=unicode)]:
            assert line.cell_len <= columns
            assert line.plain.isprintable()

    def test_without_colour_there_is_none(self) -> None:
        line = Text("npm", style="bold red reverse")
        assert "\x1b[" in ansi(line, 80, colour=True)
        assert "31" not in ansi(line, 80, colour=False)


@pytest.mark.parametrize(
    ("size", "said"),
    [(0, "0"), (999, "999"), (1000, "1.0k"), (9949, "9.9k"), (9950, "10k"), (999_499, "999k"), (10**13, "10T")],
)
def test_sizes(size: int, said: str) -> None:
    assert size_text(size) == said


def test_a_sparkline_tells_any_output_from_none() -> None:
    assert sparkline([0, 1, 1000, 500], 6) == "   ▁█▄"
    assert sparkline([0, 1, 1000, 500], 6, unicode=False) == "   .@="
    assert sparkline([], 3) == "   "


def all_keys(*pieces: bytes) -> list[str]:
    keys = Keys()
    return [key for piece in pieces for key in keys.feed(piece)] + list(keys.flush())


class TestKeys:
    @pytest.mark.parametrize(
        ("data", "keys"),
        [
            (b"q", ["q"]),
            (b"\x1b[A\x1b[B", ["up", "down"]),
            (b"\x1b", ["escape"]),
            (b"\x1b[1;5Cx", ["x"]),
            ("ä/\r".encode(), ["ä", "/", "enter"]),
            (b"\x7f", ["backspace"]),
        ],
    )
    def test_known_ones(self, data: bytes, keys: list[str]) -> None:
        assert all_keys(data) == keys

    @given(st.binary())
    def test_whatever_comes_it_ends(self, data: bytes) -> None:
        assert len(all_keys(data)) <= len(data)

    @given(st.lists(st.sampled_from(["\x1b[A", "\x1b[5~", "\x1bOB", "q", "ä", "語", "\r"])), st.data())
    def test_in_whatever_pieces_it_comes(self, typed: list[str], data: st.DataObject) -> None:
        """As over a slow line."""
        whole = "".join(typed).encode()
        cuts = sorted(data.draw(st.sets(st.integers(0, len(whole)))))
        pieces = [whole[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
        assert all_keys(*pieces) == all_keys(whole)
        assert "escape" not in all_keys(*pieces)

    def test_escape_is_one_when_nothing_follows(self) -> None:
        keys = Keys()
        assert list(keys.feed(b"\x1b")) == []
        assert keys.waits
        assert list(keys.flush()) == ["escape"]
        assert not keys.waits


class TestLive:
    def live(self) -> Live:
        self.asked: list[str] = []

        def cancel(command_id: str) -> str:
            self.asked.append(command_id)
            return "asked"

        return Live(board(HUNG, ASKS), cancel)

    def press(self, live: Live, *keys: str) -> bool:
        return all(live.press(key, 100.0) for key in keys)

    def test_explaining_and_back(self) -> None:
        live = self.live()
        assert self.press(live, "enter")
        assert (live.ui.page or [])[0] == "npm (pid 4711) has run for 1m00s; no output was seen for 1m00s."
        assert "evidence    a futex" in (live.ui.page or [])
        assert f"command     {HUNG['commandId']}" in (live.ui.page or [])
        assert self.press(live, "down", "q")
        assert live.ui.page is None
        assert not self.press(live, "q")

    def test_cancelling_asks_first(self) -> None:
        live = self.live()
        self.press(live, "down", "c")
        assert live.ui.prompt == "cancel (y/n)? ssh (pid 4711): TERM to its whole tree"
        self.press(live, "n")
        assert (self.asked, live.ui.prompt) == ([], None)
        self.press(live, "c", "q")  # any other key is no yes, and does not leave
        assert self.asked == []
        self.press(live, "c", "y")
        assert self.asked == [ASKS["commandId"]]
        assert live.ui.message == "asked"
        live.tick(200.0)
        assert live.ui.message == ""

    def test_the_filter_is_typed(self) -> None:
        live = self.live()
        self.press(live, "/", "s", "x", "backspace", "s", "enter")
        assert (live.board.filter, live.ui.prompt) == ("ss", None)
        self.press(live, "/", "q", "escape")
        assert live.board.filter == ""

    @given(st.lists(st.sampled_from(["up", "down", "enter", "c", "y", "/", "a", "escape", "s", "end", "backspace"])))
    def test_no_keys_break_it(self, keys: list[str]) -> None:
        live = self.live()
        for key in keys:
            live.press(key, 100.0)
            lines_of(live.board, live.ui, SIZE, 100.0, "12:00:00")


def test_cpu_needs_two_looks() -> None:
    import os

    cpu = TreeCpu()
    assert cpu.percent(os.getpid(), 1.0) is None
    busy = cpu.percent(os.getpid(), 2.0)
    assert busy is None or busy >= 0
    assert cpu.percent(2**22 + 1, 3.0) is None
    assert cpu.percents([], 3.0) == {}
    assert cpu.percents([os.getpid()], 4.0) == {os.getpid(): None}
    assert cpu.percents(range(10**6, 10**6 + 2 * AT_MOST), 5.0).keys() == set(range(10**6, 10**6 + AT_MOST))
