"""Collectors that are not well, below the level of an answer: each a context manager that gives its address.

For those that do answer, and in the wrong way, see what can be set on `OtlpReceiver`.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_RESET_ON_CLOSE = struct.pack("ii", 1, 0)


@contextlib.contextmanager
def refusing() -> Iterator[str]:
    """Nobody listens there."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = _address(listener)
    yield address


@contextlib.contextmanager
def silent() -> Iterator[str]:
    """Takes connections, and never says a word."""
    with socket.create_server(("127.0.0.1", 0), backlog=512) as listener:
        yield _address(listener)


@contextlib.contextmanager
def cutting(after_bytes: int = 200) -> Iterator[str]:
    """Resets each connection once it has read so much: half way through a request."""

    def cut(connection: socket.socket) -> None:
        left = after_bytes
        while left > 0 and (data := connection.recv(left)):
            left -= len(data)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)

    with _serving(cut) as address:
        yield address


@contextlib.contextmanager
def babbling() -> Iterator[str]:
    """Answers whatever is asked with something that is not HTTP."""

    def babble(connection: socket.socket) -> None:
        connection.recv(1024)
        connection.sendall(b"SSH-2.0-OpenSSH_9.2\r\n" * 3)

    with _serving(babble) as address:
        yield address


@contextlib.contextmanager
def _serving(treat: Callable[[socket.socket], None]) -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0), backlog=512) as listener:
        thread = threading.Thread(target=_serve, args=(listener, treat), daemon=True)
        thread.start()
        yield _address(listener)
        # A close alone does not wake the thread up.
        listener.shutdown(socket.SHUT_RDWR)
    thread.join(5)


def _serve(listener: socket.socket, treat: Callable[[socket.socket], None]) -> None:
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        with connection, contextlib.suppress(OSError):
            connection.settimeout(5)
            treat(connection)


def _address(listener: socket.socket) -> str:
    return f"http://127.0.0.1:{listener.getsockname()[1]}"
