"""How long to wait before the next try: exponential, with jitter, and longer where the Collector asks for it."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

FIRST_S = 1.0
LONGEST_S = 60.0
LONGEST_ASKED_S = 300.0
"""What a Collector asks for is honoured up to here: a slip of its clock must not silence us for a year."""


class Backoff:
    """`uniform` is random.uniform's shape, for tests."""

    def __init__(self, uniform: Callable[[float, float], float] = random.uniform) -> None:
        self.failures = 0
        self._uniform = uniform

    def failed(self, asked_s: float | None = None) -> float:
        """One more failure: seconds to wait. `asked_s` is what the Collector asked for, if it did.

        The wait is between half of the step and all of it, so that many hosts whose Collector comes back do not all
        call at once; what was asked for is the least, and gets its jitter on top.
        """
        step_s = min(LONGEST_S, FIRST_S * 2 ** min(self.failures, 16))
        self.failures += 1
        wait_s = self._uniform(step_s / 2, step_s)
        if asked_s is None:
            return wait_s
        asked_s = min(max(asked_s, 0.0), LONGEST_ASKED_S)
        return max(wait_s, self._uniform(asked_s, asked_s * 1.1))

    def succeeded(self) -> None:
        self.failures = 0
