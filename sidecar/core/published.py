"""Which verdict is shown: one look can catch a passing call, so a verdict counts once it was found twice in a row.

A prompt, a stop and a command that has exited are shown at once: they are states, not moments. Pure: the caller
gives the time.
"""

from sidecar.core.finding import Verdict
from sidecar.core.records import replace

AT_ONCE = frozenset({"awaiting_input", "stopped", "output_held"})


class PublishedVerdict:
    """The verdict that is shown, and since when it holds (monotonic nanoseconds).

    `current` is None until there is one. A verdict with the same name goes on: `since_ns` stays, its
    evidence is the latest.
    """

    __slots__ = ("_candidate", "_candidate_since_ns", "current", "since_ns")

    def __init__(self) -> None:
        self.current: Verdict | None = None
        self.since_ns = 0
        self._candidate: Verdict | None = None
        self._candidate_since_ns = 0

    def offer(self, verdict: Verdict, now_ns: int) -> bool:
        """Take in a look's verdict. True: another one is shown from here on, and is to be told at once."""
        if self.current is not None and _is_same(self.current, verdict):
            self.current = verdict
            self._candidate = None
            return False
        if self._candidate is None or not _is_same(self._candidate, verdict):
            self._candidate_since_ns = now_ns
            if verdict.name not in AT_ONCE:
                self._candidate = verdict
                return False
        self.current = verdict
        self.since_ns = self._candidate_since_ns
        self._candidate = None
        return True

    def output(self) -> None:
        """There was output: what was seen of the silence before is over."""
        self.current = None
        self._candidate = None


def with_repeats(verdict: Verdict, words: str) -> Verdict:
    """The verdict on a command whose output flows and repeats itself, which `words` tell.

    To draw a spinner moves counters: of such a command only work is progress.
    """
    is_progress = verdict.progress and verdict.group == "working"
    told: Verdict = replace(verdict, evidence=(*verdict.evidence, words), progress=is_progress)
    return told


def _is_same(first: Verdict, second: Verdict) -> bool:
    return first.name == second.name
