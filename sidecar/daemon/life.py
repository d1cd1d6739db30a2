"""The life of the daemon: start, serve, notice that nobody needs it, end in time.

How it ends, by SIGTERM, SIGINT, a stop request or idleness alike, within EXIT_WITHIN_S in total:

 1. The socket's file is removed, under the lock, if it is still ours. Who comes now starts another daemon.
 2. Who came before is taken in from the backlog, and all that was sent is read (Server.stop). Commands that
    run on are not lost: their supervisors turn to the next daemon and replay.
 3. Telemetry is flushed, on a thread of its own, within FLUSH_S.
 4. The process ends. A watchdog, started with 1, sees to it whatever hangs.

The telemetry is imported before the first connection is accepted (half a second; the kernel's backlog holds
the connections, and their bytes, meanwhile): so a frame always finds its sink, and nothing needs queueing.
"""

import asyncio
import logging
import os
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import FrameType
from typing import Any, Final

from sidecar import detach
from sidecar.core.daemon_environment import daemon_environment
from sidecar.core.errors import DaemonSilent, DaemonUnavailable, SidecarError
from sidecar.daemon import client, identity, listening
from sidecar.daemon.accounting import Accounting
from sidecar.daemon.connection import Limits
from sidecar.daemon.fanout import ENCODERS, EncoderFactory
from sidecar.daemon.listening import AlreadyRunning, Listener
from sidecar.daemon.server import Server
from sidecar.daemon.sink import NullSink, TelemetrySink

log = logging.getLogger(__name__)

EXIT_WITHIN_S: Final = 1.95
FLUSH_S: Final = 1.5
_DRAIN_S: Final = 0.25
_LOCK_S: Final = 0.05
_TICK_S: Final = 1.0
_REACHABLE_CHECK_NS: Final = 10_000_000_000
_START_TIMEOUT_S: Final = 20.0
_START_TRIES: Final = 5
_STOP_STEP_S: Final = 0.02
_SPARE_DESCRIPTORS: Final = 64


@dataclass(frozen=True, slots=True)
class DaemonSettings:
    """What the daemon needs to know. `idle_timeout_ns` None: it never ends for want of work.

    Without a `log_path` the log goes nowhere, or to stderr where `foreground` says that somebody reads it.
    """

    socket_path: str
    idle_timeout_ns: int | None = None
    log_path: str | None = None
    foreground: bool = False
    environment: tuple[str, ...] = ()
    limits: Limits = field(default_factory=Limits)


def serve(
    listener: Listener,
    settings: DaemonSettings,
    make_sink: Callable[[], TelemetrySink] = NullSink,
    encoders: Mapping[str, EncoderFactory] = ENCODERS,
    requests: Mapping[str, Callable[[], dict[str, Any]]] | None = None,
) -> None:
    """Serve until told to stop. Takes over SIGTERM and SIGINT; call it on the main thread."""
    _log_to(settings.log_path, foreground=settings.foreground)
    _let_commands_first()
    ending = _Ending()
    signal.signal(signal.SIGTERM, ending.on_signal)
    signal.signal(signal.SIGINT, ending.on_signal)
    log.info("daemon %d serves %s", os.getpid(), settings.socket_path)
    try:
        sink = make_sink()
    except Exception as error:
        # No telemetry is no reason for no frames.
        log.exception("telemetry could not be set up; going on without")
        sink = NullSink(f"{type(error).__name__}; daemon_log has more")
    asyncio.run(_serve(listener, settings, sink, ending, encoders, requests))
    log.info("daemon %d ends", os.getpid())
    logging.shutdown()


async def _serve(
    listener: Listener,
    settings: DaemonSettings,
    sink: TelemetrySink,
    ending: "_Ending",
    encoders: Mapping[str, EncoderFactory],
    requests: Mapping[str, Callable[[], dict[str, Any]]] | None,
) -> None:
    limits = _affordable(settings.limits)
    server = Server(listener.sock, settings.socket_path, sink, limits=limits, encoders=encoders, requests=requests)
    ending.attach(server.stop_requested)
    server.start()
    accounting = Accounting(server)
    listener.came_up(_LOCK_S)
    saving = asyncio.create_task(accounting.run())
    ticking = asyncio.create_task(_tick(server, listener, settings.idle_timeout_ns))
    await server.stop_requested.wait()
    ending.begin()
    ticking.cancel()
    saving.cancel()
    listener.remove_file(_LOCK_S)
    await server.stop(_DRAIN_S, owns_listener=listener.is_ours)
    # A thread that is not waited for at the exit: an exporter may hang far beyond its budget.
    safe: list[bool] = []
    flushing = threading.Thread(target=lambda: safe.append(server.sink.shutdown(FLUSH_S)), daemon=True)
    flushing.start()
    flushing.join(FLUSH_S + 0.05)
    accounting.close(saved=safe == [True])


async def _tick(server: Server, listener: Listener, idle_timeout_ns: int | None) -> None:
    """Once a second: say that the loop turns, and find out whether anybody still needs us."""
    checked_ns = time.monotonic_ns()
    while True:
        server.sink.loop_alive()
        sleep_s = _TICK_S
        if idle_timeout_ns is not None:
            left_ns = idle_timeout_ns - server.idle_ns()
            if left_ns <= 0:
                log.info("nothing to do for %d s", idle_timeout_ns // 1_000_000_000)
                server.stop_requested.set()
            sleep_s = min(_TICK_S, max(left_ns / 1e9, 0.005))
        if time.monotonic_ns() - checked_ns >= _REACHABLE_CHECK_NS:
            checked_ns = time.monotonic_ns()
            if not server.registry.running and not listener.is_reachable():
                log.warning("%s is gone, nobody can reach this daemon any more", listener.path)
                server.stop_requested.set()
        await asyncio.sleep(sleep_s)


class _Ending:
    """From the first wish to end: the watchdog runs, and the loop is told."""

    def __init__(self) -> None:
        self._begun = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._event: asyncio.Event | None = None

    def attach(self, event: asyncio.Event) -> None:
        self._event = event
        self._loop = asyncio.get_running_loop()
        if self._begun:  # a signal came while the telemetry was imported
            event.set()

    def begin(self) -> None:
        if not self._begun:
            self._begun = True
            watchdog = threading.Timer(EXIT_WITHIN_S, os._exit, (1,))
            watchdog.daemon = True
            watchdog.start()

    def on_signal(self, number: int, frame: FrameType | None) -> None:
        # Not loop.add_signal_handler: that needs a loop which turns, and the watchdog is for one that does not.
        self.begin()
        if self._loop is not None and self._event is not None:
            self._loop.call_soon_threadsafe(self._event.set)


def acquire(settings: DaemonSettings, socket_fd: int | None) -> Listener:
    """The listening socket: the inherited descriptor, systemd's, or one that we bind.

    Raises AlreadyRunning (with the winner's pid where it says so), DaemonUnavailable, UsageError.
    """
    if socket_fd is not None:
        return listening.inherited(socket_fd, settings.socket_path)
    from_systemd = listening.from_systemd(os.environ, settings.socket_path)
    if from_systemd is not None:
        return from_systemd
    try:
        return listening.bind(settings.socket_path)
    except AlreadyRunning as running:
        try:
            pid = client.status(settings.socket_path)["pid"]
        except DaemonUnavailable:
            raise running from None
        raise AlreadyRunning(f"already running, pid {pid}, on {settings.socket_path}") from None


def start_detached(settings: DaemonSettings, arguments: list[str]) -> tuple[int, bool]:
    """Have a daemon running: (its pid, whether this call started it). Waits until it answers.

    `arguments` are those of the daemon after `daemon run --socket-fd 3 --socket PATH`.
    Raises SidecarError where it does not come up.
    """
    path = settings.socket_path
    for _ in range(_START_TRIES):
        try:
            listener = listening.bind(path)
        except AlreadyRunning:
            try:
                return client.status(path, timeout_s=_START_TIMEOUT_S)["pid"], False
            except DaemonSilent:
                raise
            except DaemonUnavailable:
                continue  # it was just about to end
        with listener.sock as sock:
            environ = daemon_environment(os.environ, settings.environment)
            argv = ["daemon", "run", "--socket-fd", str(detach.LISTENER_FD), "--socket", path, *arguments]
            detach.spawn([*_this_sidecar(), *argv], environ, sock.fileno())
        try:
            return client.status(path, timeout_s=_START_TIMEOUT_S)["pid"], True
        except DaemonUnavailable as error:
            raise SidecarError(f"the daemon did not come up ({error}); `sidecar daemon run` shows why") from None
    raise DaemonUnavailable(f"daemons on {path} end as soon as they are found")


def _this_sidecar() -> list[str]:
    """How to start another `sidecar` that is found as this one was - installed, editable, or from a zip - but
    without `site` and without the user's own folders or variables (-I), so that no one can slip code in."""
    paths = [os.path.abspath(entry) for entry in sys.path if entry]
    code = f"import sys; sys.path[:] = {paths!r}; from sidecar.launch import main; sys.exit(main())"
    return [sys.executable, "-IS", "-c", code]


def stop_and_wait(path: str, timeout_s: float) -> int:
    """Ask the daemon on `path` to stop, and wait until its process has gone, if it can be seen (a daemon in another
    container cannot). Returns its pid, as it says itself.

    Raises DaemonUnavailable where none runs, SidecarError where it is still there after `timeout_s`.
    """
    answer: dict[str, Any] = {}
    for answer in client.request(path, "stop"):  # noqa: B007 - the last one counts
        pass
    pid, ticks = answer["pid"], answer.get("startedTicks")
    deadline = time.monotonic() + timeout_s
    while identity.is_alive(pid, ticks):
        if time.monotonic() >= deadline:
            raise SidecarError(f"daemon {pid} was asked to stop, and is still there after {timeout_s:g} s")
        time.sleep(_STOP_STEP_S)
    return int(pid)


def _affordable(limits: Limits) -> Limits:
    """No more connections than descriptors allow, after the soft limit was raised as far as is useful."""
    wanted = limits.max_connections + _SPARE_DESCRIPTORS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        raised = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
            soft = raised
        except (OSError, ValueError):
            pass
        if soft < wanted:
            allowed = max(1, soft - _SPARE_DESCRIPTORS)
            return replace(limits, max_connections=allowed)
    return limits


def _let_commands_first() -> None:
    """A frame that comes wakes us, but takes the processor from nobody who is at it: it is a supervisor that is about
    to exit, or its command. SCHED_BATCH of sched(7): our share of a busy machine stays what it was."""
    try:
        if os.sched_getscheduler(0) == os.SCHED_OTHER:
            os.sched_setscheduler(0, os.SCHED_BATCH | os.SCHED_RESET_ON_FORK, os.sched_param(0))
    except (AttributeError, OSError):
        log.debug("no SCHED_BATCH here")


def _log_to(path: str | None, *, foreground: bool) -> None:
    """All logging, also that of libraries, goes one way; never to stderr by logging's last resort."""
    handler: logging.Handler = logging.StreamHandler() if foreground else logging.NullHandler()
    if path is not None:
        try:
            handler = logging.FileHandler(path, encoding="utf-8", errors="backslashreplace")
        except OSError as error:
            raise SidecarError(f"cannot write the daemon's log {path}: {error.strerror}") from None
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    logging.raiseExceptions = False
    logging.captureWarnings(True)
