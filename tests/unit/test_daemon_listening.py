"""The listening socket: who may bind where, what is refused, and whose file is removed."""

import os
import socket
from pathlib import Path

import pytest

from sidecar import rendezvous
from sidecar.core.errors import DaemonUnavailable, UsageError
from sidecar.daemon import listening
from sidecar.daemon.listening import AlreadyRunning


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tmp_path.chmod(0o700)
    return tmp_path


def test_the_socket_is_private_even_with_a_loose_umask(folder: Path) -> None:
    path = str(folder / "new" / "s.sock")
    before = os.umask(0)
    try:
        listener = listening.bind(path)
    finally:
        os.umask(before)
    with listener.sock:
        assert os.stat(path).st_mode & 0o777 == 0o600
        assert os.stat(folder / "new").st_mode & 0o777 == 0o700
        assert not listener.sock.get_inheritable()


def test_a_live_one_is_found(folder: Path) -> None:
    path = str(folder / "s.sock")
    with listening.bind(path).sock, pytest.raises(AlreadyRunning):
        listening.bind(path)


def test_one_that_came_up_does_not_hold_back_the_start_of_the_next(folder: Path) -> None:
    listener = listening.bind(str(folder / "s.sock"))
    (folder / "daemon.lock").write_text("4711\n")  # what the supervisor that started it has noted
    with listener.sock:
        listener.came_up(0.1)
    assert (folder / "daemon.lock").stat().st_size == 0


def test_coming_up_touches_nothing_of_a_daemon_that_took_over(folder: Path) -> None:
    first = listening.bind(str(folder / "s.sock"))
    os.rename(folder / "s.sock", folder / "cleaned away")  # and so its inode is not another's
    with first.sock, listening.bind(str(folder / "s.sock")).sock:
        (folder / "daemon.lock").write_text("4711\n")
        first.came_up(0.1)
    assert (folder / "daemon.lock").read_text() == "4711\n"


def test_a_stale_file_is_replaced(folder: Path) -> None:
    path = str(folder / "s.sock")
    listening.bind(path).sock.close()
    assert os.path.exists(path)
    with listening.bind(path).sock as sock:
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)


def test_a_file_that_is_no_socket_is_left_alone(folder: Path) -> None:
    path = folder / "s.sock"
    path.write_text("mine")
    with pytest.raises(DaemonUnavailable, match="is not a socket"):
        listening.bind(str(path))
    assert path.read_text() == "mine"


def test_a_long_path(folder: Path) -> None:
    path = str(folder / ("d" * 100) / ("s" * 60))
    assert len(path) > 107
    with listening.bind(path).sock, pytest.raises(AlreadyRunning):
        listening.bind(path)


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o720])
def test_a_folder_that_others_may_write_to_is_refused(folder: Path, mode: int) -> None:
    folder.chmod(mode)
    with pytest.raises(DaemonUnavailable, match="others may write"):
        listening.bind(str(folder / "s.sock"))


def test_a_folder_behind_a_link_is_refused(folder: Path) -> None:
    (folder / "real").mkdir(0o700)
    (folder / "link").symlink_to("real")
    with pytest.raises(DaemonUnavailable, match="links are not followed"):
        listening.bind(str(folder / "link" / "s.sock"))


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a folder away")
def test_a_folder_of_somebody_else_is_refused(folder: Path) -> None:
    os.chown(folder, 12345, 12345)
    with pytest.raises(DaemonUnavailable, match="belongs to uid 12345"):
        listening.bind(str(folder / "s.sock"))


def test_only_our_own_file_is_removed(folder: Path) -> None:
    path = str(folder / "s.sock")
    old = listening.bind(path)
    os.rename(path, path + ".away")
    assert not old.is_reachable()
    with listening.bind(path).sock, old.sock:
        assert old.remove_file(0.1)
        assert os.path.exists(path)


def test_a_held_lock_leaves_the_file_to_the_next(folder: Path) -> None:
    path = str(folder / "s.sock")
    listener = listening.bind(path)
    lock = listening.rendezvous.lock_folder(path)
    with listener.sock:
        assert not listener.remove_file(0.02)
        os.close(lock)
        assert listener.remove_file(0.02)
        assert not os.path.exists(path)


@pytest.mark.parametrize("folder", ["rel", ".", "../x", ""])
def test_a_relative_folder_of_the_environment_is_no_place_for_a_socket(folder: str) -> None:
    usual = f"/tmp/sidecar-{os.getuid()}/sidecar.sock"
    assert rendezvous.socket_path({"TMPDIR": folder, "XDG_RUNTIME_DIR": folder}) == usual
    assert rendezvous.socket_path({"TMPDIR": "/t"}) == f"/t/sidecar-{os.getuid()}/sidecar.sock"


def test_an_orderly_end_does_not_hold_back_the_next_start(folder: Path) -> None:
    """The note in the lock file is for a daemon that keeps dying: see sidecar.supervisor.activate."""
    path = str(folder / "s.sock")
    listener = listening.bind(path)
    (folder / "daemon.lock").write_text("123\n")
    with listener.sock:
        assert listener.remove_file(0.1)
    assert (folder / "daemon.lock").read_text() == ""


def test_what_may_be_inherited(folder: Path) -> None:
    path = str(folder / "s.sock")
    read_end, write_end = os.pipe()
    unconnected = socket.socket(socket.AF_UNIX)
    for descriptor in (read_end, unconnected.fileno(), 9999):
        with pytest.raises(UsageError, match=f"descriptor {descriptor} is"):
            listening.inherited(descriptor, path)
    for end in (read_end, write_end):
        os.close(end)
    unconnected.close()
    with listening.bind(path).sock as sock:
        listener = listening.inherited(os.dup(sock.fileno()), path)
        assert listener.is_reachable()
        listener.sock.close()


def test_what_systemd_says(folder: Path) -> None:
    path, pid = str(folder / "s.sock"), str(os.getpid())
    assert listening.from_systemd({}, path) is None
    assert listening.from_systemd({"LISTEN_PID": "1", "LISTEN_FDS": "1"}, path) is None
    assert listening.from_systemd({"LISTEN_PID": pid}, path) is None
    with pytest.raises(UsageError, match="takes one"):
        listening.from_systemd({"LISTEN_PID": pid, "LISTEN_FDS": "2"}, path)
