"""`sidecar daemon`: run it, start it, stop it, ask how it is.

125  anything that is wrong, in one line on stderr
3    `status` where no daemon answers, and `stop` where none runs
"""

import json
import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn

import click

from sidecar import detach, rendezvous, start_script, startup_cache
from sidecar.cli.parameters import config_parameter, daemon_socket, given, settings_options, socket_options
from sidecar.config import BY_NAME, DAEMON, Resolved, load_settings
from sidecar.core.duration import format_duration
from sidecar.core.errors import DaemonSilent, DaemonUnavailable
from sidecar.core.values import counted
from sidecar.daemon import client, life, stuck
from sidecar.telemetry.metrics_page import address, unserved

if TYPE_CHECKING:
    from collections.abc import Callable

    from sidecar.daemon.sink import TelemetrySink
    from sidecar.web.server import Web

EXIT_NOT_RUNNING = 3
_STOP_TIMEOUT_S = 5.0
_ENDED_ON_PAGE = 20


@click.group("daemon")
def daemon() -> None:
    """Run, start, stop and ask the daemon. Commands start it by themselves; nobody has to."""


def _with_config(command: click.Command) -> click.Command:
    command.params.append(config_parameter())
    return command


@_with_config
@daemon.command("run")
@settings_options(DAEMON)
@click.option("--socket-fd", type=int, help="Serve this inherited listening socket; used by the sidecar itself.")
def run(socket_fd: int | None, config_path: str | None, **values: object) -> None:
    """Run the daemon in the foreground. It ends with SIGTERM or Ctrl-C, or when idle."""
    if socket_fd is not None:
        detach.settle_in(socket_fd)
    resolved = load_settings(given(values), os.environ, config_path)
    settings = replace(_daemon_settings(resolved), foreground=socket_fd is None)
    listener = life.acquire(settings, socket_fd)
    startup_cache.refresh()
    start_script.make_direct()
    requests = {"web": _web(resolved, settings.socket_path)}
    life.serve(listener, settings, lambda: _telemetry(resolved), requests=requests)
    _leave()


@_with_config
@daemon.command("start", short_help="Start a detached daemon, and wait until it answers.")
@settings_options(DAEMON)
def start(config_path: str | None, **values: object) -> None:
    """Start a detached daemon, unless one runs already, and wait until it answers."""
    flags = given(values)
    resolved = load_settings(flags, os.environ, config_path)
    settings = _daemon_settings(resolved)
    arguments = [word for name, text in flags.items() if name != "socket" for word in (str(BY_NAME[name].flag), text)]
    if config_path is not None:
        arguments += ["--config", os.path.abspath(config_path)]
    pid, is_new = life.start_detached(settings, arguments)
    click.echo(f"{'started' if is_new else 'already running'}, pid {pid}, on {settings.socket_path}")
    if port := resolved.settings.prometheus_port:
        _say_if_unserved(settings.socket_path, port)


def _say_if_unserved(path: str, port: int) -> None:
    try:
        wrong = unserved(client.status(path).get("telemetry") or {}, port)
    except DaemonUnavailable as error:
        wrong = f"whether {address(port)} is served is not known", str(error)
    if wrong is not None:
        click.echo(f"sidecar: {'; '.join(wrong)}", err=True)


def started(path: str, config_path: str | None) -> None:
    """Have a daemon on `path`, configured as `sidecar daemon start` has it. Raises SidecarError."""
    settings = _daemon_settings(load_settings({"socket": path}, os.environ, config_path))
    life.start_detached(settings, [] if config_path is None else ["--config", os.path.abspath(config_path)])


@daemon.command("stop")
@socket_options
def stop(config_path: str | None, socket: str | None) -> int:
    """Ask the daemon to stop, and wait until it has gone. One that does not answer gets signals instead."""
    path = daemon_socket(socket, config_path)
    try:
        pid = life.stop_and_wait(path, _STOP_TIMEOUT_S)
    except DaemonUnavailable as error:
        if not isinstance(error, DaemonSilent) or error.pid is None:
            click.echo(str(error), err=True)
            return EXIT_NOT_RUNNING
        click.echo(error.fact, err=True)
        pid = error.pid
        stuck.end(pid, _STOP_TIMEOUT_S, _STOP_TIMEOUT_S)
    click.echo(f"stopped, pid {pid}")
    return 0


@daemon.command("status")
@socket_options
@click.option("--json", "as_json", is_flag=True, help="As one JSON object.")
def status(config_path: str | None, socket: str | None, as_json: bool) -> int:
    """Say how the daemon is; exit status 3 where none answers."""
    path = daemon_socket(socket, config_path)
    try:
        answer = client.status(path)
    except DaemonUnavailable as error:
        click.echo(_without_answer(path, error, as_json))
        return EXIT_NOT_RUNNING
    click.echo(json.dumps({**answer, "running": True}) if as_json else _in_words(answer))
    return 0


def _without_answer(path: str, error: DaemonUnavailable, as_json: bool) -> str:
    pid = error.pid if isinstance(error, DaemonSilent) else None
    if as_json:
        there = {"running": False} if pid is None else {"running": True, "answers": False, "pid": pid}
        return json.dumps({"type": "status", **there, "socket": path})
    return str(error)


def _in_words(answer: dict[str, Any]) -> str:
    up = format_duration(answer["uptimeMs"] // 1000 * 1_000_000_000)
    counts = [
        counted(answer["commands"], "command"),
        counted(answer["subscribers"], "subscriber"),
        counted(answer["framesReceived"], "frame"),
        f"{counted(answer['connectionsRefused'], 'connection')} refused",
    ]
    telemetry = answer.get("telemetry") or {}
    if problems := telemetry.get("problem_count", 0):
        counts.append(f"{counted(problems, 'telemetry problem')} so far (see --json)")
    if wrong := unserved(telemetry):
        counts.append(wrong[0])
    if problem := (telemetry.get("history") or {}).get("problem"):
        counts.append(f"no history: {problem}")
    return f"running, pid {answer['pid']}, version {answer['version']}, up {up}, on {answer['socket']}: " + ", ".join(
        counts
    )


def _daemon_settings(resolved: Resolved) -> life.DaemonSettings:
    settings = resolved.settings
    return life.DaemonSettings(
        socket_path=rendezvous.socket_path(os.environ, settings.socket),
        idle_timeout_ns=settings.daemon_idle_timeout_ns,
        log_path=settings.daemon_log,
        environment=settings.daemon_environment,
    )


def _telemetry(resolved: Resolved) -> "TelemetrySink":
    """The telemetry behind the daemon. Imported here: OpenTelemetry takes half a second."""
    from sidecar.history.store import History, default_path
    from sidecar.history.writer import RecordingSink
    from sidecar.telemetry.configured import telemetry_settings
    from sidecar.telemetry.pipeline import Telemetry

    telemetry = Telemetry(telemetry_settings(resolved, "daemon"))
    path = resolved.settings.history or default_path(os.environ)
    most = resolved.settings.history_max_commands
    return RecordingSink(telemetry, lambda: History(path, most)) if path is not None and most else telemetry


def _web(resolved: Resolved, socket_path: str) -> "Callable[[], dict[str, Any]]":
    """The page is made when it is asked for; most daemons never are."""
    made: list[Web] = []

    def latest_ended() -> list[dict[str, Any]]:
        from sidecar.history.store import History, HistoryUnavailable, default_path

        path = resolved.settings.history or default_path(os.environ)
        try:
            store = History(path or "", 0, read_only=True)
        except HistoryUnavailable:
            return []
        try:
            return store.latest(_ENDED_ON_PAGE)
        except HistoryUnavailable:
            return []
        finally:
            store.close()

    def answer() -> dict[str, Any]:
        if not made:
            from sidecar.web.server import Web

            made.append(Web(socket_path, latest_ended, resolved.settings.trace_url))
        return made[0].answer()

    return answer


def _leave() -> NoReturn:
    # No thread of an exporter, no atexit handler may hold the exit: all that is owed was flushed.
    os._exit(0)
