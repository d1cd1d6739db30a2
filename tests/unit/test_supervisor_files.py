"""Files that the command writes itself: what was written, and when, from the file's position alone."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from sidecar.core.output import OutputStats
from sidecar.supervisor import files
from sidecar.supervisor.files import GivenFiles, GrowingFile

S = 1_000_000_000


class Given:
    """An open file as the command has it, and what looks at it."""

    def __init__(self, folder: Path, flags: int = 0, *, stat_answers: bool = True) -> None:
        self.path = folder / "output"
        self.path.write_bytes(b"before\n")
        self.descriptor = os.open(self.path, os.O_WRONLY | flags)
        position = os.lseek(self.descriptor, 0, os.SEEK_CUR)
        _, appends = files._opened(self.descriptor, "/proc")
        self.file = GrowingFile((self.descriptor, position, 7), stat_answers=stat_answers, appends=appends)

    def bytes_seen(self) -> int | None:
        seen = self.file.look(10**20)
        return None if seen is None else seen[0]


@pytest.fixture(params=[True, False], ids=["stat answers", "stat may hang"])
def given(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Given]:
    made = Given(tmp_path, os.O_TRUNC, stat_answers=request.param)
    made.file = GrowingFile((made.descriptor, 0, 0), stat_answers=request.param, appends=False)
    yield made
    os.close(made.descriptor)


def test_what_was_written_since_the_last_look(given: Given) -> None:
    given.bytes_seen()
    assert given.bytes_seen() is None
    os.write(given.descriptor, b"12345")
    assert given.bytes_seen() == 5
    os.write(given.descriptor, b"678")
    assert given.bytes_seen() == 3
    assert given.bytes_seen() is None


def test_going_back_and_writing_over_is_output_and_never_negative(given: Given) -> None:
    os.write(given.descriptor, b"x" * 100)
    assert given.bytes_seen() == 100
    os.lseek(given.descriptor, 10, os.SEEK_SET)
    assert given.bytes_seen() == 0
    os.write(given.descriptor, b"there")
    assert given.bytes_seen() == 5


@pytest.mark.parametrize("stat_answers", [True, False])
def test_appending_does_not_count_what_was_there(tmp_path: Path, stat_answers: bool) -> None:
    given = Given(tmp_path, os.O_APPEND, stat_answers=stat_answers)
    os.write(given.descriptor, b"new")
    assert given.bytes_seen() == 3
    os.close(given.descriptor)


def test_a_script_that_opens_its_own_stdout_anew_is_seen_by_the_size(tmp_path: Path) -> None:
    given = Given(tmp_path, os.O_APPEND)
    with given.path.open("ab") as another:
        another.write(b"12")
    assert given.bytes_seen() == 2
    os.close(given.descriptor)


def test_writing_over_in_place_is_output_without_bytes(tmp_path: Path) -> None:
    given = Given(tmp_path)
    given.bytes_seen()
    os.utime(given.descriptor, ns=(1, 1))
    given.bytes_seen()
    os.pwrite(given.descriptor, b"B", 0)
    assert given.bytes_seen() == 0
    os.close(given.descriptor)


def test_a_file_that_is_gone_from_under_us_is_silent() -> None:
    descriptor = os.open(os.devnull, os.O_WRONLY)
    file = GrowingFile((descriptor, 0, 0), stat_answers=True, appends=False)
    os.close(descriptor)
    assert file.look(0) is None


@pytest.mark.parametrize(("wall_offset_ns", "age_ns"), [(0, 2 * S), (-3600 * S, 0), (3600 * S, 5 * S)])
def test_the_time_of_a_write_is_its_own_and_within_the_two_looks_whatever_the_wall_clock_did(
    tmp_path: Path, wall_offset_ns: int, age_ns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "_answering", lambda mounts, _proc: mounts)
    given = Given(tmp_path)
    stats = OutputStats(100 * S)
    written_wall_ns = 1_000_000 * S
    looked = GivenFiles([(given.descriptor, 0, 7)], stats, 100 * S, lambda: written_wall_ns + 2 * S + wall_offset_ns)
    os.write(given.descriptor, b"12345678")
    os.utime(given.descriptor, ns=(written_wall_ns, written_wall_ns))
    assert looked.look(105 * S) == 105 * S - age_ns
    assert (stats.total_bytes, stats.total_lines, stats.last_output_ns) == (8, 0, 105 * S - age_ns)
    assert stats.longest_silence_ns(105 * S) == max(age_ns, 5 * S - age_ns)
    assert looked.look(106 * S) is None
    assert looked.deadline_ns == 107 * S
    os.close(given.descriptor)


@pytest.mark.parametrize(
    ("kind", "answers"), [("ext4", True), ("tmpfs", True), ("nfs4", False), ("fuse.sshfs", False), (None, False)]
)
def test_only_file_systems_known_to_answer_are_asked(tmp_path: Path, kind: str | None, answers: bool) -> None:
    (tmp_path / "self" / "fdinfo").mkdir(parents=True)
    if kind is not None:
        (tmp_path / "self" / "fdinfo" / "1").write_text("pos:\t0\nflags:\t0100001\nmnt_id:\t29\nino:\t7\n")
        lines = f"28 1 0:5 / /dev rw shared:2 - devtmpfs udev rw\n29 1 8:1 / / rw shared:1 - {kind} /dev/x rw\n"
        (tmp_path / "self" / "mountinfo").write_text(lines)
    mount, appends = files._opened(1, str(tmp_path))
    assert (mount, appends) == ((b"", False) if kind is None else (b"29", False))
    assert files._answering({mount, b"28"}, str(tmp_path)) == ({b"29"} if answers else set())


@pytest.mark.parametrize("proc", ["/proc", "/no/such/proc"])
@pytest.mark.parametrize("flags", [0, os.O_APPEND])
def test_whether_it_appends_is_known_without_proc_too(tmp_path: Path, flags: int, proc: str) -> None:
    descriptor = os.open(tmp_path / "output", os.O_WRONLY | os.O_CREAT | flags)
    assert files._opened(descriptor, proc)[1] is bool(flags)
    os.close(descriptor)
