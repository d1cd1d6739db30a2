"""The tables of `ps` and `history`: what has room on a terminal, what is cut, and that a pipe gets all."""

import io
from typing import Any

import pytest
from rich.cells import cell_len

from sidecar.cli import history, ps
from sidecar.cli.tables import Layout, cut, print_table, unique_prefixes

LONG = {
    "program": "a-program-with-a-long-name",
    "toolCallId": "call_" + "a" * 30,
    "sessionId": "s" * 36,
    "verdict": "network_peer_not_reading",
}
WIDE = {**LONG, "program": "编译器" * 20, "sessionId": "会话" * 40}
FEW = {"program": "sh", "verdict": "sleeping"}
RUNNING = {"pid": 4_194_303, "elapsedMs": 3_725_000, "sinceMs": 3_725_000, "timeoutMs": 6_000_000}
ENDED = {"elapsedMs": 3_725_000, "longestSilenceMs": 3_725_000, "reason": "silence_timeout", "endUnixMs": 0}
ID = "01a23641-2a2a"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def row_of(layout: Layout, names: dict[str, str]) -> tuple[str, ...]:
    if layout is ps.LAYOUT:
        return ps.cells({**RUNNING, **names}, ID)
    return history.cells({**ENDED, **names}, ID, 3_725_000)


def shown(monkeypatch: pytest.MonkeyPatch, stdout: io.StringIO, columns: int, *args: Any) -> list[str]:
    monkeypatch.setattr("sys.stdout", stdout)
    for name, value in (("COLUMNS", str(columns)), ("NO_COLOR", "1"), ("TERM", "xterm-256color")):
        monkeypatch.setenv(name, value)
    print_table(*args)
    return stdout.getvalue().splitlines()


@pytest.mark.parametrize("columns", [60, 80, 120])
@pytest.mark.parametrize("layout", [ps.LAYOUT, history.LAYOUT], ids=["ps", "history"])
@pytest.mark.parametrize("names", [LONG, WIDE, FEW], ids=["long", "wide", "few"])
def test_a_terminal_has_whole_headings_and_the_id_to_copy(
    monkeypatch: pytest.MonkeyPatch, columns: int, layout: Layout, names: dict[str, str]
) -> None:
    head, line = shown(monkeypatch, Terminal(), columns, layout, [row_of(layout, names)], [""])
    assert cell_len(head) <= columns
    assert cell_len(line) <= columns
    assert ID in line
    rest = head
    for name in layout.names:
        rest = rest.replace(name, "", 1)
    assert rest.strip() == "", "a heading is whole, or its column is not there"
    assert {"SILENT" in head or columns == 60, "COMMAND ID" in head, "VERDICT" in head} == {True}
    verdict = names["verdict"]
    assert verdict[: min(len(verdict), 13)] in line, "enough to know it by"


@pytest.mark.parametrize("layout", [ps.LAYOUT, history.LAYOUT], ids=["ps", "history"])
@pytest.mark.parametrize("times", [1, 100])
def test_a_pipe_gets_all_of_it(monkeypatch: pytest.MonkeyPatch, layout: Layout, times: int) -> None:
    row = row_of(layout, {key: value * times for key, value in WIDE.items()})
    head, line = shown(monkeypatch, io.StringIO(), 80, layout, [row], [""])
    assert head.split() == " ".join(layout.names).split()
    assert line.split() == " ".join(row).split()


def test_as_much_of_an_id_as_tells_it_from_the_others() -> None:
    assert unique_prefixes([ID + "-7000", "ff" + ID, ID + "-7001", ID[:-1] + "b-7000"]) == [
        ID + "-7000",
        "ff" + ID[:-2],
        ID + "-7001",
        ID[:-1] + "b",
    ]
    assert unique_prefixes(["short", ""]) == ["short", ""]
    assert unique_prefixes([ID + "-7000"], [ID + "-7100", ID + "-7000", ""]) == [ID + "-70"]


@pytest.mark.parametrize(
    ("text", "width", "said"), [("make", 4, "make"), ("make", 3, "ma~"), ("编译器", 4, "编~"), ("a\n", 9, "a\\n")]
)
def test_what_is_cut_says_so(text: str, width: int, said: str) -> None:
    assert cut(text, width) == said
