"""Start-up: `sidecar run -- true` with the daemon up, over the bare interpreter; interleaved runs, medians."""

import statistics

from benchmarks.installation import Installation, wall_s

RUNS = 50
LIMIT = 1.6


def measure(installed: Installation) -> dict[str, float | str]:
    """The ratio to `python3 -IS -c pass` of the same environment, and both medians in ms."""
    bare = [installed.python, "-IS", "-c", "pass"]
    wrapped = [installed.sidecar, "run", "--", "true"]
    for argv in (bare, wrapped) * 3:
        wall_s(argv, installed.environ)
    bare_s, wrapped_s = [], []
    for _ in range(RUNS):
        bare_s.append(wall_s(bare, installed.environ))
        wrapped_s.append(wall_s(wrapped, installed.environ))
    bare_ms, wrapped_ms = statistics.median(bare_s) * 1000, statistics.median(wrapped_s) * 1000
    return {
        "name": "start-up",
        "what": "wall time of `sidecar run -- true` / `python3 -IS -c pass`",
        "ratio": round(wrapped_ms / bare_ms, 2),
        "limit": f"<= {LIMIT}",
        "ok": round(wrapped_ms / bare_ms, 2) <= LIMIT,
        "detail": f"{wrapped_ms:.1f} ms / {bare_ms:.1f} ms, median of {RUNS} interleaved runs",
    }
