"""Neither system call nor kernel function readable, as under gVisor: what descriptors and the terminal still tell."""

from __future__ import annotations

import pytest

from sidecar.core.evidence import Descriptor, Look, Process, Socket, Terminal, Thread
from sidecar.core.finding import INFERRED, Verdict
from sidecar.core.verdict import judge
from sidecar.core.verdict_names import MAY_BE_HUNG

_TTY_DEVICE = 136 << 8
_LISTENER = Socket(5, "tcp", "LISTEN", "127.0.0.1:80")
_CONNECTION = Socket(6, "tcp", "ESTABLISHED", "127.0.0.1:4000", "127.0.0.1:80", 80)


def test_a_process_that_stood_still_waits_for_the_one_kind_of_thing_it_has_open() -> None:
    assert _name(_LISTENER) == "listening"
    assert _name(_CONNECTION) == "network_wait"
    assert _verdict(_LISTENER).confidence == INFERRED


def test_one_that_ran_may_poll_or_be_served() -> None:
    assert _name(_LISTENER, runs=2) == "unknown"
    assert _name(_CONNECTION, runs=2) == "unknown"


def test_things_of_two_kinds_are_not_told_apart() -> None:
    assert _name(_LISTENER, _CONNECTION) == "unknown"
    assert _name(_LISTENER, terminal=Terminal("/dev/pts/0")) == "unknown"


@pytest.mark.parametrize(
    "socket",
    [
        Socket(6, "tcp", "SYN_SENT", "127.0.0.1:4000", "10.0.0.1:80", 80, timer="retransmit", retransmits=4),
        Socket(6, "tcp", "ESTABLISHED", "127.0.0.1:4000", "10.0.0.1:80", 80, timer="retransmit", retransmits=4),
        Socket(6, "tcp", "ESTABLISHED", "127.0.0.1:4000", "10.0.0.1:80", 80, timer="zero_window", send_queue=9),
    ],
    ids=["connecting", "dead peer", "closed window"],
)
def test_a_hang_is_never_said_of_a_mere_descriptor(socket: Socket) -> None:
    assert _name(socket) not in MAY_BE_HUNG


def test_a_connection_in_the_making_may_be_slow_or_in_trouble() -> None:
    assert _name(Socket(6, "tcp", "SYN_SENT", "127.0.0.1:4000", "10.0.0.1:80", 80, retransmits=1)) == "unknown"


def test_a_socket_pair_may_be_its_own() -> None:
    assert _name(Socket(6, "unix", "CONNECTED")) == "unknown"


def test_keys_one_by_one_in_the_foreground_are_a_prompt() -> None:
    keys = Terminal("/dev/pts/0", echo=False, canonical=False)
    assert _name(terminal=keys) == "awaiting_input"
    assert _name(terminal=keys, runs=2) == "unknown"
    assert _name(terminal=Terminal("/dev/pts/0")) == "unknown"
    assert _name(terminal=Terminal("/dev/pts/3", canonical=False)) == "unknown"


def _name(*sockets: Socket, terminal: Terminal | None = None, runs: int = 1) -> str:
    return _verdict(*sockets, terminal=terminal, runs=runs).name


def _verdict(*sockets: Socket, terminal: Terminal | None = None, runs: int = 1) -> Verdict:
    return judge(_look(0, sockets, terminal, 1), _look(1_000_000_000, sockets, terminal, runs))


def _look(moment_ns: int, sockets: tuple[Socket, ...], terminal: Terminal | None, runs: int) -> Look:
    thread = Thread(10, "S", cpu_ns=0, run_delay_ns=0, runs=runs)
    process = Process(10, 1, "server", "S", group=10, threads={10: thread}, all_descriptors=True)
    process.descriptors = {0: Descriptor(0, "/dev/null", "device")}
    for number, socket in enumerate(sockets, 3):
        process.descriptors[number] = Descriptor(number, f"socket:[{socket.inode}]", "socket", inode=socket.inode)
    if terminal is not None:
        process.terminal, process.foreground_group = _TTY_DEVICE, 10
        process.descriptors[0] = Descriptor(0, terminal.name, "terminal")
    records = {socket.inode: socket for socket in sockets}
    return Look(moment_ns, 10, {10: process}, sockets=records, terminal=terminal, is_detailed=True)
