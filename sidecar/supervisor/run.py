"""`sidecar run`, from the options to the exit. docs/supervision.md numbers these steps.

Everything up to `spawn` is standard library only and counted: a test asserts which modules are loaded then.
"""

import gc
import posix
import time

import sidecar
from sidecar.core.errors import FrameError
from sidecar.core.trace_context import TraceContext, begin_span
from sidecar.places import socket_path
from sidecar.supervisor import libc
from sidecar.supervisor.carry_on import carry_on
from sidecar.supervisor.ledger import enter
from sidecar.supervisor.reports import Reports
from sidecar.supervisor.signals import SignalSource
from sidecar.supervisor.spawn import NoChild, SpawnError, become, spawn
from sidecar.supervisor.streams import Streams, connect, plan_streams, plug_standard_descriptors

TYPE_CHECKING = False  # typing.TYPE_CHECKING, without the 7 ms of importing typing
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Protocol

    from sidecar.supervisor.ledger import Entry
    from sidecar.supervisor.options import RunOptions
    from sidecar.supervisor.reports import Frame
    from sidecar.supervisor.terminal import Terminal

    class InlineSink(Protocol):
        """The telemetry pipeline in this process, on a thread of its own."""

        def put(self, frame: Frame) -> None: ...

        def close(self, budget_s: float) -> bool: ...

    InlineFactory = Callable[[], InlineSink]


def run(options: "RunOptions", environ: dict[str, str], inline_factory: "InlineFactory") -> None:
    """Supervise the command of `options`; ends this process as the command ended. Does not return.

    `environ` is the agent's environment. `inline_factory` makes the in-process telemetry, which only --inline
    and a machine without any daemon need.
    """
    # Before anything of ours opens a file: a descriptor of ours in the place of a closed stream is the agent's to see.
    streams = plan_streams(options.pty)
    plug_standard_descriptors()
    as_given(environ)
    if options.frames_fd is not None:
        from sidecar.supervisor.frames_fd import keep_from_command
        from sidecar.supervisor.notes import Notes

        if not keep_from_command(options.frames_fd, Notes(options.log)):
            options.frames_fd = None
    try:
        signals = SignalSource()
    except OSError as error:
        _unsupervised(f"no descriptor is free: {error.strerror}", options, environ, ())
        return
    context = begin_span(environ.get("TRACEPARENT"), environ.get("TRACESTATE"), posix.urandom(24))
    libc.set_subreaper(True)
    terminal = _make_terminal(streams)
    ends = (None, None) if terminal is None else (terminal.master, terminal.slave)
    relayed, descriptors, ours = connect(streams, *ends)
    started_ns, unix_ms = time.monotonic_ns(), time.time_ns() // 1_000_000
    reports = Reports(options, context, io=streams.io, started_ns=started_ns, unix_ms=unix_ms)
    entry = None if options.inline else _enter(options, environ, reports)
    spawning = None
    try:
        spawning = spawn(
            options.argv,
            _command_environment(environ, context),
            descriptors,
            signals,
            terminal,
        )
        spawning.confirm()
        if terminal is not None:
            terminal.command_runs()
        while ours:
            posix.close(ours.pop())
        # The command runs: load what we need beside it.
        if sidecar.load_rest is not None:
            sidecar.load_rest(bool(streams.files))
        from sidecar.core.output import OutputStats
        from sidecar.supervisor.child import Child
        from sidecar.supervisor.delivery import Delivery
        from sidecar.supervisor.leave import TIMEOUT_EXIT_CODE, leave
        from sidecar.supervisor.loop import Loop
        from sidecar.supervisor.relay import Channel
        from sidecar.supervisor.sink import Sink

        _take_agents_names(options, environ)
        reports.complete(options)
        stats = OutputStats(started_ns)
        channels = [
            Channel(
                one.source,
                Sink(one.group[0], of_pipe=not one.terminal),
                stats,
                one.group[0],
                terminal=one.terminal,
                capacity_bytes=one.capacity_bytes,
            )
            for one in relayed
        ]
        files = None
        if streams.files:
            from sidecar.supervisor.files import GivenFiles

            files = GivenFiles(streams.files, stats, time.monotonic_ns(), time.time_ns)
        delivery = Delivery(options, environ, inline_factory, entry)
    except NoChild as error:
        if terminal is not None:
            terminal.withdraw()
        if entry is not None:
            entry.remove()
        _unsupervised(str(error), options, _command_environment(environ, context), signals.agent_mask)
        return
    except SpawnError as error:
        if terminal is not None:
            terminal.withdraw()
        _spawn_failed(error, options, environ, inline_factory, reports, entry)
        return
    except (ImportError, MemoryError, OSError):
        if spawning is None:
            raise
        while ours:
            posix.close(ours.pop())
        if terminal is not None:
            terminal.give_back()
        carry_on(spawning.pid, [(one.source, one.group[0]) for one in relayed])
        return
    delivery.send(reports.started(spawning.pid))
    keys = None
    if terminal is not None:
        from sidecar.supervisor.keys import Keys

        keys = Keys(terminal, spawning.pid)
    child = Child(spawning.pid)
    if terminal is not None and terminal.companions is not None:
        child.companions = terminal.companions.pids
    loop = Loop(options, child, channels, signals, stats, reports, delivery, terminal, keys, files=files)
    # It was off so far. What is loaded is no garbage, and to go through it once would take 0.2 ms.
    gc.freeze()
    gc.enable()
    ended_ns = loop.run()
    if terminal is not None:
        terminal.give_back()
        if terminal.companions is not None:
            terminal.companions.end()
    if child.canary is not None:
        child.canary.end()
        child.canary = None
    left = child.others() if child.has_more else []
    loop.lifecycle.exited(by_signal=child.status is None or posix.WIFSIGNALED(child.status))
    reason = loop.lifecycle.reason or "exited"
    extra = {**child.end_facts(), "descendantsLeft": len(left)}
    if left:
        from sidecar.supervisor.holders import output_held_by

        extra["outputHeldBy"] = [*output_held_by(left, relayed)] or None
    if loop.stopped is not None:
        extra["stop"] = loop.stopped.receipt()
    delivery.send(reports.settled(reason, stats, loop.heartbeat.count, ended_ns, extra))
    delivery.close()
    held = [channel.source for channel in channels if channel.open]
    if held:  # also by somebody whom we cannot see: without /proc, or no descendant of ours
        from sidecar.supervisor.drainer import leave_drainer

        leave_drainer(held)
    if reason in ("timeout", "silence_timeout"):
        leave(TIMEOUT_EXIT_CODE, None)
    if child.status is None:
        leave(128 + 9, None)
    elif posix.WIFSIGNALED(child.status):
        leave(None, posix.WTERMSIG(child.status))
    leave(posix.WEXITSTATUS(child.status or 0), None)


def _enter(options: "RunOptions", environ: dict[str, str], reports: Reports) -> "Entry | None":
    """The command's entry in the ledger, before anything of it can be lost."""
    try:
        return enter(socket_path(environ, options.socket), reports.command_id, reports.entry())
    except (OSError, FrameError):
        return None  # a relative path, and the working folder is gone; or names beyond a frame


def _unsupervised(why: str, options: "RunOptions", environ: dict[str, str], agent_mask: "Iterable[int]") -> None:
    """The machine has no room for two processes: this one becomes the command. Only our note tells of it."""
    try:
        from sidecar.supervisor.notes import Notes

        Notes(options.log).write(f"{options.argv[0]} runs unsupervised: {why}")
    except (ImportError, OSError):
        pass  # for the want of descriptors
    try:
        become(options.argv, environ, agent_mask)
    except SpawnError as error:
        _say(error)
        posix._exit(error.exit_code)


def _say(error: SpawnError) -> None:
    """One clear line, as a shell would give it."""
    try:
        posix.write(2, f"sidecar: {error}\n".encode("utf-8", "surrogateescape"))
    except OSError:
        pass


def as_given(environ: dict[str, str]) -> None:
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


def _spawn_failed(
    error: SpawnError,
    options: "RunOptions",
    environ: dict[str, str],
    inline_factory: "InlineFactory",
    reports: Reports,
    entry: "Entry | None",
) -> None:
    """One clear line; a spawn_failed record; 127 or 126."""
    from errno import errorcode

    from sidecar.supervisor.delivery import Delivery
    from sidecar.supervisor.leave import leave

    _say(error)
    _take_agents_names(options, environ)
    reports.complete(options)
    delivery = Delivery(options, environ, inline_factory, entry)
    delivery.send(reports.spawn_failed(errorcode.get(error.errno, str(error.errno))))
    delivery.close()
    leave(error.exit_code, None)
