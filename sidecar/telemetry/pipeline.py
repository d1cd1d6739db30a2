"""The telemetry of one process: what happens to commands goes in, spans, log events and metrics go out.

Every call is quick and none raises, so that an event loop can make them: what is to be sent is queued, and the
SDK's threads send it. The providers are private; a host process's own OpenTelemetry is not touched. What goes
wrong is counted and kept for `status()`, and nothing is printed.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

# Before anything that imports OpenTelemetry, which logs while it is imported.
from sidecar.telemetry.quiet import Problems, collect, stop_collecting

# isort: split
from sidecar.telemetry import sdk_first  # noqa: F401 - before anything else that imports the SDK

# isort: split
from sidecar.telemetry import describe, resource
from sidecar.telemetry.conventions import attributes as a
from sidecar.telemetry.conventions import signals as s
from sidecar.telemetry.feed import Feed
from sidecar.telemetry.identity import Identity, identity_of
from sidecar.telemetry.leftovers import Taken, take
from sidecar.telemetry.logs import Severity
from sidecar.telemetry.outputs import Outputs
from sidecar.telemetry.sentences import sentence
from sidecar.telemetry.spans import SpanBuilder
from sidecar.telemetry.suspects import is_suspect
from sidecar.telemetry.targets import sdk_disabled
from sidecar.telemetry.thinning import Thinning

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    from sidecar.core.command import Command
    from sidecar.telemetry.metrics import Metrics
    from sidecar.telemetry.settings import TelemetrySettings


_LEFTOVERS_AT_ONCE = 16


class _Live:
    """What is remembered of a command between its events."""

    __slots__ = ("identity", "thinning", "verdict", "verdict_count")

    def __init__(self, command: Command) -> None:
        self.identity: Identity = identity_of(command)
        self.thinning = Thinning(command.identity["heartbeatIntervalMs"])
        # An earlier daemon has told of a replayed command's verdict.
        replayed = bool(command.identity.get("replay"))
        self.verdict: str | None = command.verdict if replayed else None
        self.verdict_count = command.verdict_count if replayed else 0


class Telemetry:
    """See the module. `monotonic_ns` must be the clock that the commands were fed with.

    Satisfies `sidecar.daemon.sink.TelemetrySink`. Calls may come from any thread, but one at a time.
    """

    def __init__(
        self,
        settings: TelemetrySettings,
        *,
        monotonic_ns: Callable[[], int] = time.monotonic_ns,
        unix_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._monotonic_ns = monotonic_ns
        self._problems = Problems()
        self._suspect_after_ms = settings.suspect_after_ns // 1_000_000
        self._live: dict[str, _Live] = {}
        self._outputs: Outputs | None = None
        self._shut_down = False
        self._leftovers = Feed(self)
        self._taken: list[Taken] = []
        self.disabled = sdk_disabled(settings.environ)
        collect(self._problems)
        if self.disabled:
            return
        built = resource.build(settings)
        self._builder = SpanBuilder(built)
        self._outputs = Outputs(settings, built, self._problems, monotonic_ns, unix_ns)

    def command_started(self, command: Command) -> None:
        """A command began. One that an earlier daemon has told of already is only taken note of."""
        self._guarded(self._on_started, command)

    def heartbeat(self, command: Command, frame: dict[str, Any]) -> None:
        """`frame` is the shell_progress frame, which `command` has taken in already."""
        self._guarded(self._on_heartbeat, command, frame)

    def verdict_changed(self, command: Command, frame: dict[str, Any]) -> None:
        """`frame` is the verdict frame, which `command` has taken in already."""
        self._guarded(self._on_verdict, command, frame)

    def command_settled(self, command: Command) -> None:
        """The end of a command, whatever it was: also `lost` and `spawn_failed`."""
        self._guarded(self._on_settled, command)

    def observe(self, provider: Callable[[], Iterable[Command]]) -> None:
        """`provider` lists the running commands whenever gauges are read, on the reader's thread."""
        if self._metrics is not None:
            self._metrics.provider = provider

    def loop_alive(self) -> None:
        """The caller's loop has turned; to be called every second or so."""
        if self._metrics is not None:
            self._metrics.loop_alive()
        self._guarded(self._take_leftovers)
        self._guarded(self._try_port)

    def send_now(self, *, everything: bool) -> None:
        """Try to send what waits, without the rest of a back-off; `everything`: whatever Collector it was meant for."""
        if self._outputs is not None:
            self._outputs.send_now(everything=everything)

    def save(self) -> bool:
        """Put all that was told so far into the spool. False where the disk does not take it just now."""
        if self._outputs is None or self._shut_down:
            return True
        taken = len(self._taken)
        if not self._outputs.save():
            return False
        for one in self._taken[:taken]:
            one.remove()
        del self._taken[:taken]
        return True

    def shutdown(self, budget_s: float) -> bool:
        """Send what is queued, and return within `budget_s` whatever the exporters do. False: some of it is lost."""
        if self._shut_down:
            return True
        self._shut_down = True
        is_safe = self._outputs is None or self._outputs.shutdown(budget_s)
        if is_safe:
            for taken in self._taken:
                taken.remove()
        stop_collecting(self._problems)
        return is_safe

    def take_leftovers(self, path: str, at_most: int) -> None:
        """Tell of what was left beside the spool at `path`; it is removed when that is in the spool."""
        taken = take(path, lambda lines: self._leftovers.take_whole(lines, self._monotonic_ns()), at_most)
        if taken:
            self._taken.append(taken)

    def status(self) -> dict[str, Any]:
        """What is sent where, and what went wrong lately. JSON-ready; holds no secret."""
        outputs = self._outputs
        page = outputs.prometheus if outputs else None
        return {
            "disabled": self.disabled,
            "signals": outputs.signal_status() if outputs else {},
            "prometheus": page.url if page is not None and page.problem is None else None,
            "prometheus_problem": page.problem if page is not None else None,
            "spool": outputs.spool_status() if outputs else None,
            "problems": self._problems.recent,
            "problem_count": self._problems.count,
        }

    @property
    def _spans(self) -> BatchSpanProcessor | None:
        return self._outputs.spans if self._outputs else None

    @property
    def _metrics(self) -> Metrics | None:
        return self._outputs.metrics if self._outputs else None

    def _take_leftovers(self) -> None:
        """What commands had to leave because their own process had no time for it; a few at a time."""
        path = self._outputs.spool.path if self._outputs else None
        if path is not None:
            self.take_leftovers(path, _LEFTOVERS_AT_ONCE)

    def _try_port(self) -> None:
        if self._outputs is not None and self._outputs.prometheus is not None:
            self._outputs.prometheus.try_again()

    def _on_started(self, command: Command) -> None:
        live = self._remember(command)
        if command.identity.get("replay"):
            return
        if self._metrics is not None:
            self._metrics.started(command)
        if self._spans is not None and live.identity.sampled:
            self._spans.on_end(self._builder.started(command, live.identity))
        how = describe.how(command)
        self._log(s.STARTED, command, live, 0, Severity.INFO, how)

    def _on_heartbeat(self, command: Command, frame: dict[str, Any]) -> None:
        if frame.get("replay"):
            return
        live = self._remember(command)
        payload = frame["shellProgress"]
        elapsed_ms, age_ms = payload["elapsedMs"], payload.get("lastOutputAgeMs")
        if self._metrics is not None:
            self._metrics.heartbeat(command)
        changed = self._note_verdict(command, live, frame["seq"], elapsed_ms, age_ms)
        attributes = {
            a.HEARTBEAT_COUNT: command.heartbeat_count,
            a.SEQ: frame["seq"],
            **describe.moment(command, elapsed_ms, age_ms),
        }
        self._log(s.HEARTBEAT, command, live, elapsed_ms, self._severity(command), attributes)
        self._live_span(command, live, frame["seq"], elapsed_ms, age_ms, s.HEARTBEAT, change=changed)

    def _on_verdict(self, command: Command, frame: dict[str, Any]) -> None:
        if frame.get("replay"):
            return
        live = self._remember(command)
        elapsed_ms = frame["elapsedMs"]
        # The frame does not say how old the output is; our own clock does, near enough.
        age_ms = command.output_age_ms(self._monotonic_ns()) if command.has_output else None
        if self._note_verdict(command, live, frame["seq"], elapsed_ms, age_ms):
            self._live_span(command, live, frame["seq"], elapsed_ms, age_ms, s.VERDICT_EVENT, change=True)
        if "limit" in frame:
            attributes = {a.SEQ: frame["seq"], **describe.moment(command, elapsed_ms, age_ms)}
            attributes[a.VERDICT_LIMIT] = frame["limit"]
            self._log(s.VERDICT_EVENT, command, live, elapsed_ms, Severity.WARN, attributes)

    def _on_settled(self, command: Command) -> None:
        live = self._remember(command)
        del self._live[command.id]
        settled = describe.settled_frame(command)
        if settled.get("replay"):
            return
        if self._metrics is not None:
            self._metrics.settled(command, live.identity.span)
        if self._spans is not None and live.identity.sampled:
            self._spans.on_end(self._builder.command(command, live.identity))
        lost = settled["reason"] == "lost"
        elapsed_ms = settled["elapsedMs"]
        attributes = {a.ELAPSED_MS: elapsed_ms, **describe.end(command)}
        timeout_ms = command.identity.get("timeoutMs")
        if timeout_ms is not None:
            attributes[a.TIMEOUT_MS] = timeout_ms
        severity = Severity.ERROR if lost else Severity.INFO
        self._log(s.LOST if lost else s.SETTLED, command, live, elapsed_ms, severity, attributes)

    def _note_verdict(self, command: Command, live: _Live, seq: int, elapsed_ms: int, age_ms: int | None) -> bool:
        """Tell of a change of verdict, once. Whether there was one."""
        if command.verdict_count == live.verdict_count:
            return False
        live.verdict_count = command.verdict_count
        previous, live.verdict = live.verdict, command.verdict
        if self._metrics is not None:
            self._metrics.verdict(command)
        attributes = {a.SEQ: seq, **describe.moment(command, elapsed_ms, age_ms)}
        if previous is not None:
            attributes[a.VERDICT_PREVIOUS] = previous
        self._log(s.VERDICT_EVENT, command, live, elapsed_ms, self._severity(command), attributes)
        return True

    def _live_span(
        self,
        command: Command,
        live: _Live,
        seq: int,
        elapsed_ms: int,
        age_ms: int | None,
        event_name: str,
        *,
        change: bool,
    ) -> None:
        if self._spans is None or not live.identity.sampled:
            return
        if live.thinning.due(elapsed_ms, change=change):
            span = self._builder.heartbeat(command, live.identity, seq, elapsed_ms, age_ms, event_name)
            self._spans.on_end(span)

    def _log(
        self,
        event_name: str,
        command: Command,
        live: _Live,
        elapsed_ms: int,
        severity: Severity,
        attributes: describe.Attributes,
    ) -> None:
        logs = self._outputs.logs if self._outputs else None
        if logs is not None:
            logs.emit(
                event_name,
                live.identity.span,
                live.identity.at_ns(elapsed_ms),
                severity,
                sentence(event_name, command, attributes),
                {**describe.who(command), **attributes},
            )

    def _severity(self, command: Command) -> Severity:
        suspect = is_suspect(command, self._monotonic_ns(), self._suspect_after_ms)
        return Severity.WARN if suspect else Severity.INFO

    def _remember(self, command: Command) -> _Live:
        live = self._live.get(command.id)
        if live is None:
            live = self._live[command.id] = _Live(command)
        return live

    def _guarded(self, call: Callable[..., None], *arguments: Any) -> None:
        if self.disabled or self._shut_down:
            return
        try:
            call(*arguments)
        except Exception as error:  # noqa: BLE001 - telemetry may fail in every way; its caller never pays for it
            self._problems.add(f"{call.__name__.strip('_')}: {error!r}"[:500])
