"""Relay: 2 GB from `yes` through a pipe and the supervisor, over the same through cat; pipes at both ends."""

import statistics

from benchmarks.installation import Installation, wall_s

BYTES = 2_000_000_000
ROUNDS = 3
LIMIT = 0.7


def measure(installed: Installation) -> dict[str, float | str]:
    """The throughput ratio: (bytes/s wrapped) / (bytes/s through cat)."""
    produce = f"yes | head -c {BYTES}"
    cat = ["/bin/sh", "-c", f"{produce} | cat | cat >/dev/null"]
    wrapped = ["/bin/sh", "-c", f"'{installed.sidecar}' run -- sh -c '{produce}' | cat >/dev/null"]
    cat_s, wrapped_s = [], []
    for _ in range(ROUNDS):
        cat_s.append(wall_s(cat, installed.environ))
        wrapped_s.append(wall_s(wrapped, installed.environ))
    ratio = statistics.median(cat_s) / statistics.median(wrapped_s)
    gigabytes = BYTES / 1e9
    return {
        "name": "relay",
        "what": "throughput of 2 GB through the supervisor / through cat",
        "ratio": round(ratio, 2),
        "limit": f">= {LIMIT}",
        "ok": ratio >= LIMIT,
        "detail": f"{gigabytes / statistics.median(wrapped_s):.2f} GB/s / "
        f"{gigabytes / statistics.median(cat_s):.2f} GB/s, median of {ROUNDS} interleaved rounds",
    }
