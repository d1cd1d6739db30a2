"""The supervisor's one loop: one poll, one deadline; a timeout is just another event.

Each turn: signals, then bytes, then clocks. Bytes come before clocks, so that output which is already in the
pipe is never called silence; and everything that is decided (a stop, the end) is decided in this one thread,
so that nothing can race with it.
"""

import posix
import select
import time

from sidecar.core.heartbeat import BEAT, NOTE, HeartbeatClock
from sidecar.core.lifecycle import RUNNING, SILENCE, STOPPING, TIMEOUT, Lifecycle
from sidecar.supervisor.asking import Asking
from sidecar.supervisor.reactions import Reactions

TYPE_CHECKING = False  # typing.TYPE_CHECKING, without the 7 ms of importing typing
if TYPE_CHECKING:
    from collections.abc import Callable

    from sidecar.core.output import OutputStats
    from sidecar.supervisor.child import Child
    from sidecar.supervisor.delivery import Delivery
    from sidecar.supervisor.files import GivenFiles
    from sidecar.supervisor.keys import Keys
    from sidecar.supervisor.options import RunOptions
    from sidecar.supervisor.relay import Channel
    from sidecar.supervisor.reports import Reports
    from sidecar.supervisor.signals import SignalSource
    from sidecar.supervisor.stopping import Stop
    from sidecar.supervisor.terminal import Terminal

_NS_PER_MS = 1_000_000
_MAX_POLL_MS = 1 << 30
"""poll(2) takes an int: a timeout of a month would overflow it. To wake in vain every twelve days costs nothing."""
_UNTAKEN_NS = 500_000_000
"""A stop waits no longer for a reader than this since it last took something: without us it would not wait at all."""
_ENDED = select.POLLERR | select.POLLHUP | select.POLLNVAL


class Loop:
    """Supervises one running command until nothing is owed any more. `run` returns the monotonic end time."""

    def __init__(
        self,
        options: "RunOptions",
        child: "Child",
        channels: "list[Channel]",
        signals: "SignalSource",
        stats: "OutputStats",
        reports: "Reports",
        delivery: "Delivery",
        terminal: "Terminal | None",
        keys: "Keys | None",
        clock_ns: "Callable[[], int]" = time.monotonic_ns,
        files: "GivenFiles | None" = None,
    ) -> None:
        self._options = options
        self._child = child
        self.channels = channels
        self._signals = signals
        self._stats = stats
        self._reports = reports
        self._delivery = delivery
        self._terminal = terminal
        self._keys = keys
        self.clock_ns = clock_ns
        self._files = files
        self._turn_began_ns = stats.started_ns
        self._is_blocked = False
        self.lifecycle = Lifecycle()
        self.lifecycle.spawned()
        self.heartbeat = HeartbeatClock(options.heartbeat_interval_ns, stats.started_ns)
        self._timeout_at_ns = None if options.timeout_ns is None else stats.started_ns + options.timeout_ns
        self._silence_timeout_ns = options.silence_timeout_ns
        self.stopped: Stop | None = None
        """The stop that was decided, if one was."""
        self.reactions = Reactions(self, child, terminal, signals, stats.started_ns)
        self._drain_until_ns: int | None = None
        self._drained = False
        self._hurried = False
        self._leave_at_ns: int | None = None
        self._taken_bytes = -1
        self.silence = Asking(
            options, child, channels, stats, reports, delivery, terminal, self.heartbeat, self.reactions.limit_met
        )
        self._poll = select.poll()
        self._polled: dict[int, int] = {}

    def run(self) -> int:
        while True:
            ready = self._wait()
            if ready.get(self._signals.descriptor):
                self.reactions.signals(self._signals.read())
            now_ns = self.clock_ns()
            self._move_bytes(ready, now_ns)
            self.silence.ready(ready, now_ns)
            self._serve_link(ready, now_ns)
            self._clocks(self.clock_ns())
            if self._done(self.clock_ns()):
                return self.clock_ns()

    # Waiting

    def _wait(self) -> dict[int, int]:
        self._turn_began_ns = self.clock_ns()
        self._register()
        link = self._delivery.link
        deadlines = [
            at_ns
            for at_ns in (
                *self._times_of_the_command(),
                None if self.stopped is None else self.stopped.deadline_ns,
                None if self._drained else self._drain_until_ns,
                self._leave_at_ns,
                self.reactions.deadline_ns,
                None if self._files is None else self._files.deadline_ns,
                self.silence.deadline_ns,
                None if link is None else link.retry_ns,
            )
            if at_ns is not None
        ]
        timeout_ms = None
        if any(channel.blocked and not channel.sink.pollable for channel in self.channels):
            timeout_ms = 0  # a short write to a file: it has room or fails, and nobody would wake us for the rest
        elif deadlines:
            timeout_ms = min(max(0, -((self.clock_ns() - min(deadlines)) // _NS_PER_MS)), _MAX_POLL_MS)
        return dict(self._poll.poll(timeout_ms))

    def _times_of_the_command(self) -> "tuple[int | None, ...]":
        return self.heartbeat.deadline_ns, self._timeout_at_ns, self._silence_at_ns

    @property
    def _silence_at_ns(self) -> int | None:
        """When the silence so far will be too long. Moves with each output."""
        if self._silence_timeout_ns is None:
            return None
        return self.heartbeat.silent_since_ns + self._silence_timeout_ns

    def _register(self) -> None:
        wanted = {self._signals.descriptor: select.POLLIN}
        for channel in self.channels:
            if channel.wants_read:
                wanted[channel.source] = select.POLLIN
            if channel.sink.pollable and (channel.open or channel.blocked):
                # With nothing to write we still want to hear that the reader has gone.
                wanted[channel.sink.descriptor] = select.POLLOUT if channel.blocked else 0
        wanted.update(self.silence.interest)
        if self._keys is not None:
            wanted.update(self._keys.interest(wanted))
        link = self._delivery.link
        if link is not None and link.descriptor is not None:
            wanted[link.descriptor] = select.POLLIN | (select.POLLOUT if link.wants_to_write else 0)
        if wanted == self._polled:
            return
        for descriptor in self._polled.keys() - wanted.keys():
            try:
                self._poll.unregister(descriptor)
            except KeyError:
                continue
        for descriptor, mask in wanted.items():
            self._poll.register(descriptor, mask)
        self._polled = wanted

    # What was decided

    def reap(self) -> bool:
        """True = the command has just ended."""
        stopped_by = self._child.stopped_by
        if not self._child.reap():
            if self._child.stopped_by != stopped_by:
                self.silence.stopped_or_continued(self.clock_ns())
            return False
        self.heartbeat.stop()
        self._silence_timeout_ns = None
        self._drain_until_ns = self.clock_ns() + self._options.drain_grace_ns
        if self._terminal is not None:
            self._terminal.command_exited()
        for channel in self.channels:
            channel.exit_seen()
        self.silence.exited(self.clock_ns())
        return True

    def hurry(self) -> None:
        """We are asked to end, and the command has ended: its bytes are waited for only while they are taken."""
        self._hurried = True

    def ended_by_itself(self, signal_number: int = 0, *, or_by_any: bool = False) -> bool:
        """Before a stop: whether it would come too late. The exit may be known to the kernel, and not yet to us.

        Where the request was a signal that the command has had too, an end just now is its answer: by that very
        signal, or (`or_by_any`) however it chose.
        """
        if self.stopped is not None:
            return False
        if self._child.status is None:
            self.reap()
            status = self._child.status
            if status is None or or_by_any:
                return False
            if signal_number and posix.WIFSIGNALED(status) and posix.WTERMSIG(status) == signal_number:
                return False
        self.hurry()
        return True

    def was_continued(self) -> None:
        """SIGCONT came. If the command was stopped with us, then since the last turn at most: that does not count.

        Of us alone it counts: the command went on running all the while.
        """
        self.reap()
        if self._child.continued:
            self.was_suspended(self.clock_ns() - self._turn_began_ns)

    def was_suspended(self, for_ns: int) -> None:
        """Command and supervisor were stopped together for so long: the clocks stood still."""
        self.heartbeat.shift(for_ns)
        self.silence.resumed(self.clock_ns())
        if self._timeout_at_ns is not None:
            self._timeout_at_ns += for_ns
        self._turn_began_ns += for_ns

    def stop(self, reason: str, asked_by: str, evidence: str | None = None, *, but_group: bool = False) -> bool:
        """TERM to the whole tree now, KILL to what is left after the grace; asked for again, KILL now.

        `reason` is one of lifecycle.STOP_REASONS, `asked_by` one of lifecycle.ASKERS, `evidence` in words why. With
        `but_group` our own group has had its TERM. False: it was stopping, and this changed nothing.
        """
        now_ns = self.clock_ns()
        if self.stopped is not None:
            return self.stopped.again(now_ns)
        if self.lifecycle.state != RUNNING:
            return False
        from sidecar.supervisor.stopping import Stop

        self.lifecycle.stop(reason)
        self.heartbeat.stop()
        self._timeout_at_ns = self._silence_timeout_ns = None
        self.silence.end()
        self.stopped = Stop(
            self._child,
            asked_by,
            evidence,
            started_ns=self._stats.started_ns,
            now_ns=now_ns,
            kill_after_ns=self._options.kill_after_ns,
            but_group=but_group,
        )
        return True

    # Bytes

    def _move_bytes(self, ready: dict[int, int], now_ns: int) -> None:
        for channel in self.channels:
            sink_events = ready.get(channel.sink.descriptor, 0) if channel.sink.pollable else 0
            if channel.blocked and (sink_events or not channel.sink.pollable):
                channel.flush()
            elif sink_events & _ENDED and channel.open:
                channel.reader_gone()
            if channel.wants_read and ready.get(channel.source) and channel.pump(now_ns):
                self.heartbeat.output(now_ns)
                self.silence.output(now_ns)
        if self._keys is not None:
            self._keys.move(ready)
        written_ns = None if self._files is None else self._files.look(now_ns)
        if written_ns is not None:
            self.heartbeat.output(max(written_ns, self.heartbeat.silent_since_ns))
            self.silence.output(now_ns)

    def _serve_link(self, ready: dict[int, int], now_ns: int) -> None:
        link = self._delivery.link
        if link is None:
            return
        if link.descriptor is not None and ready.get(link.descriptor):
            said = link.service(now_ns)
            if link.has_missed_output:
                link.has_missed_output = False
                if self._stats.last_output_ns is not None:
                    self.heartbeat.untell()
            if said:
                self.reactions.requests(said, self._reports.command_id)
        elif link.retry_ns is not None and now_ns >= link.retry_ns:
            link.connect(now_ns)

    # Clocks

    def _clocks(self, now_ns: int) -> None:
        if any(at_ns is not None and now_ns >= at_ns for at_ns in self._times_of_the_command()):
            # A stop may be why the time has come; it must be known before the clock is believed.
            self.reactions.signals(self._signals.read())
        self._look_at_reader(now_ns)
        # Before the beat: one that is due in the same turn would say "still running" of what is being stopped.
        if self._timeout_at_ns is not None and now_ns >= self._timeout_at_ns:
            self._timeout_at_ns = None
            if not self.ended_by_itself():
                self.stop("timeout", TIMEOUT)
        if self._silence_at_ns is not None and now_ns >= self._silence_at_ns:
            self._silence_timeout_ns = None
            if not self.ended_by_itself():
                self.stop("silence_timeout", SILENCE)
        self.reactions.tick(now_ns)
        due = self.heartbeat.tick(now_ns)
        if due == BEAT:
            verdict = self.silence.verdict(now_ns)
            self._delivery.send(self._reports.progress(self._stats, self.heartbeat.count, now_ns, verdict))
        elif due == NOTE:
            self._delivery.send(self._reports.activity(self._stats, now_ns, repeats=self.silence.repeats))
        self.silence.tick(now_ns)
        if self.stopped is not None:
            self.stopped.tick(now_ns)

    def _look_at_reader(self, now_ns: int) -> None:
        """The agent does not take what the command wrote: that is no silence of the command's, and no output either."""
        was_blocked = self._is_blocked
        self._is_blocked = any(channel.blocked for channel in self.channels)
        if self._is_blocked or was_blocked:
            self.heartbeat.hold(now_ns)
        if was_blocked and not self._is_blocked:
            self._stats.record_taken(now_ns)
            self.heartbeat.output(now_ns)
            self.silence.output(now_ns)

    def _done(self, now_ns: int) -> bool:
        """Nothing is owed any more: the child was reaped, its output is through, a stop has run its course."""
        given_up = self.stopped is not None and self.stopped.given_up(now_ns)
        if self._drain_until_ns is None:
            return given_up
        stopping = self.lifecycle.state == STOPPING
        if stopping and not given_up and self._child.others():
            return False  # in their grace, or dying: each end, and the deadline, wakes us
        if not self._drained and now_ns >= self._drain_until_ns:
            # Not renewed by new data: a background process may write for ever. What was in the pipe at the
            # exit stays owed, however slow the reader is.
            self._drained = True
        if self._drained:
            for channel in self.channels:
                channel.drain(now_ns)
        if all(channel.finished for channel in self.channels):
            return True
        return self._drained and (stopping or self._hurried) and self._reader_sleeps(now_ns)

    def _reader_sleeps(self, now_ns: int) -> bool:
        """The agent has taken nothing for a while, and we are asked to end."""
        taken_bytes = sum(channel.taken_bytes for channel in self.channels)
        if self._leave_at_ns is None or taken_bytes != self._taken_bytes:
            self._taken_bytes = taken_bytes
            self._leave_at_ns = now_ns + _UNTAKEN_NS
        return now_ns >= self._leave_at_ns
