"""What the daemon says of running commands, for a bridge: a subscription that comes and goes with the daemon.

There may be no daemon yet: the first command that the agent runs starts one. A daemon that hangs, or sends nonsense,
costs the beats and nothing else.
"""

import time
from collections.abc import Callable, Iterator
from typing import Any

from sidecar.core.errors import DaemonUnavailable
from sidecar.daemon import client

RETRY_S = 1.0


class News:
    """`descriptor` is to be polled while it is not None, `retry_at_s` is when `records` wants to be called again."""

    def __init__(self, path: str, monotonic_s: Callable[[], float] = time.monotonic) -> None:
        self._path = path
        self._monotonic_s = monotonic_s
        self._subscription: client.Subscription | None = None
        self.retry_at_s = monotonic_s()

    @property
    def descriptor(self) -> int | None:
        return None if self._subscription is None else self._subscription.fileno()

    def records(self) -> Iterator[dict[str, Any]]:
        """What has come since the last call. Never waits, never raises."""
        if self._subscription is None:
            if self._monotonic_s() < self.retry_at_s:
                return
            self.retry_at_s = self._monotonic_s() + RETRY_S
            try:
                self._subscription = client.subscribe(self._path, timeout_s=0)
            except DaemonUnavailable:
                return
        try:
            while (record := self._subscription.next_within(0)) is not None:
                yield record
            ended = self._subscription.ended
        except DaemonUnavailable:
            ended = True
        if ended:
            self._subscription.close()
            self._subscription = None
            self.retry_at_s = self._monotonic_s() + RETRY_S
