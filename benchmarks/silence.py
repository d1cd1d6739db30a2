"""Silence: the CPU time that an hour of it costs the supervisor, with a look and a heartbeat every 10 s."""

import os
import signal
import time

from benchmarks.installation import Installation

LIMIT_S = 2.0
SHORT_S, LONG_S = 6, 36
LOOKS_AN_HOUR = 360


def measure(installed: Installation) -> dict[str, float | str]:
    """Two supervisors that differ in how long they last; every 3 s a beat with its look, as with 10 s."""
    pids = [_start(installed, seconds) for seconds in (SHORT_S, LONG_S)]
    short_s, long_s = (_cpu_s(pid) for pid in pids)
    looks = (LONG_S - SHORT_S) // 3
    hour_s = (long_s - short_s) / looks * LOOKS_AN_HOUR
    return {
        "name": "silence",
        "what": "CPU time in s of a supervisor in an hour of silence",
        "ratio": round(hour_s, 2),
        "limit": f"<= {LIMIT_S} s",
        "ok": hour_s <= LIMIT_S,
        "detail": f"{(long_s - short_s) / looks * 1000:.1f} ms a look with its heartbeat, over {looks} looks",
    }


def _start(installed: Installation, seconds: int) -> int:
    argv = [installed.sidecar, "run", "--heartbeat-interval", "3s", "--", "sleep", str(seconds)]
    return os.posix_spawn(argv[0], argv, installed.environ)


def _cpu_s(pid: int) -> float:
    """User and system time of a process that is about to end, with its children's (a `sleep`)."""
    deadline_s = time.monotonic() + LONG_S + 30
    while True:
        ended, status, usage = os.wait4(pid, os.WNOHANG)
        if ended:
            break
        if time.monotonic() > deadline_s:
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)
    if status != 0:
        raise RuntimeError(f"the supervisor ended with wait status {status}")
    return usage.ru_utime + usage.ru_stime
