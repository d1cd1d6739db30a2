"""Run as the supervised command: writes what a process can know of its own world to the file in argv[1], as JSON."""

import errno
import fcntl
import json
import os
import resource
import stat
import struct
import sys
import termios

_KINDS = {
    stat.S_IFIFO: "pipe",
    stat.S_IFSOCK: "socket",
    stat.S_IFREG: "file",
    stat.S_IFCHR: "character device",
    stat.S_IFDIR: "folder",
}
_STATUS = ("SigBlk", "SigIgn", "Umask", "NoNewPrivs", "Seccomp", "Cpus_allowed", "CapInh", "CapPrm", "CapEff",
           "CapBnd", "CapAmb", "Uid", "Gid", "Groups", "CoreDumping", "THP_enabled")  # fmt: skip


def descriptors() -> dict[str, object]:
    found: dict[str, object] = {}
    opened = os.open("/proc/self/fd", os.O_RDONLY)
    for name in os.listdir(opened):
        number = int(name)
        if number == opened:
            continue
        try:
            status = os.fstat(number)
        except OSError:
            continue  # the listing's own
        kind = _KINDS.get(stat.S_IFMT(status.st_mode), "other")
        facts: dict[str, object] = {
            "kind": kind,
            "flags": fcntl.fcntl(number, fcntl.F_GETFL) & ~os.O_LARGEFILE if hasattr(os, "O_LARGEFILE") else
            fcntl.fcntl(number, fcntl.F_GETFL),
            "same as": [other for other in range(number) if _same(other, status)],
        }  # fmt: skip
        if kind == "file":
            facts["path"] = os.readlink(f"/proc/self/fd/{number}")
            facts["position"] = os.lseek(number, 0, os.SEEK_CUR)
        if kind == "character device":
            # Of a terminal only that it is one: the command's own has another number.
            facts["device"] = "terminal" if os.isatty(number) else status.st_rdev
        if kind == "socket":
            facts["socket"] = _socket_kind(number)
        found[name] = facts
    return found


def _same(number: int, status: os.stat_result) -> bool:
    try:
        other = os.fstat(number)
    except OSError:
        return False
    return (other.st_dev, other.st_ino, other.st_rdev) == (status.st_dev, status.st_ino, status.st_rdev)


def _socket_kind(number: int) -> list[int]:
    import socket

    sock = socket.socket(fileno=os.dup(number))
    with sock:
        return [int(sock.family), int(sock.type)]


def terminals() -> dict[str, object]:
    found: dict[str, object] = {}
    for number in range(3):
        try:
            size = struct.unpack("HHHH", fcntl.ioctl(number, termios.TIOCGWINSZ, bytes(8)))
            settings = termios.tcgetattr(number)[:4]
        except (OSError, termios.error) as error:
            found[str(number)] = errno.errorcode.get(error.args[0])
        else:
            found[str(number)] = [size[:2], settings]
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
        found["/dev/tty"] = "opens"
    except OSError as error:
        found["/dev/tty"] = errno.errorcode.get(error.errno or 0)
    return found


def foreground() -> object:
    try:
        return os.tcgetpgrp(0) == os.getpgrp()
    except OSError as error:
        return errno.errorcode.get(error.errno or 0)


def text(path: str) -> str:
    try:
        with open(path) as file:
            return file.read().strip()
    except OSError as error:
        return str(error)


def look() -> dict[str, object]:
    listed = descriptors()
    umask = os.umask(0)
    os.umask(umask)
    status = dict(line.split(":\t", 1) for line in text("/proc/self/status").splitlines() if ":\t" in line)
    limits = {
        name: resource.getrlimit(getattr(resource, name)) for name in dir(resource) if name.startswith("RLIMIT_")
    }
    ours = ("TRACEPARENT", "TRACESTATE", "W", "_", "SIDECAR_ACTIVE")
    return {
        "environ": {name: value for name, value in os.environ.items() if name not in ours},
        "descriptors": listed,
        "terminals": terminals(),
        "foreground": foreground(),
        "folder": os.getcwd(),
        "umask": umask,
        "limits": limits,
        "nice": os.getpriority(os.PRIO_PROCESS, 0),
        "scheduler": [os.sched_getscheduler(0), sorted(os.sched_getaffinity(0))],
        "oom_score_adj": text("/proc/self/oom_score_adj"),
        "coredump_filter": text("/proc/self/coredump_filter"),
        "timerslack_ns": text("/proc/self/timerslack_ns"),
        "status": {name: value for name, value in status.items() if name in _STATUS},
        "group": os.getpgrp(),
        "session": os.getsid(0),
        "pid": os.getpid(),
    }


with open(sys.argv[1] + ".new", "w") as _file:
    json.dump(look(), _file)
os.rename(sys.argv[1] + ".new", sys.argv[1])
