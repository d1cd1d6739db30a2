"""Relay through a terminal: 20 MB from `yes` on a PTY of the supervisor's, over the same on one of script(1)."""

import shutil
import statistics

from benchmarks.installation import Installation, wall_s

BYTES = 20_000_000
ROUNDS = 3
LIMIT = 0.7


def measure(installed: Installation) -> dict[str, float | str]:
    """The throughput ratio: (bytes/s wrapped) / (bytes/s through script), a pipe behind both."""
    if shutil.which("script") is None:
        raise RuntimeError("the benchmark terminal-relay needs script(1), of util-linux")
    produce = f"yes | head -c {BYTES}"
    script = ["/bin/sh", "-c", f"script -qec '{produce}' /dev/null </dev/null | cat >/dev/null"]
    wrapped = ["/bin/sh", "-c", f"'{installed.sidecar}' run --pty -- sh -c '{produce}' </dev/null | cat >/dev/null"]
    script_s, wrapped_s = [], []
    for _ in range(ROUNDS):
        script_s.append(wall_s(script, installed.environ))
        wrapped_s.append(wall_s(wrapped, installed.environ))
    ratio = statistics.median(script_s) / statistics.median(wrapped_s)
    megabytes = BYTES / 1e6
    return {
        "name": "terminal-relay",
        "what": "throughput of 20 MB on the supervisor's PTY / on that of script(1)",
        "ratio": round(ratio, 2),
        "limit": f">= {LIMIT}",
        "ok": ratio >= LIMIT,
        "detail": f"{megabytes / statistics.median(wrapped_s):.0f} MB/s / "
        f"{megabytes / statistics.median(script_s):.0f} MB/s, median of {ROUNDS} interleaved rounds",
    }
