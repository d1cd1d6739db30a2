"""The daemon's own page of metrics, as those see it who only ask the daemon: is it served, and if not, what to do.

Without OpenTelemetry: `sidecar doctor` and `sidecar daemon` come here.
"""

import errno
import os
from collections.abc import Mapping
from typing import Any, Final

TRY_AGAIN_S: Final = 10
"""Between two tries for a port that cannot be had."""


def address(port: int) -> str:
    return f"http://127.0.0.1:{port}/metrics"


def unserved(telemetry: Mapping[str, Any], wanted_port: int = 0) -> tuple[str, str] | None:
    """(what is wrong, what to do) where the page was asked for and is not served; None where nothing is wrong.

    `telemetry` is that of a daemon's status. `wanted_port` is what who asks would have; 0 = none.
    """
    problem = telemetry.get("prometheus_problem")
    if problem:
        another = "set another prometheus_port, and `sidecar daemon stop`: the next daemon takes that one"
        if os.strerror(errno.EADDRINUSE) not in problem:
            return problem, another
        port = problem.partition("/metrics")[0].rpartition(":")[2]
        who = f"`ss -ltnp 'sport = :{port}'`, as root, says who has the port"
        return problem, f"{who}; once it is free the daemon takes it within {TRY_AGAIN_S} s. Or {another}"
    if wanted_port and "signals" in telemetry and telemetry.get("prometheus") != address(wanted_port):
        again = "`sidecar daemon stop`, and start it again"
        if telemetry.get("disabled"):
            return f"{address(wanted_port)} is not served: OTEL_SDK_DISABLED is set", f"unset it; {again}"
        return f"{address(wanted_port)} is not served: the daemon that runs was started without that port", again
    return None
