"""The client's side: what it makes of daemons that are absent, mute, foreign or gone."""

import os
import socket
import subprocess
import sys
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
def test_somebody_else_is_turned_away(tmp_path: Path) -> None:
    code = "import socket, sys; s = socket.socket(socket.AF_UNIX); s.connect('s.sock'); sys.exit(len(s.recv(1)))"
    if not others_may_run(tmp_path):
        pytest.skip("somebody else may not run this interpreter, or not reach this folder")
    with Daemon(tmp_path) as daemon:
        producer = daemon.producer(started())
        # As if folder and socket had not kept them out.
        os.chmod(tmp_path, 0o711)
        os.chmod(daemon.path, 0o666)
        other = subprocess.run([sys.executable, "-ISc", code], cwd=tmp_path, user=12345, timeout=WAIT_S)
        assert other.returncode == 0
        assert daemon.status()["connectionsRefused"] == 1
        assert daemon.status()["commands"] == 1
        producer.close()


def others_may_run(folder: Path) -> bool:
    for parent in (folder, *folder.parents):
        if parent.stat().st_uid == os.getuid() and str(parent).startswith("/tmp/"):
            parent.chmod(0o711)
    try:
        subprocess.run([sys.executable, "-ISc", ""], cwd=folder, user=12345, check=True, timeout=WAIT_S)
    except (OSError, subprocess.SubprocessError):
        return False
    return True
