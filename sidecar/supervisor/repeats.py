"""Does the command write, and say nothing? A spinner or a clock that goes on for an interval is no progress.

Output is kept only once the command has lived for a while and still writes; until then nothing of this costs more than
a comparison, and core.novelty (which loads `re`) is loaded only then. What is kept is bounded, and is taken apart in
the loop's turn now and then, never as it comes. Bytes that were not kept - of a flood, of a tee, of a file that the
command writes to itself - count as news: nobody knows what they said.
"""

TYPE_CHECKING = False  # typing.TYPE_CHECKING, without the 7 ms of importing typing
if TYPE_CHECKING:
    from sidecar.core.novelty import OutputWindow
    from sidecar.core.output import OutputStats
    from sidecar.supervisor.relay import Channel

_AFTER_NS = 5_000_000_000
"""Most commands are over by then."""
_AT_LEAST_NS = 10_000_000_000
_SLOTS = 200
"""So many pieces are kept of the time that is looked at (the window has room for a fifth more, and some)."""
_NS_PER_S = 1_000_000_000


class Repeats:
    """Call `tick` at `deadline_ns` (None: never). `since_ns`: since when the output repeats itself, None: it does not.

    All times are monotonic nanoseconds. `interval_ns` is that of the heartbeats: for so long, and for 10 s at least,
    everything must have been a spinner or a clock.
    """

    def __init__(self, channels: "list[Channel]", stats: "OutputStats", interval_ns: int) -> None:
        self._channels = channels
        self._stats = stats
        self._span_ns = max(interval_ns, _AT_LEAST_NS)
        self._window: OutputWindow | None = None
        self._known_bytes = 0
        self._kind = ""
        self.since_ns: int | None = None
        self.deadline_ns: int | None = stats.started_ns + _AFTER_NS if channels else None

    def tick(self, now_ns: int) -> bool:
        """True: it has begun, or ended."""
        if self.deadline_ns is None or now_ns < self.deadline_ns:
            return False
        if self._window is None:
            self._begin(now_ns)
            return False
        was = self.since_ns is not None
        self._look(self._window, now_ns)
        is_now = self.since_ns is not None
        self.deadline_ns = now_ns + (_NS_PER_S if is_now else self._span_ns // 4)
        return was != is_now

    def words(self, now_ns: int) -> str:
        """The fact, with its figure; never the text. Only while it repeats."""
        seconds = 0 if self.since_ns is None else (now_ns - self.since_ns) // _NS_PER_S
        from sidecar.core.novelty import TICKER

        if self._kind == TICKER:
            return f"output is a clock, for {seconds} s"
        return f"output repeats itself: a spinner for {seconds} s"

    def anew(self) -> None:
        """What came so far counts no more: the command was stopped, or goes on."""
        self.since_ns = None
        if self._window is not None:
            self._window.clear()

    def end(self) -> None:
        """A stop has begun, or the command has exited: nobody asks any more."""
        self.since_ns = self.deadline_ns = None
        for channel in self._channels:
            channel.hear = None

    def _begin(self, now_ns: int) -> None:
        """Listen, if there is something to be heard."""
        self.deadline_ns = now_ns + self._span_ns
        if now_ns - self._stats.silent_since_ns > self._span_ns // 3 or self._stats.last_output_ns is None:
            return
        try:
            from sidecar.core.novelty import OutputWindow
        except ImportError:
            self.deadline_ns = None  # an upgrade removed us while the command runs: it goes on without
            return
        self._window = OutputWindow(self._span_ns // _SLOTS)
        self._known_bytes = self._stats.total_bytes
        for channel in self._channels:
            channel.hear = self._window.record

    def _look(self, window: "OutputWindow", now_ns: int) -> None:
        from sidecar.core.novelty import SPINNER, TICKER

        is_whole = self._stats.total_bytes - self._known_bytes == window.take_bytes()
        self._known_bytes = self._stats.total_bytes
        if not is_whole:
            self.anew()
            return
        if now_ns - self._stats.silent_since_ns > self._span_ns // 3:
            self.since_ns = None  # a silence, which is looked at as such
            return
        since_ns = window.first_ns(now_ns - self._span_ns * 6 // 5)
        if self.since_ns is None and (since_ns is None or since_ns > now_ns - self._span_ns):
            return
        kind = window.kind(now_ns - self._span_ns * 6 // 5)
        if kind not in (SPINNER, TICKER):
            self.since_ns = None
            return
        self._kind = kind
        if self.since_ns is None:
            self.since_ns = since_ns
