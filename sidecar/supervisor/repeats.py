"""Does the command write, and say nothing? A spinner or a clock that goes on for an interval is no progress.

Output is kept only once the command has lived for a while and still writes; until then nothing of this costs more than
a comparison. What is kept is bounded, and is judged now and then (core.novelty, which loads `re`) on a thread beside
the loop, as the looks are: no byte waits for it. Bytes that were not kept - of a flood, of a tee, of a file that the
command writes to itself - count as news: nobody knows what they said.
"""

import _thread

from sidecar.core.output_window import OutputWindow

TYPE_CHECKING = False  # typing.TYPE_CHECKING, without the 7 ms of importing typing
if TYPE_CHECKING:
    from sidecar.core.output import OutputStats
    from sidecar.supervisor.relay import Channel

_AFTER_NS = 5_000_000_000
"""Most commands are over by then."""
_AT_LEAST_NS = 10_000_000_000
_SLOTS = 200
"""So many pieces are kept of the time that is looked at (the window has room for a fifth more, and some)."""
_AGAIN_NS = 2_000_000_000
"""So often it is asked whether it still repeats itself."""
_ANSWER_NS = 250_000_000
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
        self._from_ns = 0
        self._answer: list[str | None] | None = None
        """Of the judge that was asked: empty until it has come, None in it: there can be none."""
        self.since_ns: int | None = None
        self.deadline_ns: int | None = stats.started_ns + _AFTER_NS if channels else None

    def tick(self, now_ns: int) -> bool:
        """True: it has begun, or ended."""
        if self.deadline_ns is None or now_ns < self.deadline_ns:
            return False
        if self._window is None:
            self._begin(now_ns)
            return False
        did_repeat = self.since_ns is not None
        if self._answer is not None:
            self._take(self._answer)
        elif self._is_worth_asking(self._window, now_ns):
            self._ask(self._window, now_ns)
        if self.deadline_ns is not None:
            pause_ns = _AGAIN_NS if self.since_ns is not None else self._span_ns // 4
            self.deadline_ns = now_ns + (pause_ns if self._answer is None else _ANSWER_NS)
        return did_repeat != (self.since_ns is not None)

    def words(self, now_ns: int) -> str:
        """The fact, with its figure; never the text. Only while it repeats."""
        seconds = 0 if self.since_ns is None else (now_ns - self.since_ns) // _NS_PER_S
        if self._kind == "ticker":
            return f"output is a clock, for {seconds} s"
        return f"output repeats itself: a spinner for {seconds} s"

    def anew(self) -> None:
        """What came so far counts no more: the command was stopped, or goes on."""
        self.since_ns = self._answer = None
        if self._window is not None:
            self._window.clear()

    def end(self) -> None:
        """A stop has begun, or the command has exited: nobody asks any more."""
        self.since_ns = self.deadline_ns = self._answer = None
        for channel in self._channels:
            channel.hear = None

    def _begin(self, now_ns: int) -> None:
        """Listen, if there is something to be heard."""
        self.deadline_ns = now_ns + self._span_ns
        if self._stats.last_output_ns is None or self._is_silent(now_ns):
            return
        self._window = OutputWindow(self._span_ns // _SLOTS)
        self._known_bytes = self._stats.total_bytes
        for channel in self._channels:
            channel.hear = self._window.record

    def _is_silent(self, now_ns: int) -> bool:
        """A silence is looked at as such."""
        return now_ns - self._stats.silent_since_ns > self._span_ns // 3

    def _is_worth_asking(self, window: OutputWindow, now_ns: int) -> bool:
        """Whether all of the last interval was kept. If something was not, or there is silence, nothing repeats."""
        is_whole = self._stats.total_bytes - self._known_bytes == window.take_bytes()
        self._known_bytes = self._stats.total_bytes
        if not is_whole:
            self.anew()
        if self._is_silent(now_ns):
            self.since_ns = None
            return False
        return is_whole

    def _ask(self, window: OutputWindow, now_ns: int) -> None:
        chunks = window.since(now_ns - self._span_ns * 6 // 5)
        if not chunks or (self.since_ns is None and chunks[0][0] > now_ns - self._span_ns):
            return
        self._from_ns = chunks[0][0]
        self._answer = []
        try:
            _thread.start_new_thread(_judge, (chunks, self._answer))
        except RuntimeError:
            self.end()  # no thread is to be had: it goes on without

    def _take(self, answer: "list[str | None]") -> None:
        if not answer:
            return  # not yet
        self._answer = None
        kind = answer[0]
        if kind is None:
            self.end()
        elif kind not in ("spinner", "ticker"):
            self.since_ns = None
        else:
            self._kind = kind
            if self.since_ns is None:
                self.since_ns = self._from_ns


def _judge(chunks: list[tuple[int, bytes]], answer: "list[str | None]") -> None:
    """On a thread of its own. Output may hold anything, and an upgrade may have removed us: then it goes on without."""
    try:
        from sidecar.core.novelty import classify

        answer.append(classify(chunks))
    except BaseException:  # noqa: BLE001 - the command's supervisor never pays for what is made of its output
        answer.append(None)
