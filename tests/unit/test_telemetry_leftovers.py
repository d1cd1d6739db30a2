"""Frames that are left beside the spool: whole, private, bounded, and taken by one process."""

import os
import stat
import threading
from pathlib import Path

import pytest

from sidecar.telemetry import leftovers
from sidecar.telemetry.leftovers import Taken, clear, files, leave, take


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "state" / "spool.db")


def test_what_is_left_is_taken_whole_and_once(path: str) -> None:
    assert leave(path, [b"one\n", b"two\n"])
    (name,) = files(path)
    assert stat.S_IMODE(Path(name).stat().st_mode) == 0o600
    assert stat.S_IMODE(Path(path).parent.stat().st_mode) == 0o700
    came: list[list[bytes]] = []
    taken = take(path, came.append, 10)
    assert len(taken) == 1
    assert came == [[b"one\n", b"two\n"]]
    assert len(take(path, came.append, 10)) == 0
    assert len(files(path)) == 1  # until it is safe
    taken.remove()
    assert files(path) == []


def test_what_did_not_get_safe_is_left_to_the_next(path: str) -> None:
    leave(path, [b"one\n"])
    take(path, lambda lines: None, 10).let_go()
    assert len(take(path, lambda lines: None, 10)) == 1


def test_what_cannot_be_fed_stays(path: str) -> None:
    leave(path, [b"x\n"])

    def fail(lines: list[bytes]) -> None:
        raise OSError

    assert len(take(path, fail, 10)) == 0
    assert len(files(path)) == 1


def test_a_few_at_a_time(path: str) -> None:
    for _ in range(5):
        leave(path, [b"x\n"])
    taken = take(path, lambda lines: None, 2)
    assert len(taken) == 2
    assert clear(path) == 3
    taken.remove()


def test_what_is_taken_already_does_not_stand_before_the_rest(path: str) -> None:
    for _ in range(5):
        leave(path, [b"x\n"])
    held: list[Taken] = [take(path, lambda lines: None, 2) for _ in range(3)]
    assert [len(taken) for taken in held] == [2, 2, 1]
    for taken in held:
        taken.remove()


def test_what_cannot_be_taken_is_mended_or_removed(path: str, tmp_path: Path) -> None:
    leave(path, [b"x\n"])
    Path(f"{path}.frames-{'1' * 16}").symlink_to(tmp_path / "nowhere")
    os.mkfifo(f"{path}.frames-{'2' * 16}")
    take(path, lambda lines: None, 10).let_go()
    assert len(files(path)) == 1


@pytest.mark.parametrize(("age_s", "stays"), [(0, True), (3600, False), (-3600, False)])
def test_one_that_was_never_finished_goes_at_last(path: str, age_s: int, stays: bool) -> None:
    leave(path, [b"x\n"])
    half = Path(f"{files(path)[0]}.new")
    half.touch()
    written_s = half.stat().st_mtime - age_s
    os.utime(half, (written_s, written_s))
    clear(path)
    assert half.exists() == stays


def test_no_more_than_so_many(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leftovers, "MAX_FILES", 2)
    assert [leave(path, [b"x\n"]) for _ in range(3)] == [True, True, False]


def test_a_half_written_one_is_not_taken(path: str) -> None:
    leave(path, [b"x\n"])
    Path(f"{files(path)[0]}.new").touch()
    assert len(files(path)) == 1


def test_links_are_not_followed(path: str, tmp_path: Path) -> None:
    leave(path, [b"x\n"])
    victim = tmp_path / "victim"
    victim.write_text("secret")
    Path(f"{path}.frames-{'0' * 16}").symlink_to(victim)
    came: list[list[bytes]] = []
    assert len(take(path, came.append, 10)) == 1
    assert came == [[b"x\n"]]
    assert victim.exists()


def test_no_place_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("no folder")
    path = str(tmp_path / "state" / "spool.db")
    assert not leave(path, [b"x\n"])
    assert files(path) == []


def test_many_takers_take_each_once(path: str) -> None:
    for number in range(40):
        leave(path, [b"%d\n" % number])
    came: list[list[bytes]] = []

    def take_all() -> None:
        take(path, came.append, 100).remove()

    threads = [threading.Thread(target=take_all) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(int(lines[0]) for lines in came) == list(range(40))
