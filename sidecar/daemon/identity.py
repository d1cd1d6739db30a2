"""Which process a pid means: a pid alone is one in each pid namespace, and is used again."""

import os
from typing import Any


def started_ticks(pid: int) -> int | None:
    """When the process was started, in clock ticks since boot (proc_pid_stat(5), field 22), which are the same in all
    pid namespaces. None where there is no such process, no /proc, or where it has ended and only was not waited for."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            state, *fields = file.read().rpartition(b") ")[2].split()
        return None if state in (b"Z", b"X") else int(fields[18])
    except (OSError, ValueError, IndexError):
        return None


def stopping() -> dict[str, Any]:
    """The answer to a request to stop: who will be gone then."""
    answer: dict[str, Any] = {"type": "stopping", "pid": os.getpid()}
    ticks = started_ticks(os.getpid())
    return answer if ticks is None else {**answer, "startedTicks": ticks}


def is_alive(pid: int, ticks: int | None) -> bool:
    """Whether the process that was `pid` when it said its own `ticks` still runs, as far as can be seen from here."""
    if ticks is not None:
        return started_ticks(pid) == ticks
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True
