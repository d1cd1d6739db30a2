"""`sidecar top`: what runs now, live. It starts no daemon, and waits for one."""

import json
import os
import sys
import time
from typing import Any

import click

from sidecar.cli.errors import complain
from sidecar.cli.parameters import daemon_socket, filter_option, socket_options
from sidecar.cli.tables import is_terminal, terminal_columns
from sidecar.cli.which import ended_ids, latest
from sidecar.core.errors import DaemonSilent, DaemonUnavailable, NoDaemon, SidecarError, UsageError
from sidecar.core.values import parse_duration
from sidecar.daemon import client
from sidecar.daemon.tree_cpu import TreeCpu
from sidecar.top.board import ENDED_KEPT, SORTS, Board

_LEAST_INTERVAL_NS = 100_000_000
_CPU_OVER_S = 0.25
_COLUMNS_OF_A_PIPE = 160
_NO_TERMINALS = ("", "dumb", "unknown")


@click.command("top", short_help="A live view of what runs: age, silence, verdict, output, CPU.")
@click.option("--once", is_flag=True, help="Print it once, and leave; so it does where stdout is no terminal.")
@click.option("--json", "as_json", is_flag=True, help="For programs: once, as one array, with `cpuPercent`.")
@click.option("--web", is_flag=True, help="Print the address of a web page with the same, on this machine only.")
@click.option("--sort", type=click.Choice(SORTS), default=SORTS[0], show_default=True, help="What comes first.")
@filter_option
@click.option("--interval", default="1s", show_default=True, metavar="DURATION", help="How often to look.")
@click.option("--no-color", is_flag=True, help="No colours; NO_COLOR in the environment says the same.")
@socket_options
def top(
    once: bool,
    as_json: bool,
    web: bool,
    sort: str,
    text: str,
    interval: str,
    no_color: bool,
    socket: str | None,
    config_path: str | None,
) -> None:
    """Show the commands that run now, live.

    First come those that may be hung (!), then those that need someone (?). OUTPUT is a bar for each look, as high as
    there was output. Keys: up and down select, enter explains, c cancels (and asks first), / filters, s sorts, q
    leaves.
    """
    path = daemon_socket(socket, config_path)
    try:
        interval_ns = parse_duration(interval)
    except ValueError as error:
        raise UsageError(f"--interval: {error}") from None
    if interval_ns < _LEAST_INTERVAL_NS:
        raise UsageError("--interval: at least 100ms")
    if web:
        click.echo(_address(path, config_path))
        return
    board = Board()
    board.sort, board.filter = sort, text
    if as_json:
        looked = _look(path, board)
        if looked.problem is not None:
            complain(looked.problem)
        click.echo(json.dumps([{**row.record, "cpuPercent": row.cpu_percent} for row in looked.rows()], indent=2))
    elif once or not (is_terminal(sys.stdin) and is_terminal(sys.stdout)):
        board.know_ended(ended_ids(config_path))
        _print(_look(path, board))
    elif (terminal := os.environ.get("TERM", "")) in _NO_TERMINALS:
        named = f"TERM={terminal}" if terminal else "TERM is not set"
        raise UsageError(f"this terminal ({named}) cannot show a live view; use --once, or `sidecar ps`")
    else:
        from sidecar.top.loop import run

        board.know_ended(ended_ids(config_path))
        try:
            ended = latest(config_path, ENDED_KEPT, is_silent=True)
            board.remember(ended, time.monotonic(), time.time_ns() // 1_000_000)
        except SidecarError:
            pass  # a history that cannot be read: `sidecar history` says why
        run(path, board, interval_ns / 1e9, colour=not (no_color or os.environ.get("NO_COLOR")), unicode=_is_unicode())


def _address(path: str, config_path: str | None) -> str:
    """Of the page. A daemon is started where there is none: it is what serves it."""
    try:
        answers = list(client.request(path, "web"))
    except DaemonSilent:
        raise
    except DaemonUnavailable:
        from sidecar.cli.daemon import started

        started(path, config_path)
        answers = list(client.request(path, "web"))
    return str(answers[0]["url"])


def _look(path: str, board: Board) -> Board:
    """Two looks at the processes, for their CPU. Without a daemon nothing runs, and the board says so; raises
    DaemonUnavailable for one that does not answer."""
    try:
        records: list[dict[str, Any]] = [one for one in client.request(path, "list") if one.get("type") == "command"]
    except NoDaemon as error:
        board.lose(str(error))
        return board
    board.update(records, time.monotonic())
    cpu = TreeCpu()
    for percent in (False, True):
        for row in board.rows():
            row.cpu_percent = cpu.percent(int(row.record["pid"]), time.monotonic())
        if not percent and records:
            time.sleep(_CPU_OVER_S)
    return board


def _print(board: Board) -> None:
    from sidecar.top.screen import ansi
    from sidecar.top.view import printed

    columns = terminal_columns() or _COLUMNS_OF_A_PIPE
    for line in printed(board, columns, time.monotonic(), time.strftime("%H:%M:%S"), unicode=_is_unicode()):
        click.echo(ansi(line, columns, colour=False).rstrip())


def _is_unicode() -> bool:
    return "utf" in str(getattr(sys.stdout, "encoding", "")).lower()
