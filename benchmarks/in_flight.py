"""A daemon with 1,000 commands in flight, each beating every 10 s: its CPU time, its memory, and how late frames are.

One process plays all the producers over the real socket, and subscribes; another is the Collector (the receiver of
`sidecar.testing`), so that neither's work is counted as the daemon's. Beats are spread evenly, half of the commands
have had output, and verdicts change now and then.
"""

import json
import os
import subprocess
import tempfile
import time

from benchmarks.installation import Installation

COMMANDS = 1_000
WARM_UP_S = 30
MEASURED_S = 60
CPU_LIMIT = 0.10
RSS_LIMIT_MB = 120.0
P99_LIMIT_MS = 20.0


def measure(installed: Installation) -> dict[str, float | str]:
    """CPU of the daemon as a part of one core, its RSS in MB, and the p99 from a producer to a subscriber in ms."""
    here = os.path.dirname(os.path.abspath(__file__))
    with tempfile.TemporaryDirectory(prefix="sidecar-in-flight-") as folder:
        os.chmod(folder, 0o700)
        collector = subprocess.Popen(
            [installed.python, f"{here}/in_flight_collector.py"], stdout=subprocess.PIPE, text=True
        )
        assert collector.stdout is not None
        endpoint = collector.stdout.readline().strip()
        environ = {name: value for name, value in installed.environ.items() if name != "OTEL_SDK_DISABLED"}
        environ |= {"XDG_RUNTIME_DIR": folder, "HOME": folder, "SIDECAR_OTLP_ENDPOINT": endpoint}
        daemon = subprocess.Popen([installed.sidecar, "daemon", "run"], env=environ, stderr=subprocess.DEVNULL)
        try:
            socket_path = f"{folder}/sidecar/sidecar.sock"
            _await(socket_path)
            traffic = subprocess.Popen(
                [installed.python, f"{here}/in_flight_traffic.py", socket_path, str(COMMANDS), str(WARM_UP_S)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            time.sleep(WARM_UP_S)
            before_s, began_s = _cpu_s(daemon.pid), time.monotonic()
            time.sleep(MEASURED_S)
            cpu = (_cpu_s(daemon.pid) - before_s) / (time.monotonic() - began_s)
            rss_mb = _resident_mb(daemon.pid)
            told, _ = traffic.communicate("", timeout=60)
        finally:
            daemon.terminate()
            daemon.wait(10)
            collector.terminate()
            counted, _ = collector.communicate(timeout=10)
    seen, taken = json.loads(told), json.loads(counted)
    exported = taken["logs"] >= seen["beats"] and min(taken.values()) > COMMANDS
    within = cpu <= CPU_LIMIT and rss_mb <= RSS_LIMIT_MB and seen["p99_ms"] <= P99_LIMIT_MS
    ok = within and exported and not seen["missing"]
    return {
        "name": "in-flight",
        "what": f"part of a core that a daemon with {COMMANDS:,} silent commands takes",
        "ratio": round(cpu, 3),
        "limit": f"<= {CPU_LIMIT:g}",
        "ok": ok,
        "detail": f"{rss_mb:.0f} MB (at most {RSS_LIMIT_MB:.0f}); producer to subscriber p50 {seen['p50_ms']:.1f}, "
        f"p99 {seen['p99_ms']:.1f} ms (at most {P99_LIMIT_MS:.0f}), worst {seen['worst_ms']:.1f}; "
        f"{seen['beats']} beats, {seen['missing']} missing; "
        f"{taken['spans']} spans, {taken['logs']} log events, {taken['points']} points exported",
    }


def _await(path: str) -> None:
    for _ in range(200):
        if os.path.exists(path):
            return
        time.sleep(0.05)
    raise RuntimeError(f"no daemon on {path}")


def _cpu_s(pid: int) -> float:
    with open(f"/proc/{pid}/stat") as stat:
        fields = stat.read().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _resident_mb(pid: int) -> float:
    with open(f"/proc/{pid}/status") as status:
        line = next(line for line in status if line.startswith("VmRSS:"))
    return int(line.split()[1]) * 1024 / 1e6
