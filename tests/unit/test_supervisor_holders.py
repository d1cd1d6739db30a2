"""Who holds the output of a command that has ended: from the link texts in /proc, never followed."""

import os
from pathlib import Path

from sidecar.supervisor.holders import output_held_by
from sidecar.supervisor.streams import Relayed


def a_process(proc: Path, pid: int, name: str, *links: str) -> None:
    (proc / str(pid) / "fd").mkdir(parents=True)
    (proc / str(pid) / "comm").write_text(name + "\n")
    for number, link in enumerate(links):
        os.symlink(link, proc / str(pid) / "fd" / str(number))


def relayed(*group: int, link: str, terminal: bool = False) -> Relayed:
    return Relayed(9, group, link, 65536, terminal=terminal)


def test_each_holder_with_what_it_holds(tmp_path: Path) -> None:
    streams = [relayed(1, 3, link="pipe:[11]"), relayed(2, link="socket:[12]")]
    a_process(tmp_path, 100, "sleep", "/dev/null", "pipe:[11]", "socket:[12]")
    a_process(tmp_path, 101, "errors only", "/dev/null", "pipe:[99]", "socket:[12]")
    a_process(tmp_path, 102, "daemon", "/dev/null", "/dev/null", "/dev/null")
    assert output_held_by([100, 101, 102, 103], streams, str(tmp_path)) == [
        "100 sleep: stdout, fd 3, stderr",
        "101 errors only: stderr",
    ]


def test_the_terminal(tmp_path: Path) -> None:
    a_process(tmp_path, 100, "vim", "/dev/pts/7")
    assert output_held_by([100], [relayed(1, link="/dev/pts/7", terminal=True)], str(tmp_path)) == ["100 vim: terminal"]


def test_a_crowd_is_named_up_to_eight_and_what_cannot_be_read_is_left_out(tmp_path: Path) -> None:
    for pid in range(1, 21):
        a_process(tmp_path, pid, "x" * 15, "pipe:[1]")
    assert len(output_held_by(list(range(1, 31)), [relayed(1, link="pipe:[1]")], str(tmp_path))) == 8
    assert output_held_by([1], [relayed(1, link="")], str(tmp_path)) == []
