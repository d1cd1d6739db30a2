"""Sockets from the text tables /proc/PID/net/{tcp,tcp6,udp,udp6,unix,icmp,raw,netlink}: proc(5).

The fallback where netlink is not to be had (gVisor), and the only way into another network namespace. They tell
less: no ages, no byte counts. Cost: 3 ms per 1,000 sockets. Privilege: none for one's own namespace.
"""

import _socket
import struct

from collectors.kernel import Kernel
from sidecar.core.evidence import Socket

STATES = {
    1: "ESTABLISHED",
    2: "SYN_SENT",
    3: "SYN_RECV",
    4: "FIN_WAIT1",
    5: "FIN_WAIT2",
    6: "TIME_WAIT",
    7: "CLOSE",
    8: "CLOSE_WAIT",
    9: "LAST_ACK",
    10: "LISTEN",
    11: "CLOSING",
}
_TIMERS = {1: "retransmit", 2: "keepalive", 3: "time_wait", 4: "zero_window"}
_TABLES = ("tcp", "tcp6", "udp", "udp6", "unix", "icmp", "icmp6", "raw", "raw6", "netlink")
_TICKS_PER_SECOND = 100  # these tables count in USER_HZ


def endpoint(family: int, address: bytes, port: int) -> str:
    """`192.0.2.1:443` or `[2001:db8::1]:443`; an IPv4 address that came over IPv6 is shown as IPv4."""
    if family == _socket.AF_INET:
        return f"{_socket.inet_ntop(_socket.AF_INET, address)}:{port}"
    if address[:12] == b"\0" * 10 + b"\xff\xff":
        return f"{_socket.inet_ntop(_socket.AF_INET, address[12:])}:{port}"
    return f"[{_socket.inet_ntop(_socket.AF_INET6, address)}]:{port}"


def look_up(kernel: Kernel, wanted: dict[int, int]) -> dict[int, Socket]:
    """Those of `wanted` ({inode: pid}) that the tables have."""
    found: dict[int, Socket] = {}
    by_pid: dict[int, set[int]] = {}
    for inode, pid in wanted.items():
        by_pid.setdefault(pid, set()).add(inode)
    for pid, inodes in by_pid.items():
        for table in _TABLES:
            left = inodes - found.keys()
            if left:
                data = kernel.read(f"{pid}/net/{table}")
                if data is not None:
                    _search(table, data, left, found)
    return found


def _search(table: str, data: bytes, wanted: set[int], found: dict[int, Socket]) -> None:
    for inode in wanted:
        needle = b" %d" % inode
        at = data.find(needle)
        while at >= 0:
            start = data.rfind(b"\n", 0, at) + 1
            end = data.find(b"\n", at)
            record = _parse(table, data[start : end if end >= 0 else len(data)], inode)
            if record is not None:
                found[inode] = record
                if record.protocol == "tcp" and record.remote:
                    record.peer_inode = _peer_in(table, data, data[start : end if end >= 0 else len(data)])
                break
            at = data.find(needle, at + 1)


def _peer_in(table: str, data: bytes, line: bytes) -> int | None:
    """The inode of the connection's other end, if that is in the same table."""
    local, remote = line.split()[1:3]
    at = data.find(b" %s %s " % (remote, local))
    fields = data[at : data.find(b"\n", at)].split() if at >= 0 else []
    return int(fields[8]) or None if len(fields) > 8 and fields[8].isdigit() else None


def _parse(table: str, line: bytes, inode: int) -> Socket | None:
    fields = line.decode("utf-8", "replace").split()
    try:
        if table == "unix":
            if int(fields[6]) != inode:
                return None
            state = "LISTEN" if int(fields[3], 16) & 0x10000 else "ESTABLISHED"
            return Socket(inode, "unix", state=state, path=fields[7] if len(fields) > 7 else "")
        if table == "netlink":
            return Socket(inode, "netlink") if int(fields[9]) == inode else None
        if int(fields[9]) != inode:
            return None
        is_tcp = table.startswith("tcp")
        send, receive = (int(part, 16) for part in fields[4].split(":"))
        timer, left = (int(part, 16) for part in fields[5].split(":"))
        remote, remote_port = _address(fields[2])
        return Socket(
            inode,
            table.rstrip("6"),
            state=STATES.get(int(fields[3], 16), "") if is_tcp else "",
            local=_address(fields[1])[0],
            remote=remote if remote_port or not is_tcp else "",
            remote_port=remote_port,
            receive_queue=receive,
            send_queue=send,
            timer=_TIMERS.get(timer, "") if is_tcp else "",
            timer_left_ms=left * 1000 // _TICKS_PER_SECOND,
            retransmits=int(fields[6], 16) if is_tcp else 0,
            probes=int(fields[8]) if is_tcp else 0,
        )
    except (IndexError, ValueError):
        return None


def _address(text: str) -> tuple[str, int]:
    """`0100007F:1F90`: 32-bit words in the host's byte order, the port in hexadecimal."""
    address, _, port = text.partition(":")
    raw = b"".join(struct.pack("=I", int(address[at : at + 8], 16)) for at in range(0, len(address), 8))
    family = _socket.AF_INET if len(raw) == 4 else _socket.AF_INET6
    return endpoint(family, raw, int(port, 16)), int(port, 16)
