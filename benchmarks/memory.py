"""Memory: the resident set of a supervisor that waits in silence, and of the bare interpreter that waits."""

import subprocess
import time

from benchmarks.installation import Installation

LIMIT_MB = 14.0
"""With the senses, which are loaded once a command has been silent for 2 s. Before that, it is under 10."""


def measure(installed: Installation) -> dict[str, float | str]:
    """MB of VmRSS after a heartbeat was sent, over the same of `python3 -IS` that sleeps."""
    wrapped_mb = _resident_mb(
        [installed.sidecar, "run", "--heartbeat-interval", "1s", "--", "sleep", "30"], installed.environ
    )
    bare_mb = _resident_mb([installed.python, "-IS", "-c", "import time; time.sleep(30)"], installed.environ)
    return {
        "name": "memory",
        "what": "RSS in MB of a supervisor that has looked why it is silent",
        "ratio": round(wrapped_mb / bare_mb, 2),
        "limit": f"<= {LIMIT_MB} MB",
        "ok": wrapped_mb <= LIMIT_MB,
        "detail": f"{wrapped_mb:.1f} MB / {bare_mb:.1f} MB of the bare interpreter",
    }


def _resident_mb(argv: list[str], environ: dict[str, str]) -> float:
    with subprocess.Popen(argv, env=environ) as process:
        time.sleep(4.5)
        try:
            with open(f"/proc/{process.pid}/status") as status:
                line = next(line for line in status if line.startswith("VmRSS:"))
        finally:
            process.terminate()
    return int(line.split()[1]) / 1000 * 1.024
