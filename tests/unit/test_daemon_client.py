"""The client's side: what it makes of daemons that are absent, mute, foreign or gone."""

import os
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from daemon_support import WAIT_S, Daemon, started, take

from sidecar.core.errors import DaemonUnavailable
from sidecar.daemon import client


@contextmanager
def listening(folder: Path, serve: Callable[[socket.socket], None]) -> Iterator[str]:
    """Something on a socket that does `serve` with its first connection."""
    path = str(folder / "other.sock")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        listener.settimeout(WAIT_S)

        def accept() -> None:
            connection, _ = listener.accept()
            with connection:
                serve(connection)

        thread = threading.Thread(target=accept)
        thread.start()
        yield path
        thread.join(WAIT_S)
        assert not thread.is_alive()


def test_nobody_there(tmp_path: Path) -> None:
    for path in (tmp_path / "none.sock", tmp_path / "no" / "folder.sock"):
        with pytest.raises(DaemonUnavailable, match="no daemon is running"):
            client.request(str(path), "list")
        with pytest.raises(DaemonUnavailable, match="no daemon is running"):
            client.subscribe(str(path))


def test_one_that_never_answers(tmp_path: Path) -> None:
    done = threading.Event()
    with listening(tmp_path, lambda _: assert_set(done)) as path:
        with pytest.raises(DaemonUnavailable, match=r"did not answer within 0\.1 s"):
            client.status(path, timeout_s=0.1)
        done.set()


def assert_set(event: threading.Event) -> None:
    assert event.wait(WAIT_S)


def test_one_that_goes_away(tmp_path: Path) -> None:
    with (
        listening(tmp_path, lambda connection: assert_some(connection.recv(100))) as path,
        pytest.raises(DaemonUnavailable, match="went away before it had answered"),
    ):
        client.status(path)


def assert_some(data: bytes) -> None:
    assert data


@pytest.mark.parametrize("data", [b"SSH-2.0-other\r\n", b"[]\n", b"x" * 2_000_000])
def test_one_that_speaks_otherwise(tmp_path: Path, data: bytes) -> None:
    def serve(connection: socket.socket) -> None:
        try:
            connection.sendall(data)
        except OSError:
            pass  # the client may have had enough

    with listening(tmp_path, serve) as path, pytest.raises(DaemonUnavailable):
        client.status(path)


def test_closing_from_another_thread_ends_the_iteration(tmp_path: Path) -> None:
    with Daemon(tmp_path) as daemon:
        told = daemon.subscribe()
        take(told, 1)
        closing = threading.Timer(0.05, told.close)
        closing.start()
        assert list(told) == []
        closing.join()
        told.close()
        assert told.ended


def test_a_daemon_that_ends_ends_the_iteration(tmp_path: Path) -> None:
    with Daemon(tmp_path) as daemon, daemon.subscribe() as told:
        take(told, 1)
        daemon.stop()
        assert list(told) == []


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become somebody else")
def test_somebody_else_is_turned_away() -> None:
    go_read, go_write = os.pipe()
    # Not tmp_path: its parents are root's own, and stay so.
    with tempfile.TemporaryDirectory() as folder:
        # A fork, before there are threads: the interpreter itself may be where only root can read.
        child = os.fork()
        if child == 0:
            try:
                os.setresuid(12345, 12345, 12345)
                os.read(go_read, 1)
                with socket.socket(socket.AF_UNIX) as stranger:
                    stranger.settimeout(WAIT_S)
                    stranger.connect(os.path.join(folder, "s.sock"))
                    os._exit(0 if stranger.recv(1) == b"" else 1)
            finally:
                os._exit(2)
        with Daemon(folder) as daemon:
            producer = daemon.producer(started())
            # As if folder and socket had not kept them out.
            os.chmod(folder, 0o711)
            os.chmod(daemon.path, 0o666)
            os.write(go_write, b"x")
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
            assert daemon.status()["connectionsRefused"] == 1
            assert daemon.status()["commands"] == 1
            producer.close()
    os.close(go_read)
    os.close(go_write)


def test_a_wait_longer_than_poll_can_count(tmp_path: Path) -> None:
    """Its milliseconds are an int: `sidecar cancel --wait 1000h` is no overflow."""

    def serve(connection: socket.socket) -> None:
        connection.recv(4096)
        connection.sendall(b'{"type":"snapshot"}\n')

    with listening(tmp_path, serve) as path:
        subscription = client.subscribe(path)
        assert subscription.next_within(1e9) == {"type": "snapshot"}
        subscription.close()
