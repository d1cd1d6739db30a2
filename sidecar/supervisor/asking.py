"""Why the command is silent, asked by the loop: nothing of it is loaded before somebody could want to know."""

TYPE_CHECKING = False  # typing.TYPE_CHECKING, without the 7 ms of importing typing
if TYPE_CHECKING:
    from collections.abc import Callable

    from sidecar.core.frame_line import Json
    from sidecar.core.heartbeat import HeartbeatClock
    from sidecar.core.output import OutputStats
    from sidecar.supervisor.child import Child
    from sidecar.supervisor.delivery import Delivery
    from sidecar.supervisor.options import RunOptions
    from sidecar.supervisor.relay import Channel
    from sidecar.supervisor.reports import Reports
    from sidecar.supervisor.silence import Silence
    from sidecar.supervisor.terminal import Terminal

_FROM_NS = 1_000_000_000
"""When a command begins to be asked, at the latest. Most are over before."""


class Asking:
    """A `Silence`, with its methods, that is made when it is needed first.

    Where it cannot be loaded, as after an upgrade under our feet or without a descriptor, nothing is asked, and the
    command goes on.
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
        self._log = options.log
        self._made_of = (options, child, channels, stats, reports, delivery, terminal, heartbeat, stop)
        self._silence: Silence | None = None
        self._has_failed = self._has_exited = self._is_over = False
        self._from_ns = stats.started_ns + min(options.verdict_after_ns, _FROM_NS) if options.verdicts else None

    @property
    def deadline_ns(self) -> int | None:
        return self._from_ns if self._silence is None else self._silence.deadline_ns

    @property
    def interest(self) -> dict[int, int]:
        return {} if self._silence is None else self._silence.interest

    @property
    def repeats(self) -> bool:
        return self._silence is not None and self._silence.repeats

    def tick(self, now_ns: int) -> None:
        is_due = self._silence is not None or (self._from_ns is not None and now_ns >= self._from_ns)
        if is_due and (silence := self._made(now_ns)) is not None:
            silence.tick(now_ns)

    def ready(self, ready: dict[int, int], now_ns: int) -> None:
        if self._silence is not None:
            self._silence.ready(ready, now_ns)

    def output(self, now_ns: int) -> None:
        if self._silence is not None:
            self._silence.output(now_ns)

    def verdict(self, now_ns: int) -> "dict[str, Json]":
        return {} if self._silence is None else self._silence.verdict(now_ns)

    def resumed(self, now_ns: int) -> None:
        if (silence := self._made(now_ns)) is not None:
            silence.resumed(now_ns)

    def stopped_or_continued(self, now_ns: int) -> None:
        if (silence := self._made(now_ns)) is not None:
            silence.stopped_or_continued(now_ns)

    def suspended(self, signal_name: str, now_ns: int) -> None:
        if (silence := self._made(now_ns)) is not None:
            silence.suspended(signal_name, now_ns)

    def exited(self, now_ns: int) -> None:
        self._has_exited = True
        if self._silence is not None:
            self._silence.exited(now_ns)

    def end(self) -> None:
        self._is_over = True
        self._from_ns = None
        if self._silence is not None:
            self._silence.end()

    def _made(self, now_ns: int) -> "Silence | None":
        if self._silence is not None or self._has_failed:
            return self._silence
        try:
            from sidecar.supervisor.silence import Silence

            self._silence = Silence(*self._made_of)
        except Exception as error:  # noqa: BLE001 - whatever it is, the supervisor must go on
            from sidecar.supervisor.notes import Notes

            self._has_failed = True
            self._from_ns = None
            Notes(self._log).write(f"no more verdicts on this command: {error!r}")
            return None
        if self._is_over:
            self._silence.end()
        elif self._has_exited:
            self._silence.exited(now_ns)
        return self._silence
