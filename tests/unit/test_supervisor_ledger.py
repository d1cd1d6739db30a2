"""A command's entry in the ledger: written before the spawn, private, held by a lock, and never in the way."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from sidecar.places import ledger_folder
from sidecar.supervisor import ledger
from sidecar.supervisor.ledger import Entry, enter

ID = "01890a5d-ac96-774b-bcce-b302099a8057"


@pytest.fixture
def socket(tmp_path: Path) -> str:
    return str(tmp_path / "run" / "s.sock")


def file_of(socket: str) -> Path:
    return Path(ledger_folder(socket)) / ID


def made(socket: str, line: bytes = b"one\n") -> Entry:
    entry = enter(socket, ID, line)
    assert entry is not None
    return entry


@pytest.mark.parametrize("umask", [0o022, 0o777])
def test_an_entry_is_private_whatever_the_umask(socket: str, umask: int, tmp_path: Path) -> None:
    Path(socket).parent.mkdir(0o700)
    Path(ledger_folder(socket)).mkdir(0o700)
    before = os.umask(umask)
    try:
        made(socket)
    finally:
        os.umask(before)
    assert stat.S_IMODE(file_of(socket).stat().st_mode) == 0o600


def test_its_folders_are_made_and_private(socket: str) -> None:
    made(socket)
    for folder in (Path(socket).parent, file_of(socket).parent):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_commands_that_start_at_once_each_have_one(socket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first commands of a machine: another one makes each folder between our look for it and our own attempt."""
    mkdir = os.mkdir

    def second(path: str, mode: int = 0o777) -> None:
        mkdir(path, mode)
        mkdir(path, mode)

    monkeypatch.setattr(os, "mkdir", second)
    made(socket)
    assert file_of(socket).read_bytes() == b"one\n"


def test_lines_are_added_replaced_and_removed(socket: str) -> None:
    entry = made(socket)
    entry.add(b"two\n")
    assert file_of(socket).read_bytes() == b"one\ntwo\n"
    entry.replace(b"failed\n")
    assert file_of(socket).read_bytes() == b"failed\n"
    entry.remove()
    entry.remove()
    assert not file_of(socket).exists()
    entry.add(b"nobody's\n")


def test_its_lock_is_the_writers_and_no_childs(socket: str) -> None:
    """A child that was forked meanwhile, and closes what it has, must not let go of it."""
    entry = made(socket)
    probe = "import os, sys; os.lockf(os.open(sys.argv[1], os.O_RDWR), os.F_TEST, 0)"
    if (child := os.fork()) == 0:
        os.closerange(3, 1000)
        os._exit(0)
    os.waitpid(child, 0)
    words = [sys.executable, "-c", probe, str(file_of(socket))]
    assert subprocess.run(words, capture_output=True).returncode != 0
    os.close(entry._descriptor)
    assert subprocess.run(words).returncode == 0


def refuse_lock(*_: object) -> None:
    raise OSError(37, "No locks available")


def test_without_a_lock_there_is_none(socket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger.posix, "lockf", refuse_lock)
    assert enter(socket, ID, b"one\n") is None
    assert not file_of(socket).exists()


@pytest.mark.parametrize("what", ["open to others", "a link", "no folder"])
def test_a_folder_that_is_not_ours_alone_gets_none(socket: str, tmp_path: Path, what: str) -> None:
    folder = Path(ledger_folder(socket))
    folder.parent.mkdir(0o700)
    (tmp_path / "elsewhere").mkdir(0o700)
    if what == "open to others":
        folder.mkdir()
        folder.chmod(0o777)
    elif what == "a link":
        folder.symlink_to(tmp_path / "elsewhere")
    else:
        folder.write_text("")
    assert enter(socket, ID, b"one\n") is None
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_where_nobody_comes_for_them_they_are_bounded(socket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = made(socket)
    entry.remove_if_crowded()
    assert file_of(socket).exists()
    monkeypatch.setattr(ledger, "MAX_ENTRIES", 0)
    entry.remove_if_crowded()
    assert not file_of(socket).exists()
