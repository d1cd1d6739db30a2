"""The process tree from recorded /proc folders: hostile names, zombies, threads, kernels without `children`."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.supervisor.tree import descendants, outside_group, signal_all

HOSTILE = [b"sh", b"a b", b"x) Z 1 (", b")", b"((", b"line\nfeed", b") R 99 99 (", b"\xff\xfe", b""]


class RecordedProc:
    """A /proc folder. `children=False` is a kernel without CONFIG_PROC_CHILDREN."""

    def __init__(self, folder: Path, *, children: bool = True) -> None:
        self.folder = folder
        self.children = children
        self._of: dict[int, list[int]] = {}
        if children:
            own = folder / "self" / "task" / str(os.getpid())
            own.mkdir(parents=True)
            (own / "children").write_bytes(b"")
        (folder / "meminfo").write_bytes(b"")

    def add(
        self, pid: int, parent: int, name: bytes = b"sh", state: bytes = b"S", threads: tuple[int, ...] = ()
    ) -> None:
        process = self.folder / str(pid)
        for thread in (pid, *threads):
            (process / "task" / str(thread)).mkdir(parents=True)
        (process / "stat").write_bytes(b"%d (%s) %s %d 1 1 0 -1 4194560\n" % (pid, name, state, parent))
        self._of.setdefault(pid, [])
        self._of.setdefault(parent, []).append(pid)
        if self.children:
            for number in (pid, parent):
                file = self.folder / str(number) / "task" / str(number) / "children"
                if file.parent.is_dir():
                    file.write_bytes(b"".join(b"%d " % child for child in self._of[number]))
            for thread in threads:
                (process / "task" / str(thread) / "children").write_bytes(b"")

    def found(self, root: int) -> list[int]:
        return descendants(root, str(self.folder))


@pytest.fixture(params=[True, False], ids=["children files", "scan of stat"])
def proc(request: pytest.FixtureRequest, tmp_path: Path) -> RecordedProc:
    return RecordedProc(tmp_path, children=request.param)


def test_parents_come_before_children_and_strangers_not_at_all(proc: RecordedProc) -> None:
    for pid, parent in ((10, 1), (11, 10), (12, 10), (13, 11), (14, 13), (20, 1), (21, 20)):
        proc.add(pid, parent)
    found = proc.found(10)
    assert sorted(found) == [11, 12, 13, 14]
    assert found.index(11) < found.index(13) < found.index(14)
    assert proc.found(14) == []


@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_can_hold_anything(proc: RecordedProc, name: bytes) -> None:
    proc.add(10, 1)
    proc.add(11, 10, name)
    proc.add(12, 11, name, b"Z")
    proc.add(13, 11, name, b"D")
    assert proc.found(10) == [11, 13]


@given(name=st.binary(max_size=15).filter(lambda name: b"\0" not in name), state=st.sampled_from([b"R", b"S", b"T"]))
def test_any_name_at_all(tmp_path_factory: pytest.TempPathFactory, name: bytes, state: bytes) -> None:
    proc = RecordedProc(tmp_path_factory.mktemp("proc"), children=False)
    proc.add(10, 1, name, state)
    proc.add(11, 10, name, state)
    assert proc.found(10) == [11]


@pytest.mark.parametrize("state", [b"Z", b"X"])
def test_the_dead_are_left_out_but_not_what_still_names_them(proc: RecordedProc, state: bytes) -> None:
    proc.add(10, 1)
    proc.add(11, 10, state=state)
    proc.add(12, 11)
    assert proc.found(10) == [12]


def test_one_that_went_away_between_two_looks_is_left_out(proc: RecordedProc) -> None:
    proc.add(10, 1)
    proc.add(11, 10)
    proc.add(12, 10)
    (proc.folder / "11" / "stat").unlink()
    assert proc.found(10) == [12]


@pytest.mark.parametrize("stat", [b"", b"11", b"11 (sh", b"11 (sh)", b"11 (sh) S", b"11 (sh) S x 1"])
def test_a_stat_that_is_torn_is_of_nobody(proc: RecordedProc, stat: bytes) -> None:
    proc.add(10, 1)
    proc.add(11, 10)
    (proc.folder / "11" / "stat").write_bytes(stat)
    assert proc.found(10) == []


def test_children_of_every_thread_are_found(tmp_path: Path) -> None:
    proc = RecordedProc(tmp_path)
    proc.add(10, 1, threads=(101, 102))
    proc.add(11, 10)
    proc.add(12, 1)
    (tmp_path / "10" / "task" / "102" / "children").write_bytes(b"12 ")
    assert sorted(proc.found(10)) == [11, 12]


def test_a_thread_that_ended_is_no_reason_to_scan(tmp_path: Path) -> None:
    proc = RecordedProc(tmp_path)
    proc.add(10, 1, threads=(101,))
    proc.add(11, 10)
    (tmp_path / "10" / "task" / "101" / "children").unlink()
    assert proc.found(10) == [11]


def test_a_loop_of_parents_ends(tmp_path: Path) -> None:
    proc = RecordedProc(tmp_path)
    proc.add(10, 11)
    proc.add(11, 10)
    assert proc.found(10) == [11]


def test_without_proc_there_is_nobody(tmp_path: Path) -> None:
    assert descendants(10, str(tmp_path / "none")) == []


def test_a_real_child_is_found_until_it_is_a_zombie() -> None:
    if not os.path.isdir(f"/proc/{os.getpid()}/task"):
        pytest.skip("no /proc on this machine")
    child = subprocess.Popen([sys.executable, "-ISc", "input()"], stdin=subprocess.PIPE)
    assert child.stdin is not None
    assert child.pid in descendants(os.getpid())
    child.stdin.close()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert child.pid not in descendants(os.getpid())
    child.wait()


def test_a_signal_is_sent_to_whoever_is_there() -> None:
    child = subprocess.Popen([sys.executable, "-ISc", "input()"], stdin=subprocess.PIPE)
    gone = subprocess.Popen([sys.executable, "-ISc", ""])
    gone.wait()
    assert signal_all([gone.pid, child.pid], signal.SIGKILL) == 1
    assert child.wait() == -signal.SIGKILL
    assert child.stdin is not None
    child.stdin.close()


def test_those_outside_our_group_are_told_apart_and_the_gone_are_neither() -> None:
    inside = subprocess.Popen([sys.executable, "-ISc", "input()"], stdin=subprocess.PIPE)
    outside = subprocess.Popen([sys.executable, "-ISc", "input()"], stdin=subprocess.PIPE, start_new_session=True)
    gone = subprocess.Popen([sys.executable, "-ISc", ""])
    gone.wait()
    assert outside_group([inside.pid, outside.pid, gone.pid]) == [outside.pid]
    for child in (inside, outside):
        child.communicate(b"\n")
