"""`sidecar ps`: its rows, its JSON, its table."""

import io
import json

import pytest

from sidecar.cli import ps as verb
from sidecar.cli.main import main
from sidecar.cli.ps import LAYOUT, cells
from sidecar.cli.tables import GAP, column_widths
from sidecar.core.errors import DaemonUnavailable, NoDaemon

FIRST = {
    "type": "command",
    "program": "pytest",
    "pid": 4711,
    "elapsedMs": 185_000,
    "lastOutputAgeMs": 12_400,
    "silent": True,
    "verdict": "network_wait",
    "timeoutMs": 600_000,
    "toolCallId": "call_0123456789abcdef0123456789abcdef",
    "sessionId": "3f2b6c1e-0000-4000-8000-000000000001",
}
SECOND = {"type": "command", "program": "sh", "pid": 12, "elapsedMs": 400, "silent": False}


@pytest.fixture
def daemon(monkeypatch):
    """What the daemon answers to "list"; an exception is raised."""

    def answers(*records):
        def request(path, name):
            assert name == "list"
            for record in records:
                if isinstance(record, Exception):
                    raise record
                yield record

        monkeypatch.setattr(verb, "request", request)

    return answers


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_no_daemon_is_an_empty_list(daemon, capsys):
    daemon(NoDaemon("no daemon is running on /x"))
    assert main(["ps"]) == 0
    assert capsys.readouterr() == ("", "sidecar: no daemon is running on /x\n")
    assert main(["ps", "--json"]) == 0
    assert capsys.readouterr() == ("[]\n", "sidecar: no daemon is running on /x\n")


def test_a_daemon_that_does_not_answer_is_no_empty_list(daemon, capsys):
    daemon(DaemonUnavailable("the daemon on /x did not answer within 10 s"))
    assert main(["ps", "--json"]) == 125
    assert capsys.readouterr() == ("", "sidecar: the daemon on /x did not answer within 10 s\n")


def test_nothing_runs(daemon, capsys):
    daemon({"type": "end", "count": 0})
    assert main(["ps"]) == 0
    assert capsys.readouterr() == ("", "sidecar: no command is running\n")


def test_json_is_one_array_longest_first(daemon, capsys):
    daemon(SECOND, FIRST, {"type": "end", "count": 2})
    assert main(["ps", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == [FIRST, SECOND]


def test_only_what_fits_the_filter(daemon, capsys):
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    for text in (trace, "PYTEST", "network", "waiting", "4711", "3f2b6c1e"):
        daemon({**FIRST, "traceId": trace}, SECOND, {"type": "end", "count": 2})
        assert main(["ps", "--json", "--filter", text]) == 0
        assert [command["program"] for command in json.loads(capsys.readouterr().out)] == ["pytest"]
    daemon(FIRST, {"type": "end", "count": 1})
    assert main(["ps", "--filter", trace]) == 0
    assert capsys.readouterr() == ("", "sidecar: nothing fits the filter\n")


def test_into_a_pipe_nothing_is_cut_off(daemon, capsys):
    daemon(SECOND, FIRST, {"type": "end", "count": 2})
    assert main(["ps"]) == 0
    out, err = capsys.readouterr()
    head, first, second = out.splitlines()
    assert head.split() == ["PROGRAM", "PID", "RUNS", "SILENT", "TIMEOUT", "VERDICT", "TOOL", "CALL", "SESSION"]
    assert first.split() == [
        *("pytest", "4711", "3m05s", "12s", "10m00s", "network_wait"),
        *(FIRST["toolCallId"], FIRST["sessionId"]),
    ]
    assert second.split() == ["sh", "12", "0.4s", "0.4s", "-", "-", "-", "-"]
    assert err == ""


@pytest.mark.parametrize("color", [True, False])
def test_a_terminal_of_80_columns(daemon, monkeypatch, color):
    terminal = Terminal()
    monkeypatch.setattr("sys.stdout", terminal)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    if not color:
        monkeypatch.setenv("NO_COLOR", "1")
    daemon(FIRST, SECOND, {"type": "end", "count": 2})
    assert main(["ps"]) == 0
    shown = terminal.getvalue()
    assert ("\x1b[33m" in shown) is color
    if not color:
        assert len(shown.splitlines()) == 3
        assert all(len(line) <= 80 for line in shown.splitlines())
        row = shown.splitlines()[1].split()
        assert row[:5] == ["pytest", "4711", "3m05s", "12s", "10m00s"]


@pytest.mark.parametrize("verdict", ["network_peer_not_reading", "awaiting_input"])
@pytest.mark.parametrize("program", ["sh", "a-program-with-a-long-name"])
@pytest.mark.parametrize(
    "ids", [{}, {"toolCallId": "call_" + "a" * 30}, {"toolCallId": "c" * 12, "sessionId": "s" * 36}]
)
@pytest.mark.parametrize("timeout", [{}, {"timeoutMs": 6_000_000, "repeats": True}])
def test_whatever_there_is_to_show_80_columns_are_enough(program, verdict, ids, timeout):
    command = {**SECOND, "program": program, "pid": 4_194_303, "elapsedMs": 3_725_000, **ids, **timeout}
    row = cells({**command, "verdict": verdict, "sinceMs": 3_725_000}, "01a23641-2a2a")
    widths = column_widths(LAYOUT, [row], 80)
    assert sum(widths.values()) + GAP * (len(widths) - 1) <= 80
    verdict_at, id_at = LAYOUT.names.index("VERDICT"), LAYOUT.names.index("COMMAND ID")
    assert widths[verdict_at] >= min(20, len(row[verdict_at])), "enough to know it by"
    assert widths[id_at] == 13, "cut off, it would be of no use"


def test_what_a_frame_says_is_not_obeyed_by_the_terminal(daemon, capsys):
    daemon({**SECOND, "program": "\x1b[2J[bold]x\n", "toolCallId": "[red]"}, {"type": "end", "count": 1})
    assert main(["ps"]) == 0
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "\\x1b[2J[bold]x\\n" in out
    assert "[red]" in out


@pytest.mark.parametrize(
    ("span_ms", "text"),
    [
        (0, "0.0s"),
        (949, "0.9s"),
        (9_999, "9.9s"),
        (10_000, "10s"),
        (59_999, "59s"),
        (60_000, "1m00s"),
        (3_599_999, "59m59s"),
        (3_600_000, "1h00m"),
        (86_400_000 * 3 + 3_600_000 * 4, "3d04h"),
    ],
)
def test_spans(span_ms, text):
    assert verb.span_text(span_ms) == text
