"""`sidecar explain` and the words of `sidecar why`: what is printed, what programs get, what is refused."""

import json
import os
from pathlib import Path

import pytest

from sidecar.cli import which, wrapping
from sidecar.cli.main import main
from sidecar.cli.ps import cells
from sidecar.cli.why import settled_verdict
from sidecar.core.finding import MEASURED, Verdict
from sidecar.history.store import History, default_path

FIRST = {
    "type": "command",
    "commandId": "01a23641-2a2a-7000-8000-000000000001",
    "program": "sh",
    "pid": 4711,
    "elapsedMs": 170_000,
    "hasOutput": True,
    "lastOutputAgeMs": 165_000,
    "verdict": "network_wait",
    "group": "waiting",
    "confidence": "measured",
    "sinceMs": 163_000,
    "alive": True,
    "progress": False,
    "leaf": {"pid": 4712, "program": "psql"},
    "evidence": ["recv from 10.0.0.7:5432, last data 163 s ago", "CPU 0.0 % of a core"],
    "unseen": ["mem: be root"],
}
SECOND = {
    "type": "command",
    "commandId": "01a23641-2a2b-7000-8000-000000000002",
    "program": "make",
    "pid": 12,
    "elapsedMs": 400,
    "hasOutput": False,
}


TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


def daemon_knows(monkeypatch: pytest.MonkeyPatch, *commands: dict[str, object]) -> None:
    answers = [*commands, {"type": "end", "count": len(commands)}]
    monkeypatch.setattr(which, "request", lambda _path, _name, **_options: iter(answers))


def history_has(*records: dict[str, object]) -> None:
    path = default_path(os.environ)
    assert path is not None
    store = History(path, 100)
    store.add((number, {"elapsedMs": 1, "reason": "exited", **record}) for number, record in enumerate(records))
    store.close()


@pytest.fixture(autouse=True)
def _daemon(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    daemon_knows(monkeypatch, FIRST, SECOND)
    monkeypatch.setattr(which.time, "sleep", lambda _seconds: None)


def test_two_sentences_the_facts_the_next_step_and_what_was_not_seen(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "01A23641-2a2a"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "sh (pid 4711) has run for 2m50s; its last output was 2m45s ago.",
        "psql (pid 4712) waits for an answer from another host or service. That is what a healthy program does, too; "
        "it goes on when what it waits for comes.",
        "",
        "verdict     network_wait (waiting)",
        "how sure    measured",
        "for         2m43s",
        "progress    nothing in its processes has moved since the look before",
        "evidence    recv from 10.0.0.7:5432, last data 163 s ago",
        "            CPU 0.0 % of a core",
        "next        Look at the server, its log, its load, its locks: only there can a slow answer be told from one "
        "that never comes. `ss -tnpi | grep -A1 pid=4712,` shows the connection.",
        "            If nobody needs it: `sidecar cancel 01a23641-2a2a-7000-8000-000000000001`.",
        "not seen    mem: be root",
    ]


def test_programs_get_the_record_and_the_words(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "01a23641-2a2a", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record.items() >= FIRST.items()
    assert len(record["meaning"]) == 2
    assert record["next"].startswith("Look at the server, ")


def test_one_that_is_not_silent_has_no_verdict(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "01a23641-2a2b"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first == "make (pid 12) has run for 0.4s; no output was seen for 0.4s."
    assert "no verdict" in second


LATE = {
    **FIRST,
    "commandId": "02a23641-2a2a-7000-8000-000000000003",
    "supervisorPid": 4710,
    "heartbeatIntervalMs": 10_000,
    "heartbeatDelayMs": 60_000,
    "io": "pipe",
}


def test_a_supervisor_that_says_nothing_any_more(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    daemon_knows(monkeypatch, LATE)
    assert main(["explain", "02a2"]) == 0
    out = capsys.readouterr().out
    assert (
        "Its supervisor (pid 4710) says nothing any more: it was heard 1m10s ago, and its heartbeat is 1m00s late"
        in out
    )
    assert "its output gets nowhere" in out
    assert [line for line in out.splitlines() if line.startswith("next ")] == [
        "next        `sidecar why 4710` says what holds it: a debugger, a frozen control group, a disk that does not "
        "answer. If it is stopped, `kill -CONT 4710` continues it."
    ], "what was to be done then is no advice now"
    assert "for         1m33s" in out, "of then"
    assert main(["explain", "02a2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["next"].startswith("`sidecar why 4710`")
    assert cells(LATE)[5] == "heartbeat 1m00s late"


@pytest.mark.parametrize(
    ("prefix", "complaint"),
    [
        ("01a23641", "beginning of 2 commands"),
        ("ffff", "no command ffff runs or has ended lately"),
        ("0", "at least 4 characters"),
    ],
)
def test_what_is_refused(prefix: str, complaint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", prefix]) == 125
    assert complaint in capsys.readouterr().err


@pytest.mark.parametrize("wanted", ["0abc-01", TRACE])
def test_one_that_has_ended_just_now_is_written_down_a_moment_later(
    wanted: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    written = {"commandId": "0abc-01", "program": "make", "traceId": TRACE}
    monkeypatch.setattr(which.time, "sleep", lambda _seconds: history_has(written))
    assert main(["explain", wanted]) == 0
    assert "make ran for 0.0s and has ended" in capsys.readouterr().out


def test_how_many_have_ended_whose_id_begins_so(
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = default_path(os.environ)
    assert path is not None
    store = History(path, 100)
    store.add((5, {"commandId": f"0abc-{number:02}", "program": "make", "elapsedMs": 1}) for number in range(23))
    store.close()
    assert main(["explain", "0ABC-"]) == 125
    complaint = capsys.readouterr().err
    assert "0abc- is the beginning of 23 commands: 0abc-22 (make, ended), " in complaint
    assert "0abc-18 (make, ended) and 18 more; give more of the id" in complaint
    assert main(["explain", "0abc-07"]) == 0
    assert "make ran for 0.0s and has ended" in capsys.readouterr().out


def test_one_that_runs_is_not_taken_for_one_that_has_ended(capsys: pytest.CaptureFixture[str]) -> None:
    path = default_path(os.environ)
    assert path is not None
    store = History(path, 100)
    other = f"{str(FIRST['commandId'])[:13]}-7fff-8000-000000000009"
    store.add([(5, {"commandId": other, "program": "true", "elapsedMs": 1})])
    store.add([(6, {"commandId": FIRST["commandId"], "program": "sh", "elapsedMs": 1})])  # it ends just now
    store.close()
    assert main(["explain", "01A23641-2a2a"]) == 125
    complaint = capsys.readouterr().err
    assert complaint.count("\n") == 1
    assert f"the beginning of 2 commands: {FIRST['commandId']} (sh), {other} (true, ended); give more" in complaint
    assert main(["explain", other]) == 0
    assert "true ran for" in capsys.readouterr().out
    assert main(["explain", "01a23641-2a2a-70"]) == 0
    assert "sh (pid 4711) has run for" in capsys.readouterr().out


def test_a_history_that_cannot_be_read_hides_nothing_that_runs(capsys: pytest.CaptureFixture[str]) -> None:
    path = default_path(os.environ)
    assert path is not None
    History(path, 100).close()
    with open(path, "wb") as file:
        file.write(b"no database at all " * 400)
    assert main(["explain", "01a23641-2a2a"]) == 0
    assert main(["explain", "ffffffff"]) == 125
    assert "cannot read" in capsys.readouterr().err


def test_an_id_that_a_view_has_cut_short(capsys: pytest.CaptureFixture[str]) -> None:
    for cut in ("01a23641-2a2a~", "01a23641-2a2a..."):
        assert main(["explain", cut]) == 0
        assert "sh (pid 4711) has run for" in capsys.readouterr().out


class TestTrace:
    """A trace's id, which is what an alert has, in the place of a command's."""

    ENDED = ({"commandId": "0abc-1", "program": "true", "traceId": TRACE},)

    def test_its_one_command_is_meant(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        daemon_knows(monkeypatch, {**FIRST, "traceId": TRACE}, {**SECOND, "traceId": "a" * 32})
        history_has({"commandId": "0abc-2", "program": "make", "traceId": "b" * 32, "toolName": TRACE})
        assert main(["explain", TRACE.upper()]) == 0
        out, err = capsys.readouterr()
        assert out.startswith("sh (pid 4711) has run for")
        assert err == ""

    def test_so_it_is_when_it_has_ended(self, capsys: pytest.CaptureFixture[str]) -> None:
        history_has(*self.ENDED)
        assert main(["explain", TRACE]) == 0
        assert capsys.readouterr().out.startswith("true ran for 0.0s and has ended")

    def test_the_one_that_runs_is_explained_and_the_others_are_not_hidden(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        daemon_knows(monkeypatch, {**FIRST, "traceId": TRACE})
        history_has(*self.ENDED)
        assert main(["explain", TRACE]) == 0
        out, err = capsys.readouterr()
        assert out.startswith("sh (pid 4711) has run for")
        assert err.endswith(f"the one that runs; 1 has ended: `sidecar history --filter {TRACE}`\n")
        assert main(["cancel", TRACE]) == 125, "that is for who looks, not for who stops"
        assert f"has 2 commands, 1 runs: {FIRST['commandId']} (sh); give the id of one" in capsys.readouterr().err

    def test_several_that_run_are_listed(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        daemon_knows(monkeypatch, {**FIRST, "traceId": TRACE}, {**SECOND, "traceId": TRACE})
        assert main(["explain", TRACE]) == 125
        out, err = capsys.readouterr()
        assert [line.split()[-1] for line in out.splitlines()[1:]] == ["01a23641-2a2a", "01a23641-2a2b"]
        assert err == "sidecar: 2 commands of this trace run; give the id of one\n"
        for verb in (["cancel"], ["explain", "--json"]):
            assert main([*verb, TRACE]) == 125
            out, err = capsys.readouterr()
            assert out == ""
            assert err == (
                f"sidecar: trace {TRACE} has 2 commands, 2 run: {FIRST['commandId']} (sh), {SECOND['commandId']} "
                "(make); give the id of one\n"
            )

    def test_several_that_have_ended_are_listed_too(self, capsys: pytest.CaptureFixture[str]) -> None:
        history_has(*({"commandId": f"0abc-{number}", "program": "make", "traceId": TRACE} for number in range(30)))
        assert main(["explain", TRACE]) == 125
        out, err = capsys.readouterr()
        assert len(out.splitlines()) == 21
        assert out.splitlines()[1].split()[-1] == "0abc-29"
        assert "30 commands of this trace have ended, of which these are the latest 20; give the id" in err
        assert main(["explain", "--json", TRACE]) == 125
        assert "has 30 commands, all have ended: 0abc-29 (make, ended), " in capsys.readouterr().err
        assert main(["cancel", TRACE]) == 125
        said = f"nothing of trace {TRACE} runs; its 30 commands have ended: `sidecar history --filter {TRACE}`\n"
        assert said in capsys.readouterr().err

    def test_a_trace_of_nobody(self, capsys: pytest.CaptureFixture[str]) -> None:
        for verb in ("explain", "cancel"):
            assert main([verb, TRACE]) == 125
            assert f"no command of trace {TRACE} runs or has ended lately" in capsys.readouterr().err


def test_on_a_terminal_no_word_is_broken(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", "01a23641-2a2a"]) == 0
    whole = capsys.readouterr().out
    monkeypatch.setattr(wrapping, "terminal_columns", lambda: 72)
    assert main(["explain", "01a23641-2a2a"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 72
    assert " ".join(" ".join(lines).split()) == " ".join(whole.split())
    assert "            `sidecar cancel 01a23641-2a2a-7000-8000-000000000001`." in lines
    assert [line for line in lines if line.startswith(" ") and not line.startswith(" " * 12)] == []


def test_a_verdict_counts_when_it_was_found_twice() -> None:
    found = iter([Verdict(name, MEASURED) for name in ("sleeping", "computing", "computing")])
    assert settled_verdict(lambda: next(found), lambda: 0) == (Verdict("computing", MEASURED), True)
    found = iter([Verdict(name, MEASURED) for name in ("sleeping", "computing", "sleeping")])
    assert settled_verdict(lambda: next(found), lambda: 0) == (Verdict("sleeping", MEASURED), False)
    found = iter([Verdict("awaiting_input", MEASURED)])
    assert settled_verdict(lambda: next(found), lambda: 0)[1], "a prompt at once"


def test_why_needs_a_process(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["why", "999999999"]) == 125
    assert "there is no process 999999999" in capsys.readouterr().err
    assert main(["why", "0"]) == 125


ENDED = {
    "commandId": "0abd-1",
    "program": "make",
    "pid": 7,
    "elapsedMs": 1000,
    "reason": "cancelled",
    "signal": "SIGTERM",
    "stop": {"askedBy": "cancel", "evidence": "sidecar cancel, pid 8"},
    "verdict": "stopped",
    "hint": "Continue it: `kill -CONT 7`.",
}


def test_of_one_that_has_ended_it_says_what_to_do_now_and_not_what_was_to_be_done_then(
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = default_path(os.environ)
    assert path is not None
    store = History(path, 100)
    store.add([(5, ENDED)])
    store.close()
    assert main(["explain", "0abd"]) == 0
    out = capsys.readouterr().out
    assert [line for line in out.splitlines() if line.startswith("next ")] == [
        "next        Ask whoever stopped it, if that was not meant."
    ]
    assert "kill -CONT" not in out
    assert main(["explain", "0abd", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["next"] == "Ask whoever stopped it, if that was not meant."
