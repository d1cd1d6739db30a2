"""What is kept of ended commands: the silences of a command, the file, the daemon's writer, the verb's rows."""

import json
import os
import shutil
import sqlite3
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from sidecar.cli import history as verb
from sidecar.core.command import Command
from sidecar.core.errors import UsageError
from sidecar.core.silences import silences_of
from sidecar.daemon.sink import NullSink
from sidecar.history.record import record_of
from sidecar.history.store import History, HistoryUnavailable, default_path
from sidecar.history.writer import RecordingSink

STARTED = {
    "v": 1,
    "type": "command_started",
    "commandId": "0190",
    "seq": 0,
    "program": "make",
    "pid": 7,
    "traceId": "a" * 32,
    "heartbeatIntervalMs": 10_000,
    "startUnixMs": 5,
    "startMonotonicMs": 5,
}


class Told:
    """A command as its frames tell it; times in seconds since its start."""

    def __init__(self, command_id: str = "0190") -> None:
        self.command = Command({**STARTED, "commandId": command_id}, 0)
        self._seq = 0

    def beat(self, at_s: float, age_s: float | None, verdict: str | None = None) -> "Told":
        payload: dict[str, Any] = {"type": "shell_progress", "elapsedMs": int(at_s * 1000)}
        if age_s is not None:
            payload |= {"lastOutputAgeMs": int(age_s * 1000), "totalLines": 1, "totalBytes": 1}
        extra = {} if verdict is None else {"verdict": verdict, "group": "waiting", "evidence": ["a fact"]}
        return self._apply("shell_progress", at_s, shellProgress=payload, **extra)

    def verdict(self, at_s: float, name: str) -> "Told":
        return self._apply("verdict", at_s, elapsedMs=int(at_s * 1000), verdict=name, sinceMs=0)

    def activity(self, at_s: float, age_s: float, **extra: Any) -> "Told":
        counts = {"elapsedMs": int(at_s * 1000), "lastOutputAgeMs": int(age_s * 1000), "totalLines": 1, "totalBytes": 1}
        return self._apply("output_activity", at_s, **counts, **extra)

    def settle(self, at_s: float, age_s: float | None = None, **extra: Any) -> "Told":
        ages = {} if age_s is None else {"lastOutputAgeMs": int(age_s * 1000)}
        counts = {"totalBytes": 0, "totalLines": 0, "heartbeatCount": 0, "longestSilenceMs": 0, "descendantsLeft": 0}
        fields = {"reason": "exited", "elapsedMs": int(at_s * 1000), **counts, **ages, **extra}
        return self._apply("command_settled", at_s, **fields)

    def _apply(self, kind: str, at_s: float, **fields: Any) -> "Told":
        self._seq += 1
        frame = {"v": 1, "type": kind, "commandId": self.command.id, "seq": self._seq, **fields}
        self.command.apply(frame, int(at_s * 1e9))
        return self


class TestSilences:
    def test_one_from_the_start_to_the_end(self) -> None:
        told = Told().beat(10, None).beat(20, None, "sleeping").settle(25)
        assert silences_of(told.command) == [[0, 25_000, [[20_000, "sleeping"]]]]

    def test_output_divides_them(self) -> None:
        told = Told().beat(10, 10, "computing").beat(30, 10.1).beat(40, 20.1, "sleeping").settle(50, age_s=2)
        assert silences_of(told.command) == [
            [0, 10_000, [[10_000, "computing"]]],
            [19_900, 40_000, [[40_000, "sleeping"]]],
        ]

    def test_verdicts_that_change_between_heartbeats_are_of_the_same(self) -> None:
        told = Told().verdict(4, "computing").verdict(6, "sleeping").beat(10, None, "sleeping").settle(11)
        assert silences_of(told.command) == [[0, 11_000, [[4000, "computing"], [6000, "sleeping"]]]]

    def test_one_ends_when_output_comes_again(self) -> None:
        told = Told().activity(6, 3).verdict(6, "sleeping").activity(9.5, 0).activity(9.6, 0)
        told.activity(15.1, 2.5).verdict(15.1, "sleeping").beat(22.6, 10, "sleeping").activity(26.1, 0).settle(30, 0.5)
        assert silences_of(told.command) == [
            [3000, 9500, [[6000, "sleeping"]]],
            [12_600, 26_100, [[15_100, "sleeping"]]],
        ]

    def test_it_is_the_first_output_that_ends_one(self) -> None:
        told = Told().activity(6, 3).verdict(6, "sleeping").activity(9.5, 0)
        told.command.resumed_ms.append(30_000)  # behind a silence whose beats were not kept
        assert silences_of(told.command) == [[3000, 9500, [[6000, "sleeping"]]]]

    def test_output_that_repeats_ends_none(self) -> None:
        told = Told().activity(11, 0.1, repeats=True).verdict(12, "sleeping").activity(21, 0.1, repeats=True)
        told.settle(22, 1)
        assert silences_of(told.command)[-1][1] == 12_000

    def test_a_command_that_always_talked_has_none(self) -> None:
        assert silences_of(Told().settle(3, age_s=0.1).command) == []


def test_a_record_has_what_the_frames_said_and_not_what_was_of_the_moment() -> None:
    record = record_of(Told().beat(10, None, "sleeping").settle(12, exitCode=3).command)
    assert record["program"] == "make"
    assert (record["reason"], record["exitCode"], record["verdict"], record["evidence"]) == (
        "exited",
        3,
        "sleeping",
        ["a fact"],
    )
    assert "sinceMs" not in record
    json.dumps(record)


def test_one_that_was_lost_is_kept_too() -> None:
    told = Told().beat(10, None)
    told.command.lose(int(15e9))
    record = record_of(told.command)
    assert (record["reason"], record["elapsedMs"], record["silences"]) == ("lost", 15_000, [[0, 15_000, []]])


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "state" / "history.db")


def records(*names: str, ended_unix_ms: int = 1) -> list[tuple[int, dict[str, Any]]]:
    return [(ended_unix_ms, {"commandId": name, "program": "make", "elapsedMs": 1}) for name in names]


class TestStore:
    def test_the_latest_come_first_and_the_oldest_go(self, path: str) -> None:
        store = History(path, 3)
        for number in range(5):
            store.add(records(f"id-{number}", ended_unix_ms=100 + number))
        assert [(one["commandId"], one["endUnixMs"]) for one in store.latest(10)] == [
            ("id-4", 104),
            ("id-3", 103),
            ("id-2", 102),
        ]
        assert [one["commandId"] for one in store.latest(1)] == ["id-4"]

    def test_a_command_is_there_once(self, path: str) -> None:
        store = History(path, 10)
        store.add(records("a", "b"))
        store.add(records("a", "c", ended_unix_ms=2))
        assert [(one["commandId"], one["endUnixMs"]) for one in store.latest(10)] == [("c", 2), ("b", 1), ("a", 1)]

    def test_by_the_beginning_of_an_id_and_nothing_is_a_pattern(self, path: str) -> None:
        store = History(path, 10)
        store.add(records("01a0", "01b0", "%1a0"))
        assert [one["commandId"] for one in store.begins_with("01A", 5)] == ["01a0"]
        assert store.ids("01a") == ["01a0", "01b0"]
        assert [one["commandId"] for one in store.begins_with("%", 5)] == ["%1a0"]

    def test_it_is_private(self, path: str) -> None:
        History(path, 10).close()
        assert os.stat(path).st_mode & 0o777 == 0o600
        assert os.stat(os.path.dirname(path)).st_mode & 0o777 == 0o700

    def test_a_link_in_its_place_is_refused(self, path: str, tmp_path: Path) -> None:
        os.makedirs(os.path.dirname(path), 0o700)
        os.symlink(tmp_path / "elsewhere", path)
        with pytest.raises(HistoryUnavailable, match="it is a link, and the history follows no links"):
            History(path, 10)
        assert not (tmp_path / "elsewhere").exists()

    @pytest.mark.parametrize("content", [b"no database at all, but long enough to be one" * 40, b""])
    def test_a_broken_one_is_put_aside(self, path: str, content: bytes) -> None:
        os.makedirs(os.path.dirname(path), 0o700)
        Path(path).write_bytes(content)
        store = History(path, 10)
        store.add(records("a"))
        assert len(store.latest(10)) == 1
        assert os.path.exists(f"{path}.broken") == bool(content)

    def test_one_that_breaks_while_it_is_open_is_put_aside(self, path: str) -> None:
        store = History(path, 1000)
        store.add(records(*(f"{number}-{'x' * 500}" for number in range(200))))
        store.close()
        size_bytes = os.path.getsize(path)
        store = History(path, 1000)
        with open(path, "r+b") as file:
            file.seek(4096)
            file.write(b"\xa5" * (size_bytes - 4096))
        with pytest.raises(HistoryUnavailable, match="the daemon puts it aside when the next command ends"):
            History(path, 1000, read_only=True).latest(1000)
        store.add(records("a"))
        assert [one["commandId"] for one in store.latest(10)] == ["a"]
        assert os.path.getsize(f"{path}.broken") == size_bytes

    def test_one_that_was_taken_away_is_begun_anew(self, path: str) -> None:
        store = History(path, 10)
        store.add(records("a"))
        shutil.rmtree(os.path.dirname(path))
        store.add(records("b"))
        assert [one["commandId"] for one in History(path, 10, read_only=True).latest(10)] == ["b"]

    def test_what_is_no_text_is_kept_too(self, path: str) -> None:
        store = History(path, 10)
        store.add([(1, {"commandId": "a", "program": "\udcff"})])
        assert store.latest(1)[0]["program"] == "\udcff"

    def test_one_of_another_version_is_put_aside(self, path: str) -> None:
        History(path, 10).close()
        with sqlite3.connect(path) as connection:
            connection.execute("PRAGMA user_version = 99")
        connection.close()
        assert History(path, 10).latest(1) == []
        assert os.path.exists(f"{path}.broken")

    def test_who_only_looks_makes_nothing(self, path: str) -> None:
        with pytest.raises(HistoryUnavailable, match="no history yet"):
            History(path, 10, read_only=True)
        assert not os.path.exists(os.path.dirname(path))

    def test_two_write_at_once(self, path: str) -> None:
        def write(name: str) -> None:
            store = History(path, 1000)
            for number in range(50):
                store.add(records(f"{name}-{number}", ended_unix_ms=number))
            store.close()

        threads = [threading.Thread(target=write, args=(name,)) for name in "ab"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(History(path, 1000, read_only=True).latest(1000)) == 100

    def test_many_open_a_new_one_at_once(self, tmp_path: Path) -> None:
        for number in range(10):
            path = str(tmp_path / f"state-{number}" / "history.db")
            begin = threading.Barrier(4)
            failed: list[Exception] = []

            def open_it(path: str = path, begin: threading.Barrier = begin, failed: list[Exception] = failed) -> None:
                begin.wait()
                try:
                    History(path, 10).close()
                except HistoryUnavailable as error:
                    failed.append(error)

            threads = [threading.Thread(target=open_it) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert failed == []

    def test_where_it_is(self) -> None:
        assert default_path({"XDG_STATE_HOME": "/state"}) == "/state/sidecar/history.db"
        assert default_path({}) is None


class Inner(NullSink):
    def __init__(self) -> None:
        super().__init__()
        self.settled: list[str] = []

    def command_settled(self, command: Command) -> None:
        self.settled.append(command.id)

    def status(self) -> dict[str, Any]:
        return {"inner": True}


class TestWriter:
    def test_what_has_ended_is_kept_and_the_telemetry_is_told(self, path: str) -> None:
        inner = Inner()
        sink = RecordingSink(inner, lambda: History(path, 10), lambda: 77)
        for name in ("a", "b"):
            sink.command_settled(Told(name).settle(1).command)
        sink.shutdown(60)
        assert inner.settled == ["a", "b"]
        kept = History(path, 10, read_only=True).latest(10)
        assert [(one["commandId"], one["endUnixMs"]) for one in kept] == [("b", 77), ("a", 77)]
        assert sink.status() == {"inner": True}

    def test_a_replayed_end_is_not_of_now(self, path: str) -> None:
        sink = RecordingSink(Inner(), lambda: History(path, 10))
        sink.command_settled(Told("a").settle(1, replay=True).command)
        sink.shutdown(60)
        assert not os.path.exists(path)

    def test_without_a_place_the_telemetry_goes_on_and_the_status_says_so(self) -> None:
        def refuse() -> History:
            raise HistoryUnavailable("no room")

        inner = Inner()
        sink = RecordingSink(inner, refuse)
        sink.command_settled(Told("a").settle(1).command)
        sink.shutdown(60)
        assert inner.settled == ["a"]
        assert sink.status() == {"inner": True, "history": {"problem": "no room", "dropped": 1}}

    def test_one_that_was_over_before_we_were_there_did_not_end_now(self, path: str) -> None:
        sink = RecordingSink(Inner(), lambda: History(path, 10), lambda: 77_000_000)
        told = Told("a").settle(3)
        told.command.told_late = True
        sink.command_settled(told.command)
        sink.shutdown(5)
        assert History(path, 10, read_only=True).latest(1)[0]["endUnixMs"] == STARTED["startUnixMs"] + 3000  # type: ignore[operator]

    def test_a_save_is_of_the_history_too(self, path: str) -> None:
        begun, go_on = threading.Event(), threading.Event()

        class Slow(History):
            def add(self, ended: Iterable[tuple[int, dict[str, Any]]]) -> None:
                begun.set()
                go_on.wait(20)
                super().add(ended)

        sink = RecordingSink(Inner(), lambda: Slow(path, 10))
        assert sink.save(), "with nothing to write it waits for nothing"
        sink.command_settled(Told("a").settle(1).command)
        saving = threading.Thread(target=sink.save)
        saving.start()
        assert begun.wait(20)
        assert saving.is_alive()
        go_on.set()
        saving.join(20)
        assert [one["commandId"] for one in History(path, 10, read_only=True).latest(10)] == ["a"]
        sink.shutdown(5)

    def test_a_fault_of_ours_costs_one_batch(self, path: str) -> None:
        class Faulty(History):
            def add(self, ended: Iterable[tuple[int, dict[str, Any]]]) -> None:
                raise KeyError("a fault")

        stores = iter([Faulty, History])
        sink = RecordingSink(Inner(), lambda: next(stores)(path, 10))
        sink._try_again_s = 0
        for name in ("a", "b"):
            sink.command_settled(Told(name).settle(1).command)
            sink.save()
        sink.shutdown(5)
        assert [one["commandId"] for one in History(path, 10, read_only=True).latest(10)] == ["b"]
        assert sink.status() == {"inner": True, "history": {"problem": None, "dropped": 1}}


ROW = {
    "commandId": "01a23744-2529-7000",
    "program": "make",
    "elapsedMs": 60_000,
    "longestSilenceMs": 30_000,
    "reason": "exited",
    "exitCode": 0,
    "endUnixMs": 1_000,
    "verdict": "sleeping",
    "group": "waiting",
    "silences": [[0, 30_000, [[4000, "computing"], [9000, "sleeping"]]]],
}


class TestVerb:
    @pytest.mark.parametrize(
        ("record", "said"),
        [
            ({"reason": "exited", "exitCode": 3}, "exit 3"),
            ({"reason": "signaled", "signal": "SIGKILL"}, "SIGKILL"),
            ({"reason": "spawn_failed", "error": "ENOENT"}, "ENOENT"),
            ({"reason": "silence_timeout", "exitCode": 124}, "silence_timeout"),
        ],
    )
    def test_how_it_ended(self, record: dict[str, Any], said: str) -> None:
        assert verb.ending(record) == said

    def test_a_row(self) -> None:
        assert verb.cells(ROW, "01a23744", 66_000)[:7] == (
            "1m05s ago",
            "make",
            "1m00s",
            "30s",
            "exit 0",
            "sleeping",
            "01a23744",
        )

    @pytest.mark.parametrize(
        ("conditions", "fits"),
        [
            (("make", None, None, None), True),
            (("cc", None, None, None), False),
            ((None, "s", None, None), False),
            ((None, None, "waiting", None), True),
            ((None, None, "computing", None), True),
            ((None, None, "awaiting_input", None), False),
            ((None, None, None, "30s"), True),
            ((None, None, None, "31s"), False),
            ((None, None, None, None, "MAK"), True),
            ((None, None, None, None, "nobody"), False),
        ],
    )
    def test_conditions(self, conditions: tuple[str | None, ...], fits: bool) -> None:
        assert all(condition(ROW) for condition in verb._conditions(*conditions)) is fits

    @pytest.mark.parametrize(
        ("kept", "said"),
        [
            (
                {"problem": "no room", "dropped": 1},
                "the daemon keeps no history: no room; 1 that ended since its start is",
            ),
            ({"problem": None, "dropped": 3}, "of the commands 3 that ended since its start are missing here"),
            (None, None),
        ],
    )
    def test_what_the_daemon_could_not_keep_is_told(
        self, kept: object, said: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("SIDECAR_SOCKET", str(tmp_path / "s.sock"))
        telemetry = {} if kept is None else {"history": kept}
        monkeypatch.setattr(verb, "status", lambda _path, timeout_s: {"telemetry": telemetry})
        told = verb._missing(None)
        assert told is None if said is None else (told or "").startswith(said)

    def test_a_condition_that_is_none(self) -> None:
        with pytest.raises(UsageError, match="is no verdict"):
            verb._conditions(None, None, "bogus", None)
        with pytest.raises(UsageError, match="--silent-for"):
            verb._conditions(None, None, None, "soon")
