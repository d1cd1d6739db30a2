"""The short way to the daemon: the same as the long one where its folder is ours, and none where it is not."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from sidecar.supervisor import libc
from sidecar.supervisor.connection import connect


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[socket.socket]:
    tmp_path.chmod(0o700)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(tmp_path / "s.sock"))
    listener.listen()
    listener.settimeout(60)
    yield listener
    listener.close()


def test_bytes_go_both_ways(daemon: socket.socket) -> None:
    connection = connect(daemon.getsockname())
    assert connection is not None
    peer, _ = daemon.accept()
    with peer:
        assert connection.send(bytearray(b"frame\n")) == 6
        assert peer.recv(100) == b"frame\n"
        with pytest.raises(BlockingIOError):
            connection.recv(100)
        peer.sendall(b"answer\n")
        assert connection.recv(100) == b"answer\n"
    assert connection.recv(100) == b""
    with pytest.raises(BrokenPipeError):
        connection.send(b"more\n")
    connection.close()
    connection.close()


def test_it_is_no_descriptor_of_the_commands_and_blocks_nobody(daemon: socket.socket) -> None:
    connection = connect(daemon.getsockname())
    assert connection is not None
    assert not os.get_inheritable(connection.fileno())
    assert not os.get_blocking(connection.fileno())
    peer, _ = daemon.accept()

    def fill() -> None:
        while connection.send(b"x" * 65536):
            pass

    with peer, pytest.raises(BlockingIOError):
        fill()
    connection.close()


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702, 0o1777])
def test_in_a_folder_of_others_it_is_left_to_the_long_way(daemon: socket.socket, tmp_path: Path, mode: int) -> None:
    tmp_path.chmod(mode)
    assert connect(daemon.getsockname()) is None


@pytest.mark.skipif(os.getuid() != 0, reason="gives a folder to another user")
def test_in_a_folder_of_another_user_too(daemon: socket.socket, tmp_path: Path) -> None:
    os.chown(tmp_path, 65534, 65534)
    assert connect(daemon.getsockname()) is None


def test_through_a_link_too(daemon: socket.socket, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    assert connect(str(tmp_path / "link" / "s.sock")) is None


@pytest.mark.parametrize("name", ["none", "file", "a" * 110, "s.sock\0", "no/such/folder", "s.sock/below"])
def test_where_nobody_listens_nothing_stays_open(daemon: socket.socket, tmp_path: Path, name: str) -> None:
    (tmp_path / "file").touch()
    before = set(os.listdir("/proc/self/fd"))
    assert connect(str(tmp_path / name)) is None
    # What earlier tests have left to the garbage collector may go meanwhile.
    assert set(os.listdir("/proc/self/fd")) <= before


def test_without_libc_it_is_left_to_the_long_way(daemon: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(libc, "_handle", 0)
    assert connect(daemon.getsockname()) is None
