"""`sidecar run`, from the options to the exit. docs/supervision.md numbers these steps.

Everything up to `spawn` is standard library only and counted: a test asserts which modules are loaded then.
"""

import gc
import posix
import time

import sidecar
from sidecar.core.trace_context import TraceContext, begin_span
from sidecar.supervisor import libc
from sidecar.supervisor.signals import SignalSource
from sidecar.supervisor.spawn import SpawnError, spawn
from sidecar.supervisor.streams import Streams, plan_streams, plug_standard_descriptors

TYPE_CHECKING = False  # typing.TYPE_CHECKING, without the 7 ms of importing typing
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol

    from sidecar.supervisor.options import RunOptions
    from sidecar.supervisor.reports import Frame
    from sidecar.supervisor.terminal import Terminal

    class InlineSink(Protocol):
        """The telemetry pipeline in this process, on a thread of its own."""

        def put(self, frame: Frame) -> None: ...

        def close(self, budget_s: float) -> None: ...

    InlineFactory = Callable[[], InlineSink]


def run(options: "RunOptions", environ: dict[str, str], inline_factory: "InlineFactory") -> None:
    """Supervise the command of `options`; ends this process as the command ended. Does not return.

    `environ` is the agent's environment. `inline_factory` makes the in-process telemetry, which only --inline
    and a machine without any daemon need.
    """
    # Before anything of ours opens a file: a descriptor of ours in the place of a closed stream is the agent's to see.
    streams = plan_streams(options.pty)
    plug_standard_descriptors()
    signals = SignalSource()
    _as_given(environ)
    context = begin_span(environ.get("TRACEPARENT"), environ.get("TRACESTATE"), posix.urandom(24))
    libc.set_subreaper(True)
    terminal = _make_terminal(streams)
    sources, descriptors, ours = _connect(streams, terminal)
    started_ns, unix_ms = time.monotonic_ns(), time.time_ns() // 1_000_000
    try:
        spawning = spawn(
            options.argv,
            _command_environment(environ, context),
            descriptors,
            signals,
            None if terminal is None else terminal.slave,
        )
        spawning.confirm()
        for descriptor in ours:
            posix.close(descriptor)
        # The command runs: load what we need beside it.
        if sidecar.load_rest is not None:
            sidecar.load_rest()
        from sidecar.core.output import OutputStats
        from sidecar.supervisor.child import Child
        from sidecar.supervisor.delivery import Delivery
        from sidecar.supervisor.leave import TIMEOUT_EXIT_CODE, leave
        from sidecar.supervisor.loop import Loop
        from sidecar.supervisor.relay import Channel
        from sidecar.supervisor.reports import Reports
        from sidecar.supervisor.sink import Sink

        _take_agents_names(options, environ)
        stats = OutputStats(started_ns)
        channels = [
            Channel(source, Sink(group[0]), stats, group[0], terminal=on_terminal)
            for source, group, on_terminal in sources
        ]
        reports = Reports(options, context, pty=streams.pty, started_ns=started_ns, unix_ms=unix_ms)
        delivery = Delivery(options, environ, inline_factory)
    except SpawnError as error:
        _spawn_failed(error, options, context, environ, inline_factory, streams, started_ns, unix_ms)
        return
    delivery.send(reports.started(spawning.pid))
    keys = None
    if terminal is not None:
        from sidecar.supervisor.keys import Keys

        terminal.take_keys()
        keys = Keys(terminal)
    child = Child(spawning.pid)
    loop = Loop(options, child, channels, signals, stats, reports, delivery, terminal, keys)
    # It was off so far. What is loaded is no garbage, and to go through it once would take 0.2 ms.
    gc.freeze()
    gc.enable()
    ended_ns = loop.run()
    if terminal is not None:
        terminal.give_back()

    if child.canary is not None:
        child.canary.end()
        child.canary = None
    left = child.others() if child.has_more else []
    loop.lifecycle.exited(by_signal=child.status is None or posix.WIFSIGNALED(child.status))
    reason = loop.lifecycle.reason or "exited"
    extra = {**child.end_facts(), "descendantsLeft": len(left)}
    if loop.stopped is not None:
        extra["stop"] = loop.stopped.receipt()
    delivery.send(reports.settled(reason, stats, loop.heartbeat.count, ended_ns, extra))
    delivery.close()
    held = [channel.source for channel in channels if channel.open]
    if held and left:
        from sidecar.supervisor.drainer import leave_drainer

        leave_drainer(held)
    if reason in ("timeout", "silence_timeout"):
        leave(TIMEOUT_EXIT_CODE, None)
    if child.status is None:
        leave(128 + 9, None)
    elif posix.WIFSIGNALED(child.status):
        leave(None, posix.WTERMSIG(child.status))
    leave(posix.WEXITSTATUS(child.status or 0), None)


def _as_given(environ: dict[str, str]) -> None:
    """Make `environ` what the agent gave: in the C locale Python itself adds LC_CTYPE to it (PEP 538)."""
    if environ.get("LC_CTYPE") in ("C.UTF-8", "C.utf8", "UTF-8"):
        try:
            with open("/proc/self/environ", "rb") as file:
                given = b"\0" + file.read()
        except OSError:
            return
        if b"\0LC_CTYPE=" not in given:
            del environ["LC_CTYPE"]


def _command_environment(environ: dict[str, str], context: TraceContext) -> dict[str, str]:
    environ = {**environ, "TRACEPARENT": context.traceparent}
    if context.trace_state is None:
        environ.pop("TRACESTATE", None)
    return environ


def _take_agents_names(options: "RunOptions", environ: dict[str, str]) -> None:
    """Where nobody told us the session or the tool call, what the agent itself puts into the environment."""
    from sidecar.core import agent_variables

    if options.session_id is None:
        options.session_id = agent_variables.session_id(environ)
    if options.tool_call_id is None:
        options.tool_call_id = agent_variables.tool_call_id(environ)


def _make_terminal(streams: Streams) -> "Terminal | None":
    if not streams.pty:
        return None
    from sidecar.supervisor.terminal import Terminal

    try:
        return Terminal()
    except OSError:
        # No PTY to be had (no /dev/ptmx): the command runs all the same, over what the agent gave.
        streams.pty, streams.relayed, streams.on_terminal = False, [], ()
        return None


def _connect(
    streams: Streams, terminal: "Terminal | None"
) -> tuple[list[tuple[int, tuple[int, ...], bool]], dict[int, int], list[int]]:
    """Make the pipes. Returns (sources, the command's descriptors, ours to close after the spawn).

    A source is (descriptor to read, the agent's descriptors it stands for, whether it is the terminal).
    """
    sources: list[tuple[int, tuple[int, ...], bool]] = []
    descriptors: dict[int, int] = {}
    ours: list[int] = []
    if terminal is not None:
        sources.append((terminal.master, (1,), True))
        descriptors = dict.fromkeys(streams.on_terminal, terminal.slave)
    for group in streams.relayed:
        try:
            reader, writer = posix.pipe()
        except OSError:
            continue  # out of descriptors: the command gets the agent's own, unobserved
        sources.append((reader, group, False))
        ours.append(writer)
        descriptors.update(dict.fromkeys(group, writer))
    return sources, descriptors, ours


def _spawn_failed(
    error: SpawnError,
    options: "RunOptions",
    context: TraceContext,
    environ: dict[str, str],
    inline_factory: "InlineFactory",
    streams: Streams,
    started_ns: int,
    unix_ms: int,
) -> None:
    """One clear line, as a shell would give it; a spawn_failed record; 127 or 126."""
    from errno import errorcode

    from sidecar.supervisor.delivery import Delivery
    from sidecar.supervisor.leave import leave
    from sidecar.supervisor.reports import Reports

    try:
        posix.write(2, f"sidecar: {error}\n".encode("utf-8", "surrogateescape"))
    except OSError:
        pass
    _take_agents_names(options, environ)
    reports = Reports(options, context, pty=streams.pty, started_ns=started_ns, unix_ms=unix_ms)
    delivery = Delivery(options, environ, inline_factory)
    delivery.send(reports.spawn_failed(errorcode.get(error.errno, str(error.errno))))
    delivery.close()
    leave(error.exit_code, None)
