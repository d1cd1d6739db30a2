"""What the kernel knows of the sockets that threads wait on. sock_diag(7), linux/inet_diag.h, linux/unix_diag.h.

A unix socket is asked for by its inode. An internet socket can only be asked for by its addresses: these are found
once, in a dump that is searched for the inode's four bytes and not parsed, and remembered; from then on the question
is exact. Where netlink is not to be had, or the socket is in another network namespace, /proc/PID/net is read.

Cost: 20 microseconds an exact question; finding one, 1 to 3 ms per 1,000 sockets of the host. Privilege: none.
Cannot see: the socket is not in the answer.
"""

import _socket
import struct

from collectors import proc_net
from collectors.kernel import Kernel
from collectors.netlink import attributes, messages
from sidecar.core.evidence import Socket

_AF_UNIX, _AF_INET, _AF_INET6 = _socket.AF_UNIX, _socket.AF_INET, _socket.AF_INET6
_TCP, _UDP = _socket.IPPROTO_TCP, _socket.IPPROTO_UDP
_ALL_STATES = 0xFFF
_TIME_WAIT, _LISTEN = 1 << 6, 1 << 10
_SHOW_NAME, _SHOW_PEER, _SHOW_QUEUES = 0x1, 0x4, 0x10
_NO_COOKIE = struct.pack("=II", 0xFFFF_FFFF, 0xFFFF_FFFF)
_UNIX_NAME, _UNIX_PEER, _UNIX_QUEUES = 0, 2, 4
_INET_INFO_ATTRIBUTE, _INET_INFO_WANTED = 2, 1 << 1
_ID_AT, _ID_SIZE, _FIXED_SIZE, _INODE_AT = 4, 48, 72, 68
_TIMERS = {0: "", 1: "retransmit", 2: "keepalive", 3: "time_wait", 4: "zero_window"}
_Address = tuple[int, int, bytes]  # family, protocol, the 48 bytes of inet_diag_sockid


class Sockets:
    """Answers for one command's sockets; remembers the addresses of those it found. Keep it between looks."""

    def __init__(self) -> None:
        self._addresses: dict[int, _Address] = {}

    def look_up(self, kernel: Kernel, wanted: dict[int, int]) -> dict[int, Socket]:
        """`wanted` is {inode: a pid that has it}. A unix socket's other end comes along, under its own inode."""
        found: dict[int, Socket] = {}
        missing: dict[int, int] = {}
        for inode, pid in wanted.items():
            record = self._known(kernel, inode) or unix_socket(kernel, inode)
            if record is None:
                missing[inode] = pid
                continue
            found[inode] = record
            if record.peer_inode and record.peer_inode not in found:
                peer = unix_socket(kernel, record.peer_inode)
                if peer is not None:
                    found[record.peer_inode] = peer
        if missing:
            self._find(kernel, missing, found)
        for inode, record in found.items():
            address = self._addresses.get(inode)
            if address is not None and record.protocol == "tcp":
                record.peer_inode, record.peer_unread = _peer_here(kernel, address)
        self._addresses = {inode: address for inode, address in self._addresses.items() if inode in wanted}
        return found

    def _known(self, kernel: Kernel, inode: int) -> Socket | None:
        address = self._addresses.get(inode)
        if address is None:
            return None
        body = _exact(kernel, address)
        return _inet_socket(body, address[1]) if body is not None and _inode_of(body) == inode else None

    def _find(self, kernel: Kernel, missing: dict[int, int], found: dict[int, Socket]) -> None:
        left = dict(missing)
        for family in (_AF_INET, _AF_INET6):
            for protocol in (_TCP, _UDP):
                for body in _dump_for(kernel, family, protocol, left) if left else ():
                    inode = _inode_of(body)
                    address = (body[0], protocol, body[_ID_AT : _ID_AT + _ID_SIZE])
                    exact = _exact(kernel, address) if protocol == _TCP else None
                    is_same = exact is not None and _inode_of(exact) == inode
                    found[inode] = _inet_socket(exact if exact is not None and is_same else body, protocol)
                    if is_same:
                        self._addresses[inode] = address
                    del left[inode]
        if left:
            found.update(proc_net.look_up(kernel, left))


def unix_socket(kernel: Kernel, inode: int) -> Socket | None:
    """One unix socket; None where the inode is none of a unix socket of our network namespace."""
    show = _SHOW_NAME | _SHOW_PEER | _SHOW_QUEUES
    request = struct.pack("=BBHIII", _AF_UNIX, 0, 0, 0xFFFF_FFFF, inode, show) + _NO_COOKIE
    for answer in kernel.socket_diagnosis(request, is_dump=False) or ():
        for body in messages(answer):
            if len(body) < 16 or struct.unpack_from("=I", body, 4)[0] != inode:
                continue
            found = attributes(body, 16)
            record = Socket(inode, "unix", state="LISTEN" if body[2] == 10 else "ESTABLISHED")
            name = found.get(_UNIX_NAME, b"")
            record.path = name.replace(b"\0", b"@").rstrip(b"@").decode("utf-8", "replace")
            if len(found.get(_UNIX_PEER, b"")) >= 4:
                record.peer_inode = struct.unpack("=I", found[_UNIX_PEER][:4])[0]
            if len(found.get(_UNIX_QUEUES, b"")) >= 8:
                record.receive_queue, record.send_queue = struct.unpack("=II", found[_UNIX_QUEUES][:8])
            return record
    return None


def _request(family: int, protocol: int, wanted: int, states: int, identity: bytes) -> bytes:
    return struct.pack("=BBBBI", family, protocol, wanted, 0, states) + identity


def _exact(kernel: Kernel, address: _Address) -> bytes | None:
    family, protocol, identity = address
    request = _request(family, protocol, _INET_INFO_WANTED, _ALL_STATES, identity)
    for answer in kernel.socket_diagnosis(request, is_dump=False) or ():
        for body in messages(answer):
            if len(body) >= _FIXED_SIZE:
                return body
    return None


def _dump_for(kernel: Kernel, family: int, protocol: int, wanted: dict[int, int]) -> list[bytes]:
    """The messages about the wanted inodes. Only a datagram that has the bytes of one is taken apart."""
    states = _ALL_STATES & ~_TIME_WAIT
    request = _request(family, protocol, 0, states, b"\0" * (_ID_SIZE - 8) + _NO_COOKIE)
    needles = [(inode, struct.pack("=I", inode)) for inode in wanted]
    hits: dict[int, bytes] = {}
    for answer in kernel.socket_diagnosis(request, is_dump=True) or ():
        if any(needle in answer for _, needle in needles):
            for body in messages(answer):
                if len(body) >= _FIXED_SIZE and _inode_of(body) in wanted:
                    hits[_inode_of(body)] = body
    return list(hits.values())


def _inode_of(body: bytes) -> int:
    return int(struct.unpack_from("=I", body, _INODE_AT)[0])


def _inet_socket(body: bytes, protocol: int) -> Socket:
    """struct inet_diag_msg, and struct tcp_info (linux/tcp.h) where it was asked for."""
    family, state, timer, retransmits = body[:4]
    local_port, remote_port = struct.unpack_from("!HH", body, 4)
    width = 4 if family == _AF_INET else 16
    local, remote = body[8 : 8 + width], body[24 : 24 + width]
    timer_left_ms, receive_queue, send_queue, _, inode = struct.unpack_from("=IIIII", body, 52)
    record = Socket(
        inode,
        "tcp" if protocol == _TCP else "udp",
        state=proc_net.STATES.get(state, ""),
        local=proc_net.endpoint(family, local, local_port),
        remote=proc_net.endpoint(family, remote, remote_port) if remote_port else "",
        remote_port=remote_port,
        receive_queue=receive_queue,
        send_queue=send_queue,
        timer=_TIMERS.get(timer, ""),
        timer_left_ms=timer_left_ms,
        retransmits=retransmits if timer == 1 else 0,
    )
    info = attributes(body, _FIXED_SIZE).get(_INET_INFO_ATTRIBUTE, b"")
    if protocol == _TCP and len(info) >= 104:
        record.retransmits, record.probes, record.backoff = info[2], info[3], info[4]
        words = struct.unpack_from("=24I", info, 8)
        record.unacknowledged = words[4]
        record.last_sent_ms, record.last_received_ms, record.last_acknowledged_ms = words[9], words[11], words[12]
        if len(info) >= 136:
            record.bytes_sent, record.bytes_received = struct.unpack_from("=QQ", info, 120)
    return record


def _peer_here(kernel: Kernel, address: _Address) -> tuple[int | None, int | None]:
    """The other end's inode (None: it is not accepted yet) and the bytes that wait there, where it is on this host."""
    family, protocol, identity = address
    swapped = identity[2:4] + identity[0:2] + identity[20:36] + identity[4:20] + b"\0" * 4 + _NO_COOKIE
    if family == _AF_INET and identity[4:5] != b"\x7f" and identity[4:8] != identity[20:24]:
        return None, None  # not of this host: a question would be wasted
    if family == _AF_INET6 and identity[4:20] != identity[20:36]:
        return None, None
    body = _exact(kernel, (family, protocol, swapped))
    if body is None or body[4:6] != identity[2:4] or body[6:8] != identity[0:2]:
        return None, None
    return _inode_of(body) or None, int(struct.unpack_from("=I", body, 56)[0])
