"""MCP: a heartbeat as a `notifications/progress` of the request whose progress token is known.

https://modelcontextprotocol.io/specification/2025-06-18/basic/utilities/progress: `progress` must increase with each
notification, and there must be none once the request is answered. The unit is the millisecond. There is no `total`: a
timeout is not how much work there is, and a client would draw a bar of it.
"""

from sidecar.core import frame as wire
from sidecar.gateways.context import Context, Frame, Record

METHOD = "notifications/progress"


def encode(command: Frame, frame: Frame, context: Context) -> Record | None:
    """The notification; None without a progress token, and for other frames.

    Within one command `progress` increases by itself. One token over several commands: see `Increasing`.
    """
    if context.progress_token is None or frame["type"] != wire.PROGRESS:
        return None
    return {
        "jsonrpc": "2.0",
        "method": METHOD,
        "params": {
            "progressToken": context.progress_token,
            "progress": frame["shellProgress"]["elapsedMs"],
            "message": _message(command, frame),
        },
    }


class Increasing:
    """Lifts `progress` where another command under the same token has come further already."""

    def __init__(self) -> None:
        self._last = -1

    def lift(self, record: Record) -> Record:
        params = record["params"]
        self._last = max(params["progress"], self._last + 1)
        return {**record, "params": {**params, "progress": self._last}}


def _message(command: Frame, frame: Frame) -> str:
    """For whoever looks at the client: what runs, for how long it has been silent, and why."""
    progress = frame["shellProgress"]
    silent_ms = progress.get("lastOutputAgeMs", progress["elapsedMs"])
    words = f"{command['program']} runs, silent for {silent_ms // 1000} s"
    verdict = frame.get("verdict")
    return f"{words} ({verdict})" if verdict is not None else words
