"""The spool: what is kept, in which order, within which bounds, and what a bad disk or file does to it."""

import os
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.core.errors import SpoolUnavailable
from sidecar.telemetry import spool as spool_module
from sidecar.telemetry.spool import Spool, SpoolLimits
from sidecar.telemetry.spool_clock import Moment
from sidecar.telemetry.spool_file import Request, SpoolFile
from sidecar.telemetry.spool_place import default_path

ROOT = Path(__file__).parents[2]
S_NS = 1_000_000_000
HERE = "http://c:4318/v1/traces"


class Rig:
    """A spool, with clocks that are set by hand."""

    def __init__(self, path: Path | None, **limits: int) -> None:
        self.said: list[str] = []
        self.moment = Moment("boot", 0, 1000 * S_NS)
        self.monotonic_s = 0.0
        self.spool = Spool(
            SpoolLimits(None if path is None else str(path), **limits),
            self.said.append,
            now=lambda: self.moment,
            monotonic_s=lambda: self.monotonic_s,
        )

    def add(self, *bodies: bytes, signal: str = "traces", to: str = HERE) -> None:
        for body in bodies:
            self.spool.add(signal, to, body, 1)

    def requests(self, signal: str = "traces", to: str = HERE) -> list[Request]:
        return self.spool.oldest(signal, to, 1 << 30)

    def bodies(self, signal: str = "traces", to: str = HERE) -> list[bytes]:
        return [request.body for request in self.requests(signal, to)]

    def later(self, seconds: float) -> None:
        self.monotonic_s += seconds


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "spool.db"


def test_what_is_added_comes_out_in_order_until_it_is_removed(path: Path) -> None:
    rig = Rig(path)
    rig.add(b"1", b"2", b"3")
    rig.add(b"log", signal="logs")
    rig.add(b"elsewhere", to="http://other:1/v1/traces")
    assert rig.bodies() == [b"1", b"2", b"3"]
    assert rig.bodies() == [b"1", b"2", b"3"]
    first, second, _ = rig.requests()
    rig.spool.remove([first, second])
    assert rig.bodies() == [b"3"]
    assert rig.bodies("logs") == [b"log"]
    assert [(t.signal, t.requests, t.records, t.bytes) for t in rig.spool.totals()] == [
        ("logs", 1, 1, 3),
        ("traces", 1, 1, 1),
        ("traces", 1, 1, 9),
    ]
    assert rig.said == []


def test_a_closed_spool_is_there_for_the_next(path: Path) -> None:
    rig = Rig(path)
    rig.add(b"1", b"2")
    rig.spool.close()
    after = Rig(path)
    assert after.bodies() == []
    after.spool.adopt("traces", HERE)
    assert after.bodies() == [b"1", b"2"]


def test_who_lives_is_not_robbed(path: Path) -> None:
    living, other = Rig(path), Rig(path)
    living.add(b"mine")
    other.spool.adopt("traces", HERE)
    assert other.bodies() == []
    assert living.bodies() == [b"mine"]


def test_what_was_meant_for_another_collector_goes_there_only_when_told(path: Path) -> None:
    rig = Rig(path)
    rig.add(b"1", to="http://old:1")
    rig.spool.close()
    after = Rig(path)
    after.spool.adopt("traces", HERE)
    assert after.bodies() == []
    after.spool.adopt("traces", HERE, from_anywhere=True)
    assert after.bodies() == [b"1"]
    assert [(total.destination, total.requests) for total in after.spool.totals()] == [(HERE, 1)]


def test_a_request_is_given_in_portions_and_never_less_than_one(path: Path) -> None:
    rig = Rig(path)
    rig.add(b"a" * 100, b"b" * 100, b"c" * 100)
    assert [request.body[:1] for request in rig.spool.oldest("traces", HERE, 250)] == [b"a", b"b"]
    assert [request.body[:1] for request in rig.spool.oldest("traces", HERE, 1)] == [b"a"]


def test_the_oldest_makes_room_and_is_counted(path: Path) -> None:
    rig = Rig(path, max_bytes=1000)
    rig.add(*(bytes([number]) * 300 for number in range(5)))
    assert [body[0] for body in rig.bodies()] == [2, 3, 4]
    assert rig.spool.dropped() == {"traces": 2}
    # What could never fit does not push everything else out.
    rig.add(b"x" * 2000)
    assert [body[0] for body in rig.bodies()] == [2, 3, 4]


@given(
    steps=st.lists(
        st.one_of(
            st.tuples(st.just("add"), st.sampled_from(["traces", "logs"]), st.integers(1, 40)),
            st.tuples(st.just("remove"), st.sampled_from(["traces", "logs"]), st.integers(1, 3)),
            st.tuples(st.just("restart"), st.just(""), st.just(0)),
        ),
        max_size=25,
    )
)
@settings(max_examples=40, deadline=None)
def test_any_sequence_keeps_order_bounds_and_totals(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, str, int]]
) -> None:
    path = tmp_path_factory.mktemp("spool") / "state" / "spool.db"
    rig = Rig(path, max_bytes=100)
    model: list[tuple[str, bytes]] = []
    dropped = 0
    for number, (step, signal, amount) in enumerate(steps):
        if step == "add":
            body = bytes([number]) * amount
            rig.add(body, signal=signal)
            model.append((signal, body))
            while sum(len(b) for _, b in model) > 100:
                model.pop(0)
                dropped += 1
        elif step == "remove":
            taken = rig.requests(signal)[:amount]
            rig.spool.remove(taken)
            for request in taken:
                model.remove((signal, request.body))
        else:
            dropped -= sum(rig.spool.dropped().values())
            rig.spool.close()
            rig = Rig(path, max_bytes=100)
            for each in ("traces", "logs"):
                rig.spool.adopt(each, HERE)
        for each in ("traces", "logs"):
            assert rig.bodies(each) == [body for s, body in model if s == each]
        assert sum(total.bytes for total in rig.spool.totals()) == sum(len(body) for _, body in model)
        assert sum(rig.spool.dropped().values()) == dropped
    assert rig.said == []
    rig.spool.close()


# --- age -----------------------------------------------------------------------------------------------------


def _expire(rig: Rig) -> None:
    rig.later(61)
    rig.spool.adopt("traces", HERE)


def test_what_is_too_old_is_dropped_and_counted(path: Path) -> None:
    rig = Rig(path, max_age_ns=3600 * S_NS)
    rig.add(b"old")
    rig.moment = Moment("boot", 3000 * S_NS, 4000 * S_NS)
    rig.add(b"new")
    rig.moment = Moment("boot", 3601 * S_NS, 4601 * S_NS)
    _expire(rig)
    assert rig.bodies() == [b"new"]
    assert rig.spool.dropped() == {"traces": 1}


@pytest.mark.parametrize("step_s", [-86_400 * 365, 86_400 * 365])
def test_a_clock_that_is_set_makes_nothing_older(path: Path, step_s: int) -> None:
    rig = Rig(path, max_age_ns=3600 * S_NS)
    rig.add(b"1")
    rig.moment = Moment("boot", 10 * S_NS, (1010 + step_s) * S_NS)
    _expire(rig)
    assert rig.bodies() == [b"1"]
    rig.moment = Moment("boot", 3700 * S_NS, (4700 + step_s) * S_NS)
    _expire(rig)
    assert rig.bodies() == []


def test_after_a_boot_the_wall_clock_tells_and_the_future_begins_now(path: Path) -> None:
    rig = Rig(path, max_age_ns=3600 * S_NS)
    rig.moment = Moment("boot", 0, 9_000_000 * S_NS)
    rig.add(b"from the future")
    rig.moment = Moment("boot", 1, 500 * S_NS)
    rig.add(b"old")
    rig.moment = Moment("next", 5 * S_NS, 5000 * S_NS)
    _expire(rig)
    assert rig.bodies() == [b"from the future"]
    rig.moment = Moment("next", 3700 * S_NS, 8700 * S_NS)
    _expire(rig)
    assert rig.bodies() == []


# --- a bad disk, a bad file ------------------------------------------------------------------------------------


def test_without_a_file_it_is_kept_in_memory_within_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool_module, "MAX_MEMORY_BYTES", 10)
    rig = Rig(None)
    rig.add(b"12345", b"67890", b"x")
    assert rig.bodies() == [b"67890", b"x"]
    assert rig.spool.dropped() == {"traces": 1}
    rig.spool.remove(rig.requests())
    assert rig.bodies() == []
    assert rig.said == []


def test_a_damaged_file_is_moved_aside_once_and_a_new_one_begun(path: Path) -> None:
    rig = Rig(path)
    rig.add(b"lost")
    rig.spool.close()
    path.write_bytes(b"this is no database" * 500)
    after = Rig(path)
    after.add(b"1", b"2")
    assert after.bodies() == [b"1", b"2"]
    assert len(after.said) == 1
    assert "damaged" in after.said[0]
    assert (path.parent / "spool.db.damaged").read_bytes().startswith(b"this is no")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_damage_while_it_is_open(path: Path) -> None:
    rig = Rig(path)
    rig.add(*(os.urandom(5000) for _ in range(50)))
    rig.spool.close()
    # A page of the table is gone, the head of the file is as it was.
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\0" * 4096 * 20)
    after = Rig(path)
    after.spool.adopt("traces", HERE)
    after.add(b"1")
    assert b"1" in after.bodies()
    assert [said for said in after.said if "damaged" in said]


def test_two_that_find_it_damaged_begin_one_new_file(path: Path) -> None:
    path.parent.mkdir(mode=0o700)
    path.write_bytes(b"no database" * 999)
    rigs = [Rig(path), Rig(path)]
    for number, rig in enumerate(rigs):
        rig.add(b"%d" % number)
    assert [rig.bodies() for rig in rigs] == [[b"0"], [b"1"]]
    assert len(rigs[0].said + rigs[1].said) == 1
    assert sum(total.requests for total in rigs[0].spool.totals()) == 2


def test_a_file_that_was_removed_is_made_anew(path: Path) -> None:
    rig = Rig(path)
    rig.add(b"1")
    path.unlink()
    rig.add(b"2")
    assert rig.bodies() == [b"2"]


def test_a_locked_file_costs_a_moment_and_is_used_again_later(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waits = []
    add = SpoolFile.add
    monkeypatch.setattr(SpoolFile, "add", lambda *given: waits.append(given) or add(*given))
    rig = Rig(path)
    rig.add(b"1")
    with sqlite3.connect(path, isolation_level=None) as other:
        other.execute("BEGIN EXCLUSIVE")
        waits.clear()
        rig.add(b"2", b"3", b"4")
        assert len(waits) == 1, "one for all of them"
        assert len(rig.said) == 1
        assert "locked" in rig.said[0]
        other.execute("COMMIT")
    other.close()
    rig.later(3)
    rig.spool.adopt("traces", HERE)
    assert rig.bodies() == [b"1", b"2", b"3", b"4"]
    assert sum(total.requests for total in rig.spool.totals()) == 4
    rig.spool.close()
    after = Rig(path)
    after.spool.adopt("traces", HERE)
    assert len(after.bodies()) == 4


def test_what_was_taken_while_the_file_was_locked_is_not_sent_again(path: Path) -> None:
    rig = Rig(path)
    rig.add(b"1", b"2")
    first = rig.requests()[:1]
    with sqlite3.connect(path, isolation_level=None) as other:
        other.execute("BEGIN EXCLUSIVE")
        rig.spool.remove(first)
        other.execute("COMMIT")
    other.close()
    rig.later(3)
    assert rig.bodies() == [b"2"]
    rig.spool.remove([])
    rig.spool.close()
    after = Rig(path)
    after.spool.adopt("traces", HERE)
    assert after.bodies() == [b"2"]


def test_a_file_of_a_newer_version_is_left_alone(path: Path) -> None:
    rig = Rig(path)
    rig.add(b"1")
    rig.spool.close()
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA user_version = 99")
    database.close()
    before = path.read_bytes()
    after = Rig(path)
    after.add(b"2")
    assert after.bodies() == [b"2"]
    assert "newer" in after.said[0]
    assert path.read_bytes() == before


# --- whose it is -----------------------------------------------------------------------------------------------


def test_it_is_private(path: Path) -> None:
    before = os.umask(0)
    try:
        rig = Rig(path)
        rig.add(b"1")
        names = {entry.name: stat.S_IMODE(entry.stat().st_mode) for entry in path.parent.iterdir()}
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert {"spool.db", "spool.db-wal"} <= set(names)
    assert set(names.values()) == {0o600}


def _link_to_file(path: Path) -> None:
    path.parent.mkdir(mode=0o700)
    path.symlink_to(path.parent.parent / "victim")


def _link_to_folder(path: Path) -> None:
    (path.parent.parent / "elsewhere").mkdir(mode=0o700)
    path.parent.symlink_to(path.parent.parent / "elsewhere")


def _second_name(path: Path) -> None:
    path.parent.mkdir(mode=0o700)
    (path.parent.parent / "victim").touch()
    path.hardlink_to(path.parent.parent / "victim")


def _open_folder(path: Path) -> None:
    path.parent.mkdir()
    path.parent.chmod(0o755)


def _fifo(path: Path) -> None:
    path.parent.mkdir(mode=0o700)
    os.mkfifo(path)


@pytest.mark.parametrize("prepare", [_link_to_file, _link_to_folder, _second_name, _open_folder, _fifo])
def test_a_place_that_is_not_to_be_trusted_is_not_used(path: Path, prepare: Callable[[Path], None]) -> None:
    prepare(path)
    rig = Rig(path)
    rig.add(b"1")
    assert rig.bodies() == [b"1"]
    assert len(rig.said) == 1
    victim = path.parent.parent / "victim"
    assert not victim.exists() or victim.stat().st_size == 0
    with pytest.raises(SpoolUnavailable):
        SpoolFile(str(path))


def test_default_path_follows_xdg() -> None:
    assert default_path({"XDG_STATE_HOME": "/s", "HOME": "/h"}) == "/s/sidecar/spool.db"
    assert default_path({"XDG_STATE_HOME": "s", "HOME": "/h/"}) == "/h/.local/state/sidecar/spool.db"
    assert default_path({}) is None


# --- processes -------------------------------------------------------------------------------------------------

ADDER = """
import sys, time
from sidecar.telemetry.spool import Spool, SpoolLimits

spool = Spool(SpoolLimits(sys.argv[1]), lambda said: print(said, file=sys.stderr))
for number in range(int(sys.argv[3])):
    spool.add("traces", "here", b"%s-%d" % (sys.argv[2].encode(), number), 1)
# Where the others had the file locked for longer than a try waits, it is in memory until the next one.
while not spool.is_safe:
    spool.save()
print("added", flush=True)
sys.stdin.read()
"""


def _adder(path: Path, name: str, count: int) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", ADDER, str(path), name, str(count)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_killed_process_leaves_what_it_added_and_is_inherited_from_once(path: Path) -> None:
    adders = [_adder(path, name, 30) for name in ("a", "b")]
    try:
        for adder in adders:
            assert adder.stdout is not None
            assert adder.stdout.readline() == "added\n"
        adders[0].kill()
        adders[0].wait()
        heirs = [Rig(path), Rig(path)]
        threads = [threading.Thread(target=heir.spool.adopt, args=("traces", "here")) for heir in heirs]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        def heired() -> list[bytes]:
            return [body for heir in heirs for body in heir.bodies(to="here")]

        while not (inherited := heired()):  # both may have found the file locked for longer than a try waits
            for heir in heirs:
                heir.spool.save()
                heir.spool.adopt("traces", "here")
        assert sorted(inherited) == sorted(b"a-%d" % number for number in range(30))
        # b lives, and keeps its own.
        adders[1].kill()
        adders[1].wait()
        # It is tried again and again: a try may find the file locked for longer than it waits.
        while not (of_b := [body for body in heirs[0].bodies(to="here") if body.startswith(b"b-")]):
            heirs[0].spool.save()
            heirs[0].spool.adopt("traces", "here")
        assert len(of_b) == 30
    finally:
        for adder in adders:
            adder.kill()
            adder.communicate()


def test_how_it_is_can_be_asked_while_the_disk_is_slow(path: Path) -> None:
    rig = Rig(path)
    with rig.spool._guard:
        asked: list[object] = []
        thread = threading.Thread(target=lambda: asked.extend((rig.spool.problem, rig.spool.dropped())))
        thread.start()
        thread.join(60)
        assert asked == ["", {}]


def test_many_threads(path: Path) -> None:
    rig = Rig(path)

    def work(name: int) -> None:
        for number in range(20):
            rig.add(b"%d-%d" % (name, number))

    threads = [threading.Thread(target=work, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    bodies = rig.spool.oldest("traces", HERE, 1 << 30, 1000)
    assert len(bodies) == 80
    for name in range(4):
        mine = [request.body for request in bodies if request.body.startswith(b"%d-" % name)]
        assert mine == [b"%d-%d" % (name, number) for number in range(20)]
