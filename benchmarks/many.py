"""Many short commands through one daemon: none lost, and each hardly slower than without a daemon.

`SIDECAR_BENCHMARK_COMMANDS` says how many (2,000; with 20,000, for which the figure is claimed, it takes four minutes).
They are counted at a real OTLP receiver: spans, and the counter of commands. The times are of commands that take turns,
one through the daemon, one with a socket that nobody serves and nobody can: that is `sidecar run` with no daemon.
"""

import os
import statistics
import time
from typing import Any

from benchmarks.installation import Installation, daemon_at, wall_s

LIMIT = 1.2
COMMANDS = 2000
_WAIT_S = 30.0
_NAME = "true"


def measure(installed: Installation) -> dict[str, Any]:
    """The ratio of the medians, and what arrived."""
    # Here, not above: the other benchmarks need no OpenTelemetry in this process.
    from sidecar.testing.otlp import OtlpReceiver

    wanted = int(os.environ.get("SIDECAR_BENCHMARK_COMMANDS", COMMANDS))
    argv = [installed.sidecar, "run", "--", _NAME]
    ids: set[str] = set()
    started = 0.0
    twice = 0

    def on_span(span: Any) -> None:
        nonlocal twice
        if span.attributes.get("sidecar.span.role") == "command":
            twice += span.span_id in ids
            ids.add(span.span_id)

    def on_metric(metric: Any) -> None:
        nonlocal started
        if metric.name == "sidecar.commands.started" and metric.value:
            started = max(started, metric.value)

    with OtlpReceiver(on_span=on_span, on_metric=on_metric) as receiver:
        environ = {**installed.environ, "SIDECAR_OTLP_ENDPOINT": receiver.http_endpoint}
        environ.pop("OTEL_SDK_DISABLED")
        # Nobody can make a socket there, and nothing is written instead.
        without = {**environ, "SIDECAR_SOCKET": "/proc/sidecar/none.sock", "SIDECAR_SPOOL_MAX_BYTES": "0"}
        times_s, bare_s = [], []
        with daemon_at(installed, environ) as environ:
            for _ in range(5):
                wall_s(argv, without)
            for number in range(wanted):
                times_s.append(wall_s(argv, environ))
                if number % 10 == 0:
                    bare_s.append(wall_s(argv, without))
                    receiver.clear()
            deadline_s = time.monotonic() + _WAIT_S
            while (len(ids) < wanted or started < wanted) and time.monotonic() < deadline_s:
                time.sleep(0.1)
    with_ms, without_ms = statistics.median(times_s) * 1000, statistics.median(bare_s) * 1000
    ratio = round(with_ms / without_ms, 2)
    lost = wanted - len(ids)
    return {
        "name": "many",
        "what": "wall time of `sidecar run -- true` with a daemon / without, and none lost",
        "ratio": ratio,
        "limit": f"<= {LIMIT}",
        "ok": ratio <= LIMIT and lost == 0 and started == wanted,
        "detail": (
            f"{with_ms:.1f} ms / {without_ms:.1f} ms, medians of {len(times_s)} and {len(bare_s)}; "
            f"{lost} spans lost, {twice} twice; {started:.0f} of {wanted} counted"
        ),
    }
