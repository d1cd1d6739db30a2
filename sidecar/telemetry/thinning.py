"""Which heartbeats of a command become live spans: ever fewer, while frames and metrics keep their cadence.

A heartbeat every 10 s for eight hours is 2,880 spans for one quiet command. Live spans are there so that
somebody who looks at the trace sees the command alive, and for that 10, 20, 40 and then 60 seconds between
them will do: eight hours are 481. A change of verdict is news, and is sent at once - as long as it is news: a
verdict that flaps every second would be 28,800 spans. So all spans draw on one allowance, which a calm command
never uses up and which keeps eight hours of anything under 600. A change that finds it empty is told by the
next span, within a minute; its frame, log event and metric are not held back.
"""

from typing import Final

_WIDEST_GAP_MS: Final = 60_000
_MOST_SAVED: Final = 64
"""Spans that may go out in quick succession."""
_EARN_MS: Final = 55_000
"""One more span may go out for each of these; less than the widest gap, so that calm saves up again."""


class Thinning:
    """The state for one command. The first heartbeat is due; each later one after twice the gap before.

    The gap starts at the command's heartbeat interval and stays at a minute once there. It belongs to the
    command, not to one silence: a command that writes every eleven seconds would otherwise start again at the
    narrowest gap for ever.
    """

    __slots__ = ("_gap_ms", "_last_ms", "_owed", "_saved_ms", "_seen_ms")

    def __init__(self, interval_ms: int) -> None:
        self._gap_ms = min(max(interval_ms, 1), _WIDEST_GAP_MS)
        self._last_ms: int | None = None
        self._owed = False
        self._saved_ms = _MOST_SAVED * _EARN_MS
        self._seen_ms = 0

    def due(self, elapsed_ms: int, *, change: bool = False) -> bool:
        """Whether the heartbeat (or the change of verdict) at `elapsed_ms` since the start is to be sent now."""
        self._saved_ms = min(self._saved_ms + max(0, elapsed_ms - self._seen_ms), _MOST_SAVED * _EARN_MS)
        self._seen_ms = max(self._seen_ms, elapsed_ms)
        self._owed = self._owed or change
        gap_ms = self._gap_ms if self._last_ms is None else min(self._gap_ms * 2, _WIDEST_GAP_MS)
        early = self._last_ms is not None and elapsed_ms - self._last_ms < gap_ms
        if (early and not self._owed) or self._saved_ms < _EARN_MS:
            return False
        self._saved_ms -= _EARN_MS
        self._owed = False
        self._gap_ms = gap_ms
        self._last_ms = elapsed_ms
        return True
