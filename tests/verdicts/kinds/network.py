"""Connections: with peers that live, are stopped, cut off, never there, or do not read."""

from __future__ import annotations

from tests.verdicts.helpers import Peer
from tests.verdicts.scenario import scenario
from tests.verdicts.stage import Stage


def _connect(stage: Stage, peer: Peer, mode: str = "read", *, remote: bool = False, stdin: str = "null") -> None:
    network = stage.theatre.network.client if remote else None
    stage.run(*stage.python("client.py", peer.host, peer.port, mode), network=network, stdin=stdin)


@scenario("network_wait")
def tcp_live_peer(stage: Stage) -> None:
    peer = stage.peer("hold")
    _connect(stage, peer, "ask")
    peer.expect("data")
    stage.rest()


@scenario("network_wait")
def tcp_peer_over_ipv6(stage: Stage) -> None:
    peer = stage.peer("hold", "::1")
    _connect(stage, peer, "ask")
    peer.expect("data")
    stage.rest()


@scenario("network_wait", needs=["root"])
def tcp_live_peer_afar(stage: Stage) -> None:
    peer = stage.remote_peer("hold")
    _connect(stage, peer, "ask", remote=True)
    peer.expect("data")
    stage.rest()


@scenario("network_wait", needs=["root"])
def tcp_live_peer_with_keepalive(stage: Stage) -> None:
    # Each second a probe is answered: traffic, and no transfer.
    peer = stage.remote_peer("hold")
    _connect(stage, peer, "keepalive", remote=True)
    stage.expect("connected")
    stage.rest()


@scenario("network_wait", needs=["root"])
def tcp_stopped_peer(stage: Stage) -> None:
    # The peer's kernel acknowledges; only its process is gone. From here that is a slow server.
    peer = stage.remote_peer("hold")
    peer.helper.stop()
    _connect(stage, peer, "ask", remote=True)
    stage.expect("connected")
    stage.rest()


@scenario("network_wait")
def tcp_stopped_peer_here(stage: Stage) -> None:
    peer = stage.peer("hold")
    peer.helper.stop()
    _connect(stage, peer, "ask")
    stage.expect("connected")
    stage.rest()


@scenario("network_wait", needs=["root"])
def tcp_cut_with_nothing_in_flight(stage: Stage) -> None:
    # Nothing was sent since: nobody can know yet.
    peer = stage.remote_peer("hold")
    _connect(stage, peer, "ask", remote=True)
    peer.expect("data")
    stage.rest()
    stage.theatre.network.cut(peer.host)


@scenario("network_wait")
def tcp_with_a_timeout(stage: Stage) -> None:
    peer = stage.peer("hold")
    _connect(stage, peer, "patient")
    peer.expect("accepted")
    stage.rest()


@scenario("network_wait", "polling")
def tcp_with_short_timeouts(stage: Stage) -> None:
    peer = stage.peer("hold")
    _connect(stage, peer, "retry")
    peer.expect("accepted")
    stage.rest(0.1)


@scenario("network_wait", "polling")
def tcp_heartbeats_only(stage: Stage) -> None:
    # 8 bytes three times a second keep a connection alive, and are no transfer.
    peer = stage.peer("tick")
    _connect(stage, peer)
    peer.expect("accepted")
    stage.rest(0)


@scenario("network_wait")
def tcp_of_many_threads(stage: Stage) -> None:
    peer = stage.peer("hold")
    stage.run(
        *stage.python(
            "import socket, sys, threading\n"
            "def read(): socket.create_connection((sys.argv[1], int(sys.argv[2]))).recv(1)\n"
            "ts = [threading.Thread(target=read) for _ in range(5)]\n[t.start() for t in ts]; [t.join() for t in ts]",
            peer.host,
            peer.port,
        )
    )
    peer.expect("accepted\n" * 5)
    stage.rest()


@scenario("network_wait")
def tcp_below_a_shell_and_a_pipe(stage: Stage) -> None:
    peer = stage.peer("hold")
    stage.run("sh", "-c", '"$@" | cat', "sh", *stage.python("client.py", peer.host, peer.port, "ask"))
    peer.expect("data")
    stage.rest()


@scenario("network_wait")
def tcp_in_asyncio(stage: Stage) -> None:
    peer = stage.peer("hold")
    stage.run(
        *stage.python(
            "import asyncio, sys\nasync def main():\n r, w = await asyncio.open_connection(*sys.argv[1:3])\n"
            " await r.read(1)\nasyncio.run(main())",
            peer.host,
            peer.port,
        )
    )
    peer.expect("accepted")
    stage.rest()


@scenario("network_wait", needs=["javac", "java"])
def tcp_in_java(stage: Stage) -> None:
    peer = stage.peer("hold")
    stage.run("java", "-cp", stage.program("Waits"), "Waits", "read", peer.host, peer.port)
    stage.expect("ready")
    stage.rest()


@scenario("network_wait", needs=["go"])
def tcp_in_go(stage: Stage) -> None:
    peer = stage.peer("hold")
    stage.run(stage.program("gowaits"), "read", f"{peer.host}:{peer.port}")
    stage.expect("ready")
    stage.rest()


@scenario("network_wait", needs=["node"])
def tcp_in_node(stage: Stage) -> None:
    peer = stage.peer("hold")
    stage.run("node", "-e", f"require('http').get('{peer.url}')")
    peer.expect("data")
    stage.rest()


@scenario("network_wait")
def tcp_beside_standard_input(stage: Stage) -> None:
    # As ssh and nc do: it passes its standard input on, and what it waits for is the answer.
    peer = stage.peer("hold")
    stage.run(
        *stage.python(
            "import select, socket, sys\ns = socket.create_connection((sys.argv[1], int(sys.argv[2])))\n"
            "s.sendall(b'x'); select.select([0, s], [], [])",
            peer.host,
            peer.port,
        ),
        stdin="pipe",
    )
    peer.expect("data")
    stage.rest()


@scenario("network_transfer")
def tcp_to_a_slow_reader(stage: Stage) -> None:
    # The window is closed again and again, and opens each time.
    peer = stage.peer("sip")
    _connect(stage, peer, "flood")
    peer.expect("data\ndata\ndata")


@scenario("network_wait")
def udp_without_an_answer(stage: Stage) -> None:
    stage.run(
        *stage.python(
            "import socket\n"
            "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.connect(('127.0.0.1', 9)); s.recv(1)"
        )
    )
    stage.rest()


@scenario("network_peer_dead", needs=["root"], hung=True)
def tcp_cut_with_data_in_flight(stage: Stage) -> None:
    peer = stage.remote_peer("hold")
    _connect(stage, peer, "send", remote=True, stdin="pipe")
    stage.expect("connected")
    stage.theatre.network.cut(peer.host)
    stage.tell("go\n")
    stage.expect("sent")
    stage.retransmits(peer.port, 3)


@scenario("network_peer_dead", needs=["root"], hung=True)
def tcp_cut_with_keepalive(stage: Stage) -> None:
    peer = stage.remote_peer("hold")
    _connect(stage, peer, "keepalive", remote=True)
    stage.expect("connected")
    stage.theatre.network.cut(peer.host)
    stage.probes(peer.port, 3)


@scenario("network_peer_dead", needs=["root", "curl"], hung=True)
def curl_upload_cut_off(stage: Stage) -> None:
    peer = stage.remote_peer("hold")
    big = stage.scratch / "big"
    big.write_bytes(b"x" * 30_000_000)
    big.chmod(0o644)
    client = stage.theatre.network.client
    stage.run("curl", "-sS", "--limit-rate", "100k", "-T", "big", peer.url, network=client)
    peer.expect("data")
    stage.theatre.network.cut(peer.host)
    stage.retransmits(peer.port, 3)


@scenario("network_connecting", needs=["root"], hung=True)
def connect_to_a_black_hole(stage: Stage) -> None:
    network = stage.theatre.network
    address = network.silent_address()
    stage.run(*stage.python("client.py", address, 4000), network=network.client)
    stage.connecting(4000)
    stage.rest()


@scenario("network_connecting", needs=["root", "curl"], hung=True)
def curl_to_a_black_hole(stage: Stage) -> None:
    network = stage.theatre.network
    stage.run("curl", "-sS", f"http://{network.silent_address()}:4001/", network=network.client)
    stage.connecting(4001)
    stage.rest()


@scenario("network_connecting", needs=["root", "ssh"], hung=True)
def ssh_to_a_black_hole(stage: Stage) -> None:
    network = stage.theatre.network
    stage.run(
        "ssh", "-p", "4002", "-o", "StrictHostKeyChecking=no", f"a@{network.silent_address()}", network=network.client
    )
    stage.connecting(4002)
    stage.rest()


@scenario("network_connecting", needs=["root", "git"], hung=True)
def git_to_a_black_hole(stage: Stage) -> None:
    network = stage.theatre.network
    stage.run("git", "ls-remote", f"git://{network.silent_address()}:4003/x", network=network.client)
    stage.connecting(4003)
    stage.rest()


@scenario("network_connecting", hung=True)
def connect_to_a_full_queue(stage: Stage) -> None:
    peer = stage.peer("backlog")
    peer.expect("full")
    _connect(stage, peer)
    stage.connecting(peer.port)
    stage.rest()


@scenario("network_connecting", needs=["root"], hung=True)
def connect_in_asyncio(stage: Stage) -> None:
    network = stage.theatre.network
    stage.run(
        *stage.python(
            "import asyncio, sys; asyncio.run(asyncio.open_connection(sys.argv[1], 4004))", network.silent_address()
        ),
        network=network.client,
    )
    stage.connecting(4004)
    stage.rest()


@scenario("network_peer_not_reading", hung=True)
def send_to_a_peer_that_does_not_read(stage: Stage) -> None:
    peer = stage.peer("mute")
    _connect(stage, peer, "flood")
    peer.expect("accepted")
    stage.rest(0.6)


@scenario("network_peer_not_reading", needs=["root"], hung=True)
def send_to_a_stopped_peer_afar(stage: Stage) -> None:
    peer = stage.remote_peer("hold")
    peer.helper.stop()
    _connect(stage, peer, "flood", remote=True)
    stage.expect("connected")
    stage.rest(0.6)


@scenario("network_peer_not_reading", needs=["curl"], hung=True)
def curl_upload_to_a_stopped_peer(stage: Stage) -> None:
    peer = stage.peer("mute")
    big = stage.scratch / "big"
    big.write_bytes(b"x" * 30_000_000)
    big.chmod(0o644)
    stage.run("curl", "-sS", "-T", "big", peer.url)
    peer.expect("accepted")
    stage.rest(1.2)
