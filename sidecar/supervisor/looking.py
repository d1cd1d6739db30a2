"""Why is the command silent? When to look, which verdict holds, and whom to tell. In the loop's thread.

The first look comes once the command has been silent for a while (2 s), and at once when it was stopped or continued;
until then nothing of this is loaded. A second one follows at once, since a verdict counts when it was found twice (a
prompt or a stop counts at once); then there is one before each heartbeat, so that the beat carries the freshest
verdict, and is never late for it. Output ends it all, and the next silence begins anew. Output that only repeats
itself (supervisor/repeats.py) is looked at like a silence, at the times at which a beat would be due.
"""

import posix

from sidecar.supervisor.lookout import Asked, Lookout

TYPE_CHECKING = False  # typing.TYPE_CHECKING, without the 7 ms of importing typing
if TYPE_CHECKING:
    from collections.abc import Callable

    from sidecar.core.finding import Verdict
    from sidecar.core.frame_line import Json
    from sidecar.core.heartbeat import HeartbeatClock
    from sidecar.core.output import OutputStats
    from sidecar.core.published import PublishedVerdict
    from sidecar.core.verdict_limits import Rule, VerdictLimits
    from sidecar.supervisor.child import Child
    from sidecar.supervisor.relay import Channel
    from sidecar.supervisor.repeats import Repeats

_FIRST_PAIR_S, _FIRST_SAMPLES = 0.5, 4
"""Short: a prompt is to be recognised within 3 s, of which the silence before the first look takes two."""
_PAIR_S, _SAMPLES = 1.0, 8
_PAIR_NS = 1_000_000_000
_NEVER_NS = 1 << 62
_LEAD_NS = 1_200_000_000
"""So long before a beat its look begins."""
_GAP_NS = 2_000_000_000
"""At least so long between two looks, where none is pressing."""
_PRESSING_AT_MOST = 4
"""Looks in close succession after which a verdict that never comes twice is left for the next beat."""
_WITHOUT_BEATS_NS = 10_000_000_000
_S_IFMT, _S_IFCHR = 0o170000, 0o020000
_STUCK_NS = 15_000_000_000
"""A look that takes longer hangs in the kernel: then that is what we say."""


class Looking:
    """The looks at one command. `after_ns`: the silence after which it is looked at.

    `tell` is called with the keys of core.verdict_fields when another verdict is published; `stop` with words why, when
    a rule of `limits` says so. Call `tick` at the time
    that the last call returned, `take` when `descriptor` (None where no look can be had) is readable, and `output`,
    `hurry`, `end` when those things happen. Each returns when to call `tick` next, None for never.
    """

    def __init__(
        self,
        child: "Child",
        terminal: int | None,
        channels: "list[Channel]",
        stats: "OutputStats",
        heartbeat: "HeartbeatClock",
        after_ns: int,
        tell: "Callable[[dict[str, Json], int], None]",
        limits: "VerdictLimits | None" = None,
        stop: "Callable[[str], None] | None" = None,
        proc: str = "/proc",
        make_lookout: "Callable[[int, int | None], Lookout]" = Lookout,
    ) -> None:
        self._child = child
        self._channels = channels
        self._stats = stats
        self._heartbeat = heartbeat
        self._after_ns = after_ns
        self._tell = tell
        self._limits = limits
        self._stop = stop
        self.repeats: Repeats | None = None
        """While the output is only a spinner or a clock: then that is looked at as a silence is."""
        self._published: PublishedVerdict | None = None
        self._lookout: Lookout | None = None
        self._unable: str | None = None
        self._next_ns = 0
        self._stuck_at_ns = 0
        """When `tick` is to be called next about the look in flight."""
        self._exited_ns: int | None = None
        self._hurried = False
        self._pressing = 0
        self._looked_at_silence_ns = -1
        self._ended = False
        self._uncounted = uncounted(proc)
        if not posix.access(f"{proc}/self/stat", posix.R_OK):
            self._unable = "there is no /proc here to look at: only output and exit can be seen"
            return
        try:
            self._lookout = make_lookout(child.pid, terminal)
        except OSError as error:
            self._unable = f"no look can be had: {error.strerror}"

    @property
    def descriptor(self) -> int | None:
        return None if self._lookout is None else self._lookout.descriptor

    @property
    def has_verdict(self) -> bool:
        return self._published is not None and self._published.current is not None

    def fields(self, now_ns: int) -> "dict[str, Json]":
        """The published verdict as keys of a frame; empty while there is none."""
        if self._published is None or self._published.current is None:
            return {}
        from sidecar.core.verdict_fields import fields_of

        return fields_of(self._published.current, now_ns - self._published.since_ns)

    def tick(self, now_ns: int) -> int | None:
        if self._ended:
            return None
        if self._lookout is None:
            self._say_unable(self._unable or "", now_ns)
            return None
        busy_since_ns = self._lookout.busy_since_ns
        if busy_since_ns is not None:
            if now_ns > self._stuck_at_ns + _STUCK_NS:
                self._lookout.busy_since_ns = busy_since_ns = now_ns  # so late are we only if we were stopped meanwhile
            if now_ns < busy_since_ns + _STUCK_NS:
                self._stuck_at_ns = busy_since_ns + _STUCK_NS
                return self._stuck_at_ns
            seconds = (now_ns - busy_since_ns) // 1_000_000_000
            self._say_unable(f"a look that began {seconds} s ago has not come back: the kernel holds it", now_ns)
            self._stuck_at_ns = now_ns + _STUCK_NS
            return self._stuck_at_ns
        due_ns = self._due_ns
        if now_ns < due_ns:
            return due_ns
        return self._begin(now_ns)

    def take(self, now_ns: int) -> int | None:
        """The pair in flight has ended."""
        if self._lookout is None:
            return None
        verdict = self._lookout.take()
        if self._ended:
            return None
        if self._lookout.failure is not None:
            self._say_unable(f"the look failed: {self._lookout.failure}", now_ns)
            self._plan(now_ns, is_settled=True)
        elif verdict is None or self._looked_at_silence_ns != self._quiet_since_ns:
            self._next_ns = now_ns
        elif verdict.alive or self._child.status is None:
            self._plan(now_ns, is_settled=self._offer(verdict, now_ns))
        else:
            self._plan(now_ns, is_settled=True)  # nobody of it is left: the exit is on its way to us
        return self.tick(now_ns)

    def output(self, now_ns: int) -> int | None:
        """There was output: what was seen of the silence before is over."""
        if self._ended:
            return None
        if self._lookout is not None:
            self._lookout.abandon()
        if self._published is not None:
            self._published.output()
        self._pressing = 0
        self._next_ns = 0
        self._hurried = False
        return now_ns + self._after_ns

    def hurry(self, now_ns: int) -> int | None:
        """The command was stopped, or continued: look now."""
        if self._lookout is not None:
            self._lookout.abandon()
        self._hurried = True
        self._pressing = 0
        return self.tick(now_ns)

    def exited(self, now_ns: int) -> int | None:
        """The direct child has exited. What is looked at from here on is who holds its output open."""
        if self._lookout is not None:
            self._lookout.abandon()
        self._exited_ns = now_ns
        self._next_ns = 0
        self._hurried = False
        self._pressing = 0
        return self.tick(now_ns)

    def end(self) -> None:
        """A stop has begun: no verdict from here on."""
        self._ended = True
        if self._lookout is not None:
            self._lookout.abandon()

    @property
    def _quiet_since_ns(self) -> int:
        """Since when nothing new was written."""
        since_ns = None if self.repeats is None else self.repeats.since_ns
        return self._stats.silent_since_ns if since_ns is None else since_ns

    @property
    def _due_ns(self) -> int:
        if self._hurried:
            return 0
        silent_since_ns = self._quiet_since_ns
        if self._exited_ns is not None:
            silent_since_ns = max(silent_since_ns, self._exited_ns)
        return max(silent_since_ns + self._after_ns, self._next_ns)

    def _begin(self, now_ns: int) -> int | None:
        assert self._lookout is not None
        is_first = self._pressing == 0 or self._hurried
        status = self._child.status
        asked = Asked(
            _FIRST_PAIR_S if is_first else _PAIR_S,
            _FIRST_SAMPLES if is_first else _SAMPLES,
            frozenset(self._child.not_of_the_tree),
            exit_status=None if status is None else posix.waitstatus_to_exitcode(status),
            stopped_by=self._child.stopped_by,
            is_blocked=any(channel.blocked for channel in self._channels),
        )
        self._hurried = False
        self._pressing += 1
        if self._published is not None and self._looked_at_silence_ns != self._quiet_since_ns:
            self._published.output()
        self._looked_at_silence_ns = self._quiet_since_ns
        if self._lookout.begin(asked, now_ns):
            self._stuck_at_ns = now_ns + _STUCK_NS
            return self._stuck_at_ns
        self._say_unable(f"no look can be had: {self._lookout.failure}", now_ns)
        self._plan(now_ns, is_settled=True)
        return self._due_ns

    def _offer(self, verdict: "Verdict", now_ns: int) -> bool:
        """True: it is the one that is published now."""
        from sidecar.core.published import PublishedVerdict, with_repeats
        from sidecar.core.records import replace

        if self._published is None:
            self._published = PublishedVerdict()
        if self.repeats is not None:
            verdict = with_repeats(verdict, self.repeats.words(now_ns))
        if self._uncounted:
            verdict = replace(verdict, unseen=(*self._uncounted, *verdict.unseen))
        if self._published.offer(verdict, now_ns):
            self._tell(self.fields(now_ns), now_ns)
        is_confirmed = self._published.current is verdict
        if is_confirmed and self._limits is not None:
            for rule in self._limits.met(verdict.name, self._published.since_ns, now_ns):
                self._meet(rule, verdict, now_ns)
        return is_confirmed

    def _meet(self, rule: "Rule", verdict: "Verdict", now_ns: int) -> None:
        """The verdict has held for as long as a rule allows, and a look has just found that it still holds."""
        from sidecar.core import verdict_limits

        assert self._published is not None
        self._tell({**self.fields(now_ns), "limit": verdict_limits.rule_text(rule)}, now_ns)
        if rule[2] == verdict_limits.CANCEL and self._stop is not None:
            held_ns = now_ns - self._published.since_ns
            self._stop(verdict_limits.words_of(rule, verdict.name, held_ns, verdict.evidence))

    def _plan(self, now_ns: int, *, is_settled: bool) -> None:
        """When to look next: at once where the verdict is not settled, else in time for the next beat."""
        if is_settled:
            self._pressing = 1
        elif self._pressing < _PRESSING_AT_MOST:
            self._next_ns = now_ns
            return
        self._next_ns = min(self._next_for_beat_ns(now_ns), self._next_for_limit_ns(now_ns))

    def _next_for_beat_ns(self, now_ns: int) -> int:
        beat_ns = self._heartbeat.beat_ns
        if beat_ns is None:
            return now_ns + _WITHOUT_BEATS_NS
        wanted_ns = beat_ns - _LEAD_NS
        if wanted_ns < now_ns:
            wanted_ns += self._heartbeat.interval_ns  # this one was for the beat that is next
        return max(wanted_ns, now_ns + _GAP_NS)

    def _next_for_limit_ns(self, now_ns: int) -> int:
        """So that a look comes back when a rule is met, and not only with the next beat."""
        published = self._published
        if self._limits is None or published is None or published.current is None:
            return _NEVER_NS
        met_ns = self._limits.next_ns(published.current.name, published.since_ns)
        return _NEVER_NS if met_ns is None else max(now_ns, met_ns - _PAIR_NS)

    def _say_unable(self, why: str, now_ns: int) -> None:
        """There is nothing to be seen, and this is why."""
        try:
            from sidecar.core import published, verdict_fields  # noqa: F401 - `_offer` needs them
            from sidecar.core.finding import UNSURE, Verdict
        except ImportError:
            return  # an upgrade removed us while the command runs: it goes on without
        verdict = Verdict("unknown", UNSURE, None, (why,), alive=self._child.status is None)
        self._offer(verdict, now_ns)
        self._offer(verdict, now_ns)


def uncounted(proc: str = "/proc") -> tuple[str, ...]:
    """What the command writes without our seeing it, a sentence for each of stdout and stderr that is a device but no
    terminal: the agent's own goes to the command (supervisor/streams.py), and none of what it takes can be counted."""
    found = []
    for descriptor, name in ((1, "stdout"), (2, "stderr")):
        try:
            is_device = posix.fstat(descriptor).st_mode & _S_IFMT == _S_IFCHR
            # One that is not inherited is a plug of ours: the command finds it closed.
            if is_device and not posix.isatty(descriptor) and posix.get_inheritable(descriptor):
                target = posix.readlink(f"{proc}/self/fd/{descriptor}")
                found.append(f"what it writes to {name} ({target}): there it is not counted, in a pipe or a file it is")
        except OSError:
            continue
    return tuple(found)
