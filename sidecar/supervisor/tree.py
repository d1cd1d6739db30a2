"""The command's process tree, to stop it and to count what is left of it.

We are a subreaper, so everything that the command started and that is still there is a descendant of ours,
also what called setsid or lost its parent. Source: proc(5), /proc/PID/task/TID/children, else a scan of stat.
"""

import os


def descendants(root_pid: int, proc: str = "/proc") -> list[int]:
    """All living descendants of `root_pid`, parents before children; zombies are left out. [] without /proc."""
    found: list[int] = []
    queue = [root_pid]
    seen = {root_pid}
    while queue:
        for child in _children(queue.pop(0), proc):
            if child not in seen:
                seen.add(child)
                queue.append(child)
                if not _is_zombie(child, proc):
                    found.append(child)
    return found


def _children(pid: int, proc: str) -> list[int]:
    try:
        threads = os.listdir(f"{proc}/{pid}/task")
    except OSError:
        return []
    children: list[int] = []
    for thread in threads:
        try:
            with open(f"{proc}/{pid}/task/{thread}/children", "rb") as file:
                children += map(int, file.read().split())
        except FileNotFoundError:
            if not os.path.exists(f"{proc}/self/task/{os.getpid()}/children"):
                return _children_by_scan(pid, proc)  # a kernel without CONFIG_PROC_CHILDREN
        except (OSError, ValueError):
            continue
    return children


def _children_by_scan(pid: int, proc: str) -> list[int]:
    return [int(name) for name in os.listdir(proc) if name.isdigit() and _stat(int(name), proc)[1] == pid]


def _is_zombie(pid: int, proc: str) -> bool:
    return _stat(pid, proc)[0] in ("Z", "X")


def _stat(pid: int, proc: str) -> tuple[str, int]:
    """(state, parent pid); ("X", 0) for one that is gone. The name in stat may hold anything, `)` included."""
    try:
        with open(f"{proc}/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        return fields[0].decode("ascii", "replace"), int(fields[1])
    except (OSError, ValueError, IndexError):
        return "X", 0


def in_words(pid: int, proc: str = "/proc") -> str:
    """`4711 dd (D, uninterruptible)`."""
    try:
        with open(f"{proc}/{pid}/comm", "rb") as file:
            name = file.read().decode("utf-8", "replace").strip()
    except OSError:
        name = "?"
    state = _stat(pid, proc)[0]
    return f"{pid} {name} ({state}{', uninterruptible' if state == 'D' else ''})"


def signal_all(pids: list[int], number: int) -> int:
    """Send to each; returns to how many it could be sent."""
    sent = 0
    for pid in pids:
        try:
            os.kill(pid, number)
            sent += 1
        except OSError:
            continue
    return sent


def outside_group(pids: list[int]) -> list[int]:
    """Those that are not of our own process group."""
    ours = os.getpgrp()
    outside = []
    for pid in pids:
        try:
            if os.getpgid(pid) != ours:
                outside.append(pid)
        except OSError:
            continue
    return outside
