"""The few things that the stage itself reads of /proc: own code, so that a fault of the product's senses cannot hide
here."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterable
from typing import NamedTuple


class Activity(NamedTuple):
    """What shows that a tree did something: CPU ticks by thread, and whether any thread is runnable."""

    ticks: dict[int, int]
    running: bool


class Link(NamedTuple):
    """A TCP connection, by /proc/PID/net/tcp (Documentation/networking/proc_net_tcp.rst)."""

    state: str
    retransmits: int
    probes: int


def links(pid: int, port: int) -> list[Link]:
    """The connections to that remote port in the network namespace of `pid`."""
    found = []
    states = {"01": "ESTABLISHED", "02": "SYN_SENT", "04": "FIN_WAIT1"}
    for table in ("tcp", "tcp6"):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/net/{table}") as file:
            for line in file.readlines()[1:]:
                fields = line.split()
                if int(fields[2].split(":")[1], 16) == port:
                    found.append(Link(states.get(fields[3], fields[3]), int(fields[6], 16), int(fields[8])))
    return found


def _stat(path: str) -> list[str] | None:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            text = file.read()
    except OSError:
        return None
    return text[text.rindex(")") + 2 :].split()


def state(pid: int) -> str | None:
    """The state letter of the process, None where there is none."""
    fields = _stat(f"/proc/{pid}/stat")
    return fields[0] if fields else None


def name(pid: int) -> str | None:
    """Its name (comm)."""
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as file:
            return file.read().rstrip("\n")
    except OSError:
        return None


def descendants(pid: int) -> list[int]:
    """All below `pid`, by the kernel's lists of children."""
    found, todo = [], [pid]
    while todo:
        parent = todo.pop()
        with contextlib.suppress(OSError):
            for thread in os.listdir(f"/proc/{parent}/task"):
                with contextlib.suppress(OSError), open(f"/proc/{parent}/task/{thread}/children") as file:
                    children = [int(word) for word in file.read().split()]
                    found += children
                    todo += children
    return found


def activity(pids: Iterable[int]) -> Activity:
    ticks, running = {}, False
    for pid in pids:
        with contextlib.suppress(OSError):
            for thread in os.listdir(f"/proc/{pid}/task"):
                fields = _stat(f"/proc/{pid}/task/{thread}/stat")
                if fields:
                    ticks[int(thread)] = int(fields[11]) + int(fields[12])
                    running = running or fields[0] == "R"
    return Activity(ticks, running)


def cpu_ticks(pids: Iterable[int]) -> int:
    """CPU of all of them, with that of their reaped children."""
    return sum(sum(map(int, fields[11:15])) for pid in pids if (fields := _stat(f"/proc/{pid}/stat")))


def run_delay_ns(pids: Iterable[int]) -> int:
    """For how long all their threads were runnable and did not run (Documentation/scheduler/sched-stats.rst)."""
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            for thread in os.listdir(f"/proc/{pid}/task"):
                with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{thread}/schedstat") as file:
                    total += int(file.read().split()[1])
    return total


def kill_tree(pids: Iterable[int]) -> None:
    for pid in pids:
        for number in (signal.SIGKILL, signal.SIGCONT):
            with contextlib.suppress(OSError):
                os.kill(pid, number)
