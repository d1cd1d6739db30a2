"""What may wake a process from outside: the signals it handles, its tracer, its POSIX timers. proc(5): status, timers.

Cost: 5 microseconds a process, 2 more for the timers. Privilege: none for status; ptrace access for timers. Cannot see:
None. An interval timer (setitimer, alarm) is visible nowhere.
"""

from collectors.kernel import Kernel
from sidecar.core.evidence import Process


def read_dispositions(kernel: Kernel, process: Process) -> None:
    """Which signals it handles, and who traces it."""
    if process.handled_signals is not None:
        return
    status = kernel.read(f"{process.pid}/status") or b""
    handled = _field(status, b"\nSigCgt:", 16)
    if handled is not None:
        process.handled_signals = frozenset(bit + 1 for bit in range(64) if handled >> bit & 1)
    process.tracer = _field(status, b"\nTracerPid:", 10)


def read_timers(kernel: Kernel, process: Process) -> None:
    """How many POSIX timers it has, armed or not. timeout(1) has one."""
    if process.pending_timers is None:
        timers = kernel.read(f"{process.pid}/timers")
        process.pending_timers = None if timers is None else timers.count(b"ID:")


def _field(status: bytes, name: bytes, base: int) -> int | None:
    at = status.find(name)
    if at < 0:
        return None
    end = status.find(b"\n", at + 1)
    try:
        return int(status[at + len(name) : end if end >= 0 else len(status)], base)
    except ValueError:
        return None
