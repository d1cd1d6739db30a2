"""Which heartbeats of a command become live spans: ever fewer, while frames and metrics keep their cadence.

A heartbeat every 10 s for eight hours is 2,880 spans for one quiet command. Live spans are there so that
somebody who looks at the trace sees the command alive, and for that 10, 20, 40 and then 60 seconds between
them will do: eight hours are 481. A change of verdict is news, and is always sent at once.
"""

_WIDEST_GAP_MS = 60_000


class Thinning:
    """The state for one command. The first heartbeat is due; each later one after twice the gap before.

    The gap starts at the command's heartbeat interval and stays at a minute once there. It belongs to the
    command, not to one silence: a command that writes every eleven seconds would otherwise start again at the
    narrowest gap for ever.
    """

    __slots__ = ("_gap_ms", "_last_ms")

    def __init__(self, interval_ms: int) -> None:
        self._gap_ms = min(max(interval_ms, 1), _WIDEST_GAP_MS)
        self._last_ms: int | None = None

    def due(self, elapsed_ms: int, *, change: bool = False) -> bool:
        """Whether the heartbeat at `elapsed_ms` since the command's start is to be sent now."""
        if self._last_ms is not None:
            gap_ms = min(self._gap_ms * 2, _WIDEST_GAP_MS)
            if not change and elapsed_ms - self._last_ms < gap_ms:
                return False
            self._gap_ms = gap_ms
        self._last_ms = elapsed_ms
        return True
