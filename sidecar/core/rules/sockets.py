"""A wait on a socket: what is the other end, and does it answer? tcp(7), unix(7), linux/tcp.h (tcp_info).

A silent live peer and a dead one look the same while nothing is in flight: then we say when it was last heard.
"""

from sidecar.core.advice import first
from sidecar.core.evidence import WRITE, Descriptor, Process, Socket
from sidecar.core.finding import INFERRED, UNSURE
from sidecar.core.rules.scene import Scene, Wait
from sidecar.core.values import counted

UNANSWERED_RETRANSMITS = 2
UNANSWERED_PROBES = 2
CONNECTING_S = 10.0
"""An attempt without an answer for that long is in trouble: most that try again and again give up sooner."""
_DNS_PORT = 53


def wait_on_socket(scene: Scene, process: Process, found: Descriptor, wanted: str) -> Wait:
    """`wanted` is READ or WRITE."""
    record = scene.socket(found.inode)
    if record is None:
        return Wait("unknown", f"socket fd {found.number}, of a family or namespace that is not readable", UNSURE)
    if record.protocol == "unix":
        return _unix(scene, process, found, record)
    if record.protocol == "tcp":
        return _tcp_here(scene, process, found, record) or _tcp(scene, found, record, wanted)
    if record.protocol == "netlink":
        return Wait("ipc_wait", f"netlink socket fd {found.number}: an answer or an event of the kernel")
    peer = record.remote or "anybody"
    is_dns = record.protocol == "udp" and record.remote_port == _DNS_PORT
    what = "DNS server" if is_dns else record.protocol
    if not record.remote_port and record.protocol == "udp":
        return Wait("network_wait", f"udp socket fd {found.number} on {record.local}, for a datagram from anybody")
    return Wait("network_wait", f"{what} {peer}, fd {found.number}")


def _unix(scene: Scene, process: Process, found: Descriptor, record: Socket) -> Wait:
    if record.state == "LISTEN":
        return Wait("listening", f"listens on unix socket {record.path or '(unnamed)'}, fd {found.number}")
    peer = scene.socket(record.peer_inode) if record.peer_inode else None
    path = (peer.path if peer is not None else "") or record.path
    ends = scene.ends(f"socket:[{record.peer_inode}]") if record.peer_inode else []
    holders = sorted({end.pid for end in ends})
    if holders == [process.pid]:
        return Wait("event_idle", f"its own socket pair, fd {found.number}")
    inside = tuple(pid for pid in holders if pid in scene.alive and pid != process.pid)
    names = ", ".join(sorted({end.name for end in ends if end.pid != process.pid}))
    where = f" {path}" if path else ""
    text = f"unix socket fd {found.number}{where}, other end: {names or 'a process outside the tree'}"
    others = [end for end in ends if end.pid != process.pid]
    hint = first("ipc_wait, with a peer", peer=others[0].name, peer_pid=others[0].pid) if others else ""
    return Wait("ipc_wait", text, on=inside, is_guess=len(inside) < len(holders), hint=hint)


def _tcp_here(scene: Scene, process: Process, found: Descriptor, record: Socket) -> Wait | None:
    """A connection between processes of the command: the one at the other end decides."""
    if not record.peer_inode or record.state == "LISTEN":
        return None
    ends = scene.ends(f"socket:[{record.peer_inode}]")
    inside = tuple(sorted({end.pid for end in ends if end.pid in scene.alive and end.pid != process.pid}))
    if not inside:
        own = any(end.pid == process.pid for end in ends)
        return Wait("event_idle", f"its own connection to itself, fd {found.number}") if own else None
    queues = f", {_queued(record)} queued" if record.send_queue else ""
    text = f"tcp connection fd {found.number} to {scene.names(inside)} of the same command{queues}"
    return Wait("ipc_wait", text, on=inside, is_guess=any(end.pid not in scene.alive for end in ends))


def _least_age_s(record: Socket) -> float:
    """For how long at least the SYN goes unanswered: repeated each second, then after twice the time each time.

    tcp(7), tcp_syn_retries; ip-sysctl.rst, tcp_syn_linear_timeouts (4 by default since Linux 6.5, 0 before).
    """
    doubled = min(record.backoff, record.retransmits, 16)
    return float(record.retransmits - doubled + 2**doubled - 1)


def _tcp(scene: Scene, found: Descriptor, record: Socket, wanted: str) -> Wait:
    if record.state == "LISTEN":
        return Wait("listening", f"listens on tcp {record.local}, fd {found.number}")
    if record.state == "SYN_SENT":
        age_s = _least_age_s(record)
        text = f"connecting to {record.remote}, fd {found.number}: no answer, {record.retransmits} SYN repeated"
        hint = _first("network_connecting", record)
        if age_s < CONNECTING_S:
            return Wait("network_wait", text, hint=hint if record.retransmits else "")
        return Wait("network_connecting", f"{text} in at least {age_s:.0f} s", hint=hint, lasted_s=age_s)
    if record.state == "CLOSE_WAIT":
        return Wait("network_wait", f"{record.remote} has closed its side, fd {found.number} is still open")
    if record.state == "CLOSE":
        return Wait("event_idle", f"tcp socket fd {found.number} is not connected")
    ages = _ages(record)
    if record.timer == "zero_window" or (record.probes and record.timer != "keepalive" and record.send_queue):
        probes = counted(record.probes, "probe")
        text = f"{record.remote} does not read: window closed, {probes}, {_queued(record)} queued"
        hint = _first("network_peer_not_reading", record)
        return Wait("network_peer_not_reading", f"{text}; {ages}", hint=hint, lasted_s=_seconds(record.last_sent_ms))
    if record.timer == "retransmit" and record.retransmits >= UNANSWERED_RETRANSMITS:
        retransmits = counted(record.retransmits, "retransmit")
        text = f"{record.remote}: {retransmits} unanswered, {_queued(record)} in flight"
        hint = _first("network_peer_dead", record)
        return Wait("network_peer_dead", f"{text}; {ages}", hint=hint, lasted_s=_seconds(record.last_acknowledged_ms))
    if record.timer == "keepalive" and record.probes >= UNANSWERED_PROBES:
        text = f"{record.remote}: {counted(record.probes, 'keep-alive probe')} unanswered"
        hint = _first("network_peer_dead", record)
        return Wait("network_peer_dead", f"{text}; {ages}", hint=hint, lasted_s=_seconds(record.last_acknowledged_ms))
    if wanted == WRITE and record.peer_unread:
        unread = counted(record.peer_unread, "byte waits", "bytes wait")
        text = f"{record.remote} does not read: {unread} there, {record.send_queue} here"
        lasted_s = _seconds(record.last_sent_ms)
        hint = _first("network_peer_not_reading", record)
        return Wait("network_peer_not_reading", f"{text}; {ages}", INFERRED, hint=hint, lasted_s=lasted_s)
    alive = "" if record.timer == "keepalive" else "; no keep-alive, so a dead peer would look the same"
    unread = counted(record.peer_unread or 0, "byte") + " unread at the other end, on this host"
    unread = f"; {unread}" if record.peer_unread else ""
    return Wait("network_wait", f"{record.remote} {record.state}, fd {found.number}: {ages}{alive}{unread}")


def _first(verdict: str, record: Socket) -> str:
    host = record.remote.rpartition(":")[0].strip("[]")
    return first(verdict, address=record.remote, host=host, port=record.remote_port)


def _seconds(milliseconds: int | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000


def _queued(record: Socket) -> str:
    return counted(record.send_queue, "byte")


def _ages(record: Socket) -> str:
    if record.last_received_ms is None:
        return f"{_queued(record)} not acknowledged"
    sent, received, acknowledged = record.last_sent_ms, record.last_received_ms, record.last_acknowledged_ms
    text = f"last data in {seconds(received)} ago, out {seconds(sent)} ago, last ACK {seconds(acknowledged)} ago"
    return f"{text}, {_queued(record)} not acknowledged" if record.send_queue else text


def seconds(milliseconds: int | None) -> str:
    return "?" if milliseconds is None else f"{milliseconds / 1000:.1f} s"
