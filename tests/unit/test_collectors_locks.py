"""Who has a lock, and who only took it: of a /proc that is made here. proc(5), /proc/locks and fdinfo."""

import os
from pathlib import Path

import pytest

from collectors.descriptors import Descriptors
from collectors.kernel import Kernel
from collectors.locks import find_holders, name_holders, read_locks
from collectors.processes import read_stat
from collectors.unseen import describe
from sidecar.core.evidence import Look, Process

NOBODY = 2**22 + 1
"""More than the kernel gives any process: PID_MAX_LIMIT."""
HELD = "FLOCK  ADVISORY  WRITE {taker} 00:01:77 0 EOF"


def kernel_of(folder: Path, taker: int, **programs: str) -> Kernel:
    """`programs`: state and number of threads by `NAME_PID`. All have the locked file open, but for zombies."""
    (folder / "locks").write_text(f"1: {HELD.format(taker=taker)}\n1: -> {HELD.format(taker=10)}\n")
    for name, how in programs.items():
        program, pid = name.split("_")
        place = folder / pid
        (place / "fd").mkdir(parents=True)
        (place / "fdinfo").mkdir()
        state, threads = how.split()
        numbers = ["0"] * 48
        numbers[16] = threads
        (place / "stat").write_text(f"{pid} ({program}) {state} {' '.join(numbers)}\n")
        if state != "Z":
            os.symlink("/srv/lock", place / "fd" / "3")
            (place / "fdinfo" / "3").write_text(f"pos:\t0\nlock:\t1: {HELD.format(taker=taker)}\n")
    return Kernel(str(folder))


def read(kernel: Kernel, pid: int) -> Process:
    found, _ = read_stat(kernel, pid)
    assert found is not None
    Descriptors(kernel).read_all(found)
    return found


def test_holders_have_their_programs_also_outside_the_tree(tmp_path: Path) -> None:
    kernel = kernel_of(tmp_path, 99, flock_99="S 1", sleep_98="S 1")
    _, waiting = locks = read_locks(kernel)
    name_holders(kernel, locks, {10})
    find_holders(kernel, locks, [read(kernel, 98), read(kernel, 99)])
    assert waiting.holders == (98, 99)
    assert waiting.programs == {98: "sleep", 99: "flock"}
    assert not waiting.holder_has_ended


@pytest.mark.parametrize(("how", "has_ended"), [("S 1", False), ("Z 1", True), ("Z 2", False)])
def test_a_zombie_has_ended_unless_other_threads_of_it_run(tmp_path: Path, how: str, has_ended: bool) -> None:
    kernel = kernel_of(tmp_path, 99, flock_99=how)
    _, waiting = locks = read_locks(kernel)
    name_holders(kernel, locks, {10})
    assert waiting.holder_has_ended == has_ended


@pytest.mark.parametrize(("taker", "has_ended"), [(NOBODY, True), (os.getpid(), False)])
def test_who_is_not_shown_may_live_all_the_same(tmp_path: Path, taker: int, has_ended: bool) -> None:
    kernel = kernel_of(tmp_path, taker)
    _, waiting = locks = read_locks(kernel)
    name_holders(kernel, locks, {10})
    assert (waiting.holder_program, waiting.holder_has_ended) == ("", has_ended)


def test_whose_descriptors_could_not_be_read_is_said() -> None:
    kernel = Kernel()
    kernel.refused.add("fd")
    own = Process(10, 1, "flock", "S", descriptors={})
    (unseen,) = describe(kernel, Look(0, 10, {10: own}))
    assert (unseen.source, unseen.remedy) == ("open descriptors of processes of other users", "root sees them")
    own.descriptors = None
    (unseen,) = describe(kernel, Look(0, 10, {10: own}))
    assert unseen.source == "open descriptors"
    assert "as the command's user" in unseen.remedy
