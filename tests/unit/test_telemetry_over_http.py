"""One try over HTTP ends in time, whatever the other side does."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from sidecar.telemetry.answers import Outcome
from sidecar.telemetry.over_http import OverHttp
from sidecar.telemetry.targets import Target

_PAUSE_S = 0.02
_WAIT_S = 60.0


@contextmanager
def trickling(enough: threading.Event) -> Iterator[int]:
    """A server whose first answer never ends, a byte at a time, until `enough`; the others are whole."""
    ended = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            number = 0
            while not ended.is_set():
                peer, _ = listener.accept()
                with peer:
                    peer.recv(65536)
                    number += 1
                    try:
                        peer.sendall(b"HTTP/1.1 200 OK\r\nx-slow: ")
                        while number == 1 and not enough.wait(_PAUSE_S):
                            peer.sendall(b"x")
                        peer.sendall(b"\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
                    except OSError:
                        pass

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listener.getsockname()[1]
        enough.set()
        ended.set()
        socket.create_connection(listener.getsockname()).close()
        thread.join(_WAIT_S)


def test_an_answer_that_trickles_is_not_waited_for_without_end() -> None:
    enough = threading.Event()
    with trickling(enough) as port:
        way = OverHttp("traces", Target("http/protobuf", f"http://127.0.0.1:{port}/v1/traces", 1.0, True))
        first = way.send(b"body", 1.5)
        assert (first.outcome, first.error_type) == (Outcome.LATER, "TimeoutError")
        assert first.reason == "timed out: no whole answer within 1.5 s"
        second = way.send(b"body", 0.1)
        assert second.outcome is Outcome.LATER, "the first is under way still, and there is no other beside it"
        assert [thread.name for thread in threading.enumerate()].count("sidecar-post") == 1
        enough.set()
        assert way.send(b"body", _WAIT_S).outcome is Outcome.TAKEN
