"""Real sockets of this process, as sock_diag and as the text tables tell them."""

import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from collectors import proc_net
from collectors.kernel import Kernel
from collectors.sockets import Sockets, unix_socket
from sidecar.core.evidence import Socket


@pytest.fixture
def opened() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def inode(one: socket.socket) -> int:
    return os.fstat(one.fileno()).st_ino


def look_up(one: socket.socket, *, denied: frozenset[str] = frozenset()) -> Socket:
    return Sockets().look_up(Kernel(denied=denied), {inode(one): os.getpid()})[inode(one)]


@pytest.mark.parametrize("denied", [frozenset(), frozenset({"netlink"})])
@pytest.mark.parametrize(("family", "host"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")])
def test_tcp(opened: ExitStack, family: int, host: str, denied: frozenset[str]) -> None:
    try:
        server = opened.enter_context(socket.create_server((host, 0), family=family))
    except OSError:
        pytest.skip(f"no {host} on this machine")
    port = server.getsockname()[1]
    client = opened.enter_context(socket.create_connection((host, port)))
    shown = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    listening, connected = look_up(server, denied=denied), look_up(client, denied=denied)
    assert (listening.protocol, listening.state, listening.local) == ("tcp", "LISTEN", shown)
    assert (connected.state, connected.remote, connected.remote_port) == ("ESTABLISHED", shown, port)
    assert (connected.last_received_ms is None) == bool(denied)  # only sock_diag tells ages


def test_a_socket_found_once_is_asked_for_exactly(opened: ExitStack) -> None:
    server = opened.enter_context(socket.create_server(("127.0.0.1", 0)))
    client = opened.enter_context(socket.create_connection(server.getsockname()))
    peer, _ = server.accept()
    opened.enter_context(peer)
    dumps: list[bool] = []

    class Counting(Kernel):
        def socket_diagnosis(self, request: bytes, is_dump: bool) -> list[bytes] | None:
            dumps.append(is_dump)
            return super().socket_diagnosis(request, is_dump)

    sockets, kernel, wanted = Sockets(), Counting(), {inode(client): os.getpid()}
    before = sockets.look_up(kernel, wanted)[inode(client)]
    assert any(dumps)
    dumps.clear()
    peer.sendall(b"x" * 500)
    client.sendall(b"y" * 300)
    # On a busy machine the kernel may take its time even on loopback. Looked at, and not taken.
    assert len(client.recv(500, socket.MSG_PEEK | socket.MSG_WAITALL)) == 500
    assert len(peer.recv(300, socket.MSG_PEEK | socket.MSG_WAITALL)) == 300
    after = sockets.look_up(kernel, wanted)[inode(client)]
    assert not any(dumps)
    assert before.bytes_received is not None
    assert after.bytes_received == before.bytes_received + 500
    assert (after.bytes_sent or 0) - (before.bytes_sent or 0) == 300
    assert after.peer_unread == 300


@pytest.mark.parametrize("denied", [frozenset(), frozenset({"netlink"})])
def test_udp(opened: ExitStack, denied: frozenset[str]) -> None:
    client = opened.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
    client.connect(("127.0.0.1", 53))
    found = look_up(client, denied=denied)
    assert (found.protocol, found.remote, found.remote_port) == ("udp", "127.0.0.1:53", 53)


def test_a_unix_socket_and_its_other_end(opened: ExitStack, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = str(tmp_path_factory.mktemp("s") / "s")
    server = opened.enter_context(socket.socket(socket.AF_UNIX))
    server.bind(path)
    server.listen()
    client = opened.enter_context(socket.socket(socket.AF_UNIX))
    client.connect(path)
    accepted, _ = server.accept()
    opened.enter_context(accepted)
    found = Sockets().look_up(Kernel(), {inode(client): os.getpid()})
    assert found[inode(client)].peer_inode == inode(accepted)
    assert found[inode(accepted)].path == path
    listening = unix_socket(Kernel(), inode(server))
    assert listening is not None
    assert (listening.state, listening.path) == ("LISTEN", path)


def test_an_inode_that_is_no_socket_is_not_found() -> None:
    assert Sockets().look_up(Kernel(), {1: os.getpid()}) == {}


def test_an_address_that_came_over_ipv6_is_shown_as_ipv4() -> None:
    mapped = b"\0" * 10 + b"\xff\xff" + bytes([192, 0, 2, 1])
    assert proc_net.endpoint(socket.AF_INET6, mapped, 443) == "192.0.2.1:443"
