"""The process tree from an injected /proc: hostile names, processes that vanish, kernels without children files."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.kernel import Kernel
from collectors.processes import Tree, parse_stat, read_stat, sample_states

TAIL = "{ppid} {pid} {pid} 0 -1 4194304 130 0 7 0 {utime} 2 3 4 20 0 {threads} 0 {start} 0 0" + " 0" * 27 + " {stop} 0"


def stat_line(pid: int, ppid: int, comm: str = "sh", state: str = "S", threads: int = 1, stop: int = 0) -> str:
    tail = TAIL.format(ppid=ppid, pid=pid, utime=1, threads=threads, start=900 + pid, stop=stop)
    return f"{pid} ({comm}) {state} {tail}\n"


def add(root: Path, pid: int, ppid: int, children: str | None = "", comm: str = "sh") -> None:
    task = root / str(pid) / "task" / str(pid)
    task.mkdir(parents=True)
    (root / str(pid) / "stat").write_text(stat_line(pid, ppid, comm))
    (task / "schedstat").write_text("1000 20 3\n")
    if children is not None:
        (task / "children").write_text(children)


def walked(root: Path, *roots: int, denied: frozenset[str] = frozenset()) -> Tree:
    tree = Tree(Kernel(str(root), denied))
    tree.walk(list(roots))
    return tree


@pytest.mark.parametrize("comm", ["sh", "a) S 1 (b", "line\nbreak", "((", ")", " ", "\t) R 5", "ünï"])
def test_a_name_may_hold_anything(comm: str) -> None:
    process, faults = parse_stat(stat_line(41, 7, comm, state="T", stop=19).encode())
    assert (process.pid, process.parent, process.program, process.state) == (41, 7, comm, "T")
    assert (process.stop_signal, process.started_ticks, faults) == (19, 941, 7)


@given(st.text(st.characters(codec="utf-8"), max_size=15))
def test_no_name_confuses_the_fields(comm: str) -> None:
    process, _ = parse_stat(stat_line(5, 6, comm).encode())
    assert (process.program, process.parent, process.thread_count) == (comm, 6, 1)


@given(st.binary(max_size=120))
def test_no_content_of_stat_raises_through_a_look(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    root = tmp_path_factory.mktemp("proc")
    (root / "1").mkdir()
    (root / "1" / "stat").write_bytes(data)
    read_stat(Kernel(str(root)), 1)
    sample_states(Kernel(str(root)), [1], {})


def test_a_tree_is_walked_by_children_files(tmp_path: Path) -> None:
    add(tmp_path, 10, 1, "11 12 ")
    add(tmp_path, 11, 10, "13 ")
    add(tmp_path, 12, 10)
    add(tmp_path, 13, 11)
    add(tmp_path, 99, 1)
    tree = walked(tmp_path, 10)
    assert sorted(tree.processes) == [10, 11, 12, 13]
    assert tree.is_whole
    thread = tree.processes[13].threads[13]
    assert (thread.cpu_ns, thread.run_delay_ns, thread.runs) == (1000, 20, 3)


@pytest.mark.parametrize("denied", [frozenset(), frozenset({"children"})])
def test_without_children_files_parents_are_searched(tmp_path: Path, denied: frozenset[str]) -> None:
    for pid, parent in ((10, 1), (11, 10), (13, 11), (99, 1)):
        add(tmp_path, pid, parent, None if not denied else "")
    assert sorted(walked(tmp_path, 10, denied=denied).processes) == [10, 11, 13]


def test_a_child_that_cannot_be_seen_makes_the_look_partial(tmp_path: Path) -> None:
    add(tmp_path, 10, 1, "11 ")
    tree = walked(tmp_path, 10)
    assert sorted(tree.processes) == [10]
    assert not tree.is_whole


def test_a_circle_of_children_ends(tmp_path: Path) -> None:
    add(tmp_path, 10, 11, "11 ")
    add(tmp_path, 11, 10, "10 ")
    assert sorted(walked(tmp_path, 10).processes) == [10, 11]


def test_a_look_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("collectors.processes.PROCESSES_AT_MOST", 3)
    add(tmp_path, 10, 1, "11 12 13 14 ")
    for pid in (11, 12, 13, 14):
        add(tmp_path, pid, 10)
    tree = walked(tmp_path, 10)
    assert len(tree.processes) == 3
    assert not tree.is_whole


def test_nothing_at_all_is_an_empty_tree(tmp_path: Path) -> None:
    assert walked(tmp_path, 10).processes == {}
