"""When a silence is long enough to ask why: the loop's handle on `looking`, which is loaded only then."""

import posix
import select

from sidecar.supervisor.notes import Notes
from sidecar.supervisor.repeats import Repeats

TYPE_CHECKING = False  # typing.TYPE_CHECKING, without the 7 ms of importing typing
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Concatenate, ParamSpec

    from sidecar.core.frame_line import Json
    from sidecar.core.heartbeat import HeartbeatClock
    from sidecar.core.output import OutputStats
    from sidecar.supervisor.child import Child
    from sidecar.supervisor.delivery import Delivery
    from sidecar.supervisor.looking import Looking
    from sidecar.supervisor.options import RunOptions
    from sidecar.supervisor.relay import Channel
    from sidecar.supervisor.reports import Reports
    from sidecar.supervisor.terminal import Terminal

    P = ParamSpec("P")


def _guarded(method: "Callable[Concatenate[Silence, P], None]") -> "Callable[Concatenate[Silence, P], None]":
    """The command never pays for a fault of ours in finding out why it is silent: then nothing more is asked."""

    def call(self: "Silence", /, *args: "P.args", **kwargs: "P.kwargs") -> None:
        try:
            method(self, *args, **kwargs)
        except Exception as error:  # noqa: BLE001 - whatever it is, the supervisor must go on
            self.fail(error)

    return call


class Silence:
    """Call `tick` at `deadline_ns` (None: never), and `ready` with what poll(2) says of `interest`.

    `stop` is called with words why, when a rule of `--on-verdict` says that the command is to be stopped.

    A command that is never silent for `verdict_after` costs a comparison now and then, and one that writes for longer
    than a few seconds some of its last output, in which `repeats` looks for news.
    """

    def __init__(
        self,
        options: "RunOptions",
        child: "Child",
        channels: "list[Channel]",
        stats: "OutputStats",
        reports: "Reports",
        delivery: "Delivery",
        terminal: "Terminal | None",
        heartbeat: "HeartbeatClock",
        stop: "Callable[[str], None]",
    ) -> None:
        self._after_ns = options.verdict_after_ns
        self._child = child
        self._channels = channels
        self._stats = stats
        self._reports = reports
        self._delivery = delivery
        self._terminal = terminal
        self._heartbeat = heartbeat
        self._limits = options.on_verdict
        self._stop = stop
        self._notes = Notes(options.log)
        self._looking: Looking | None = None
        self._is_over = not options.verdicts
        self._look_ns = None if self._is_over else stats.started_ns + self._after_ns
        self._repeats = Repeats([] if self._is_over else channels, stats, heartbeat.interval_ns)

    @property
    def deadline_ns(self) -> int | None:
        look_ns, repeats_ns = self._look_ns, self._repeats.deadline_ns
        if look_ns is None or repeats_ns is None:
            return repeats_ns if look_ns is None else look_ns
        return min(look_ns, repeats_ns)

    @property
    def repeats(self) -> bool:
        """Output flows, and is only a spinner or a clock."""
        return self._repeats.since_ns is not None

    @property
    def interest(self) -> dict[int, int]:
        """What to poll for: a look that comes back."""
        descriptor = None if self._looking is None else self._looking.descriptor
        return {} if descriptor is None else {descriptor: select.POLLIN}

    @_guarded
    def tick(self, now_ns: int) -> None:
        if self._repeats.tick(now_ns):
            self._repeats_changed(now_ns)
        if self._look_ns is None or now_ns < self._look_ns:
            return
        silent_enough_ns = self._stats.silent_since_ns + self._after_ns
        if self._looking is None and now_ns < silent_enough_ns:
            self._look_ns = silent_enough_ns
        else:
            looking = self._load()
            self._look_ns = None if looking is None else looking.tick(now_ns)

    @_guarded
    def ready(self, ready: dict[int, int], now_ns: int) -> None:
        """Take a look that has come back."""
        if self._looking is not None and self._looking.descriptor in ready:
            self._look_ns = self._looking.take(now_ns)

    @_guarded
    def output(self, now_ns: int) -> None:
        if self._looking is not None and self._repeats.since_ns is None:
            if self._looking.has_verdict:
                self._tell_of_output(now_ns)  # it is over, and the daemon would go on saying it
            self._look_ns = self._looking.output(now_ns)

    @_guarded
    def resumed(self, now_ns: int) -> None:
        """The command was stopped together with us, and goes on: for that time no verdict held."""
        self._new_output(now_ns)
        if self._looking is not None:
            self._look_ns = self._looking.output(now_ns)

    @_guarded
    def stopped_or_continued(self, now_ns: int) -> None:
        """The direct child was: that is looked at whatever the silence."""
        self._new_output(now_ns)
        looking = None if self._is_over else self._load()
        if looking is not None:
            self._look_ns = looking.hurry(now_ns)

    @_guarded
    def suspended(self, signal_name: str, now_ns: int) -> None:
        """The command was stopped, and we stop with it: nobody will look, so it is said now."""
        if not self._is_over:
            self._tell(
                {
                    "verdict": "stopped",
                    "group": "needs_someone",
                    "confidence": "proved",
                    "sinceMs": 0,
                    "alive": True,
                    "progress": False,
                    "evidence": [f"stopped by {signal_name}, and its supervisor with it: a job of a shell's"],
                    "hint": "Continue it with `fg` in the shell whose job it is; from elsewhere, by its supervisor: "
                    f"`kill -CONT {posix.getpid()}`.",
                },
                now_ns,
            )

    @_guarded
    def exited(self, now_ns: int) -> None:
        self._repeats.end()
        if self._looking is not None:
            self._looking.repeats = None
            self._look_ns = self._looking.exited(now_ns)

    @_guarded
    def end(self) -> None:
        """A stop has begun: nothing is said any more."""
        self._is_over = True
        self._look_ns = None
        self._repeats.end()
        if self._looking is not None:
            self._looking.end()

    def verdict(self, now_ns: int) -> "dict[str, Json]":
        """The published verdict as keys of a frame; empty while there is none."""
        try:
            return {} if self._looking is None else self._looking.fields(now_ns)
        except Exception as error:  # noqa: BLE001 - as in `_guarded`: a beat without a verdict is a beat
            self.fail(error)
            return {}

    def fail(self, error: Exception) -> None:
        """No verdicts from here on; the beats go on, and every method of ours does nothing."""
        self._is_over = True
        self._look_ns = self._looking = None
        for channel in self._channels:
            channel.hear = None
        self._repeats = Repeats([], self._stats, self._heartbeat.interval_ns)
        self._notes.write(f"no more verdicts on this command: {error!r}")

    def _repeats_changed(self, now_ns: int) -> None:
        """The daemon is told first: from here on output ends no verdict, or does again."""
        self._tell_of_output(now_ns)
        looking = self._load() if self.repeats else self._looking
        if looking is not None:
            looking.repeats = self._repeats if self.repeats else None
            looking.output(now_ns)
            self._look_ns = looking.tick(now_ns)

    def _new_output(self, now_ns: int) -> None:
        """What was said so far is no measure of what comes."""
        repeated = self.repeats
        self._repeats.anew()
        if repeated:
            self._repeats_changed(now_ns)

    def _load(self) -> "Looking | None":
        if self._looking is None:
            limits = None
            try:
                from sidecar.supervisor.looking import Looking

                if self._limits:
                    from sidecar.core.verdict_limits import VerdictLimits

                    limits = VerdictLimits(self._limits)
            except ImportError:
                self._is_over = True  # an upgrade removed us while the command runs: it goes on without
                self._look_ns = None
                return None
            terminal = None if self._terminal is None else self._terminal.master
            self._looking = Looking(
                self._child,
                terminal,
                self._channels,
                self._stats,
                self._heartbeat,
                self._after_ns,
                self._tell,
                limits,
                self._stop,
            )
        return self._looking

    def _tell(self, verdict: "dict[str, Json]", now_ns: int) -> None:
        if self._heartbeat.is_untold and not self.repeats:
            self._tell_of_output(now_ns)  # a verdict does not say how old the output is
        self._delivery.send(self._reports.verdict(verdict, now_ns))

    def _tell_of_output(self, now_ns: int) -> None:
        self._heartbeat.told(now_ns)
        self._delivery.send(self._reports.activity(self._stats, now_ns, repeats=self.repeats))
