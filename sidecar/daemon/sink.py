"""Where the daemon reports to: the telemetry behind it, as a protocol, and a guard around it.

Nothing that a sink does may harm the daemon: each call goes through GuardedSink, which logs and goes on.
"""

import logging
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from sidecar.core.command import Command

log = logging.getLogger(__name__)

Provider = Callable[[], Iterable[Command]]


class TelemetrySink(Protocol):
    """Called on the daemon's event loop, so a call must not block: queue, and export on another thread.

    Replayed events (of a producer that came over from an earlier daemon) are not told, since the earlier
    daemon reported them. So a heartbeat, a verdict or an end may come for a command whose start was not told
    here; `command.identity.get("replay")` then is true. A replayed end alone is told, for the sink to forget
    the command; `command.settled["replay"]` then is true, and nothing is to be reported.
    """

    def command_started(self, command: Command) -> None: ...

    def heartbeat(self, command: Command, frame: dict[str, Any]) -> None:
        """`frame` is the shell_progress frame; `command` has taken it in already."""

    def verdict_changed(self, command: Command, frame: dict[str, Any]) -> None:
        """`frame` is the verdict frame. A verdict that a heartbeat brings comes by heartbeat() alone."""

    def command_settled(self, command: Command) -> None:
        """The end, whatever it was: `command.lifecycle.reason`, also lost and spawn_failed."""

    def observe(self, provider: Provider) -> None:
        """Called once. `provider()` lists the running commands; it may be called from any thread."""

    def loop_alive(self) -> None:
        """Called every second as long as the event loop turns."""

    def send_now(self, *, everything: bool) -> None:
        """Try to send what waits, without the rest of a back-off; `everything`: whatever Collector it was meant for.

        Returns at once.
        """

    def save(self) -> bool:
        """Put all that was told so far where the death of this process does not reach it. False: not now.

        May block, beside the other calls: it has a thread of its own.
        """

    def shutdown(self, budget_s: float) -> bool:
        """Flush and end within `budget_s`. May block too, on a thread of its own.

        False: not all that was told is where the death of this process does not reach it.
        """

    def status(self) -> dict[str, Any]:
        """What `sidecar daemon status` shows of it; an empty dict for nothing."""


class NullSink:
    """Telemetry that is switched off, or could not be set up: `problem` says why, in the words of its error."""

    def __init__(self, problem: str | None = None) -> None:
        self._problem = problem

    def command_started(self, command: Command) -> None:
        pass

    def heartbeat(self, command: Command, frame: dict[str, Any]) -> None:
        pass

    def verdict_changed(self, command: Command, frame: dict[str, Any]) -> None:
        pass

    def command_settled(self, command: Command) -> None:
        pass

    def observe(self, provider: Provider) -> None:
        pass

    def loop_alive(self) -> None:
        pass

    def send_now(self, *, everything: bool) -> None:
        pass

    def save(self) -> bool:
        return True

    def shutdown(self, budget_s: float) -> bool:
        return True

    def status(self) -> dict[str, Any]:
        if self._problem is None:
            return {}
        return {"problems": [f"telemetry could not be set up: {self._problem}"], "problem_count": 1}


class GuardedSink:
    """A sink whose calls never raise. Satisfies TelemetrySink; `failures` counts what it swallowed."""

    def __init__(self, sink: TelemetrySink) -> None:
        self._sink = sink
        self.failures = 0

    def command_started(self, command: Command) -> None:
        self._call("command_started", lambda: self._sink.command_started(command))

    def heartbeat(self, command: Command, frame: dict[str, Any]) -> None:
        self._call("heartbeat", lambda: self._sink.heartbeat(command, frame))

    def verdict_changed(self, command: Command, frame: dict[str, Any]) -> None:
        self._call("verdict_changed", lambda: self._sink.verdict_changed(command, frame))

    def command_settled(self, command: Command) -> None:
        self._call("command_settled", lambda: self._sink.command_settled(command))

    def observe(self, provider: Provider) -> None:
        self._call("observe", lambda: self._sink.observe(provider))

    def loop_alive(self) -> None:
        self._call("loop_alive", self._sink.loop_alive)

    def send_now(self, *, everything: bool) -> None:
        self._call("send_now", lambda: self._sink.send_now(everything=everything))

    def save(self) -> bool:
        found = [False]
        self._call("save", lambda: found.append(self._sink.save()))
        return found[-1]

    def shutdown(self, budget_s: float) -> bool:
        found = [False]
        self._call("shutdown", lambda: found.append(self._sink.shutdown(budget_s)))
        return found[-1]

    def status(self) -> dict[str, Any]:
        found: list[dict[str, Any]] = []
        self._call("status", lambda: found.append(dict(self._sink.status())))
        status = found[0] if found else {}
        return {**status, "failures": self.failures} if self.failures else status

    def _call(self, name: str, call: Callable[[], None]) -> None:
        try:
            call()
        except Exception:
            self.failures += 1
            # The first few with their traceback, then once in a while: a broken sink must not fill the disk.
            if self.failures <= 3 or self.failures % 1000 == 0:
                log.exception("telemetry failed in %s (failure %d)", name, self.failures)
