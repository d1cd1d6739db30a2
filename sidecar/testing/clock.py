"""A clock that stands still until it is told to move."""


class FakeClock:
    """Monotonic and wall time in one, both in nanoseconds, moving together.

    `clock.monotonic_ns` and `clock.unix_ns` can be handed in wherever `time.monotonic_ns` and `time.time_ns`
    are injected. `jump_wall` moves the wall clock alone, as NTP or a user does.
    """

    def __init__(self, monotonic_ns: int = 10**12, unix_ns: int = 1_700_000_000 * 10**9) -> None:
        self._monotonic_ns = monotonic_ns
        self._unix_ns = unix_ns

    def monotonic_ns(self) -> int:
        return self._monotonic_ns

    def unix_ns(self) -> int:
        return self._unix_ns

    def advance(self, seconds: float) -> None:
        """Both clocks go on by `seconds`; ValueError for a step back, which no monotonic clock takes."""
        if seconds < 0:
            raise ValueError(f"a monotonic clock cannot go back by {-seconds} s")
        step_ns = round(seconds * 1e9)
        self._monotonic_ns += step_ns
        self._unix_ns += step_ns

    def jump_wall(self, seconds: float) -> None:
        """The wall clock alone is set, forwards or back."""
        self._unix_ns += round(seconds * 1e9)
