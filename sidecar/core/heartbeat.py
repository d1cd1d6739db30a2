"""When to beat, when to tell of output, when never again.

A heartbeat is due when a full interval has passed without output, counted from the last output (or the
start), and again a full interval after the last beat. Output restarts the interval; output that flows never
beats. The interval 0 means never. After `stop()` there is none, whatever races.

While output flows there is nothing to beat, but the daemon would not know how old the last output is. So output
that it was not told of earns a *note*, at most one a second: the daemon gets an `output_activity` frame, nobody
else gets anything.
"""

BEAT, NOTE = "beat", "note"
NOTE_NS = 1_000_000_000
"""So long the notes are apart, and the first is from the start: most commands are over by then."""


class HeartbeatClock:
    """The heartbeat of one command. All times are monotonic nanoseconds, given by the caller.

    Output is told as it comes (`output`), and costs two assignments: the deadline is moved when it is met,
    not with each chunk.
    """

    __slots__ = ("_beat_ns", "_silent_since_ns", "_stopped", "_told_ns", "count", "interval_ns", "is_untold")

    def __init__(self, interval_ns: int, started_ns: int) -> None:
        self.interval_ns = interval_ns
        self._silent_since_ns = self._told_ns = started_ns
        self._beat_ns = started_ns + interval_ns if interval_ns > 0 else None
        self._stopped = False
        self.is_untold = False
        """There was output since the daemon was told of any."""
        self.count = 0

    @property
    def deadline_ns(self) -> int | None:
        """When `tick` wants to be called next; None once there is nothing to wait for."""
        beat_ns = self.beat_ns
        if self._stopped or not self.is_untold:
            return beat_ns
        note_ns = self._told_ns + NOTE_NS
        return note_ns if beat_ns is None or note_ns < beat_ns else beat_ns

    @property
    def beat_ns(self) -> int | None:
        """When the next beat is due, unless there was output meanwhile; None where there will be none."""
        return None if self._stopped else self._beat_ns

    @property
    def silent_since_ns(self) -> int:
        """The last output, or the start: also where there are no heartbeats at all."""
        return self._silent_since_ns

    def output(self, now_ns: int) -> None:
        """There was output: the interval starts anew."""
        self._silent_since_ns = now_ns
        self.is_untold = True

    def hold(self, now_ns: int) -> None:
        """The output is not taken by its reader: the interval starts anew, and there is nothing to tell."""
        self._silent_since_ns = now_ns

    def told(self, now_ns: int) -> None:
        """The daemon was told of all output so far, by another frame than a beat or a note."""
        self._told_ns = now_ns
        self.is_untold = False

    def untell(self) -> None:
        """What the daemon was told of output last did not reach it: there is a note to give again."""
        self.is_untold = True

    def shift(self, by_ns: int) -> None:
        """The whole job was suspended for so long: that time was no silence."""
        self._silent_since_ns += by_ns
        if self._beat_ns is not None:
            self._beat_ns += by_ns

    def stop(self) -> None:
        """No beat from here on: the command is being stopped, or has ended."""
        self._stopped = True

    def tick(self, now_ns: int) -> str | None:
        """BEAT, NOTE or None. Call it at `deadline_ns` or later; earlier calls are harmless.

        A call that comes very late (a suspended machine, a stopped supervisor) beats once, not once for
        each interval that was missed.
        """
        if self._stopped:
            return None
        if self._is_time_to_beat(now_ns):
            self.count += 1
            self.told(now_ns)
            return BEAT
        if self.is_untold and now_ns - self._told_ns >= NOTE_NS:
            self.told(now_ns)
            return NOTE
        return None

    def _is_time_to_beat(self, now_ns: int) -> bool:
        """True, and the next beat is planned: an interval is over in which there was no output."""
        if self._beat_ns is None or now_ns < self._beat_ns:
            return False
        # There may have been output since this was set. If even the moved time has passed (a late call), the
        # silence is real; else only its clock is put right.
        self._beat_ns = max(self._beat_ns, self._silent_since_ns + self.interval_ns)
        if now_ns < self._beat_ns:
            return False
        missed = (now_ns - self._beat_ns) // self.interval_ns
        self._beat_ns += (missed + 1) * self.interval_ns
        return True
