"""NETLINK_SOCK_DIAG: one request, all its answers. sock_diag(7), netlink(7).

Cost: an exact request about 15 microseconds, a dump about 5 per socket of the host. Privilege: none.
"""

import _socket
import os
import struct

_NETLINK_SOCK_DIAG = 4
_SOCK_DIAG_BY_FAMILY = 20
_DONE, _ERROR = 3, 2
_REQUEST, _DUMP = 0x1, 0x300
_HEADER = struct.Struct("=IHHII")
_ANSWER_AT_MOST = 1 << 18
_TIMEOUT_S = 0.5


def ask(request: bytes, is_dump: bool) -> list[bytes]:
    """The datagrams that answer, each one or more netlink messages (see `messages`). Raises OSError."""
    answers: list[bytes] = []
    # _socket: what `socket` adds to it is of no use here, and a megabyte.
    link = _socket.socket(_socket.AF_NETLINK, _socket.SOCK_RAW | _socket.SOCK_CLOEXEC, _NETLINK_SOCK_DIAG)
    try:
        link.settimeout(_TIMEOUT_S)
        flags = _REQUEST | (_DUMP if is_dump else 0)
        link.send(_HEADER.pack(_HEADER.size + len(request), _SOCK_DIAG_BY_FAMILY, flags, 1, 0) + request)
        while True:
            answer = link.recv(_ANSWER_AT_MOST)
            kind = _HEADER.unpack_from(answer)[1]
            if kind == _ERROR:
                code = struct.unpack_from("=i", answer, _HEADER.size)[0]
                raise OSError(-code, os.strerror(-code))
            if kind != _DONE:
                answers.append(answer)
            if not is_dump or kind == _DONE or _ends_with_done(answer):
                return answers
    finally:
        link.close()


def _ends_with_done(answer: bytes) -> bool:
    return len(answer) >= 20 and _HEADER.unpack_from(answer, len(answer) - 20)[:2] == (20, _DONE)


def messages(answer: bytes) -> list[bytes]:
    """The bodies of the messages in one datagram."""
    bodies, at = [], 0
    while at + _HEADER.size <= len(answer):
        size, kind = _HEADER.unpack_from(answer, at)[:2]
        if size < _HEADER.size:
            break
        if kind not in (_DONE, _ERROR):
            bodies.append(answer[at + _HEADER.size : at + size])
        at += (size + 3) & ~3
    return bodies


def attributes(body: bytes, at: int) -> dict[int, bytes]:
    """The attributes (netlink(7), rtattr) that follow a message's fixed part."""
    found: dict[int, bytes] = {}
    while at + 4 <= len(body):
        size, kind = struct.unpack_from("=HH", body, at)
        if size < 4:
            break
        found[kind & 0x3FFF] = body[at + 4 : at + size]
        at += (size + 3) & ~3
    return found
