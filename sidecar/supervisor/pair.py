"""Two looks at the command's tree and the verdict on them. Loaded and run on the thread of `lookout`, nowhere else.

What the senses are and cost is in `collectors`. None of them follows a link, reads a command line or a memory map, or
opens a file of the command's: none of what could put this thread into an uninterruptible sleep, which would outlast us.
"""

from collectors import Kernel, Looker, finish
from sidecar.core import published, verdict_fields  # noqa: F401 - for the loop, which must not find them gone later
from sidecar.core.evidence import Context, Look
from sidecar.core.finding import Verdict
from sidecar.core.rules.movement import measure
from sidecar.core.verdict import judge

TYPE_CHECKING = False  # typing.TYPE_CHECKING, as everywhere in the supervisor
if TYPE_CHECKING:
    from collections.abc import Callable

    from sidecar.supervisor.lookout import Asked

_LATE_NS = 2_000_000_000


class Watch:
    """Looks at one command again and again. `wait` sleeps for so many seconds, or raises to end the pair."""

    def __init__(self, pid: int, supervisor_pid: int, terminal: int | None) -> None:
        self._kernel = _Interruptible()
        self._looker = Looker(pid, supervisor=supervisor_pid, terminal=terminal, kernel=self._kernel)
        self._last: Look | None = None

    def pair(self, asked: "Asked", wait: "Callable[[float], None]") -> Verdict | None:
        """None: the pair says nothing, since we were stopped or suspended between its looks."""
        self._kernel.wait = wait
        looker, last = self._looker, self._last
        looker.excluded = asked.excluded
        before = looker.look(last)
        states: dict[int, str] = {}
        step_s = asked.seconds / (asked.samples + 1)
        for _ in range(asked.samples):
            wait(step_s)
            looker.sample(before, states)
        wait(step_s)
        context = Context(asked.exit_status, asked.exit_status is not None, output_is_blocked=asked.is_blocked)
        after = finish(looker, before, states, context)
        self._last = after
        if after.taken_ns - before.taken_ns > asked.seconds * 1e9 + _LATE_NS:
            return None
        child = after.processes.get(looker.root)
        if child is not None and asked.stopped_by is not None and not child.stop_signal:
            child.stop_signal = asked.stopped_by
        verdict = judge(before, after, context)
        if not verdict.progress and last is not None and measure(last, before).is_any:
            return _with_progress(verdict)
        return verdict


class _Interruptible(Kernel):
    """The real kernel; each pause of the senses is one that can be cut short."""

    wait: "Callable[[float], None]"

    def pause(self, seconds: float) -> None:
        self.wait(seconds)


def _with_progress(verdict: Verdict) -> Verdict:
    """It stands still now, and has moved since it was last looked at."""
    from sidecar.core.records import replace

    changed: Verdict = replace(verdict, progress=True)
    return changed
