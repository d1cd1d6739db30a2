"""When to beat, when to stay quiet, when never again.

A heartbeat is due when a full interval has passed without output, counted from the last output (or the
start), and again a full interval after the last beat. Output restarts the interval; output that flows never
beats. The interval 0 means never. After `stop()` there is none, whatever races.

While output flows there is nothing to beat, but the daemon would not know how old the last output is. So an
elapsed interval in which there was output earns a *note* (at most one an interval): the daemon gets an
`output_activity` frame, nobody else gets anything.
"""

BEAT, NOTE = "beat", "note"


class HeartbeatClock:
    """The heartbeat of one command. All times are monotonic nanoseconds, given by the caller.

    Output is told as it comes (`output`), and costs one assignment: the deadline is moved when it is met,
    not with each chunk.
    """

    __slots__ = ("_deadline_ns", "_silent_since_ns", "_stopped", "count", "interval_ns")

    def __init__(self, interval_ns: int, started_ns: int) -> None:
        self.interval_ns = interval_ns
        self._silent_since_ns = started_ns
        self._deadline_ns = started_ns + interval_ns
        self._stopped = interval_ns <= 0
        self.count = 0

    @property
    def deadline_ns(self) -> int | None:
        """When `tick` wants to be called next; None once there is nothing to wait for."""
        return None if self._stopped else self._deadline_ns

    @property
    def silent_since_ns(self) -> int:
        """The last output, or the start: also where there are no heartbeats at all."""
        return self._silent_since_ns

    def output(self, now_ns: int) -> None:
        """There was output: the interval starts anew."""
        self._silent_since_ns = now_ns

    def shift(self, by_ns: int) -> None:
        """The whole job was suspended for so long: that time was no silence."""
        self._silent_since_ns += by_ns
        self._deadline_ns += by_ns

    def stop(self) -> None:
        """No beat from here on: the command is being stopped, or has ended."""
        self._stopped = True

    def tick(self, now_ns: int) -> str | None:
        """BEAT, NOTE or None. Call it at `deadline_ns` or later; earlier calls are harmless.

        A call that comes very late (a suspended machine, a stopped supervisor) beats once, not once for
        each interval that was missed.
        """
        if self._stopped or now_ns < self._deadline_ns:
            return None
        due_ns = self._silent_since_ns + self.interval_ns
        if due_ns > self._deadline_ns:
            # There was output since the deadline was set. If even the moved deadline has passed (a late
            # call), the silence is real; else only its clock is put right.
            self._deadline_ns = due_ns
            if now_ns < due_ns:
                return NOTE
        missed = (now_ns - self._deadline_ns) // self.interval_ns
        self._deadline_ns += (missed + 1) * self.interval_ns
        self.count += 1
        return BEAT
