"""`sidecar ps`: the commands that run now. It starts no daemon: without one there is nothing to list."""

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from sidecar.cli.errors import complain
from sidecar.cli.parameters import daemon_socket, filter_option, socket_options
from sidecar.cli.tables import Layout, print_table, word
from sidecar.cli.which import short_ids
from sidecar.core.errors import NoDaemon
from sidecar.core.text_filter import fits
from sidecar.daemon.client import request

if TYPE_CHECKING:
    Record = Mapping[str, Any]

LAYOUT = Layout(
    names=("PROGRAM", "PID", "RUNS", "SILENT", "TIMEOUT", "VERDICT", "COMMAND ID", "TOOL CALL", "SESSION"),
    always=frozenset({0, 1, 2, 3}),
    numbers=frozenset({1, 2, 3, 4}),
    widest={0: 16},
    ids=(7, 8),
    least={0: 8, 5: 14},
    spare=(4, 2, 1),
)


@click.command("ps", short_help="List what runs now: for how long, and how old its output is.")
@filter_option
@click.option("--json", "as_json", is_flag=True, help="For programs: one array of the daemon's own records.")
@socket_options
def ps(text: str, as_json: bool, socket: str | None, config_path: str | None) -> None:
    """List the commands that run now.

    RUNS is the time since the start, SILENT that since the last output (or since the start, where there was
    none yet). VERDICT is why it is silent, and for how long that has held; `sidecar explain` says more. "Output
    repeats" stands where it writes nothing but a spinner or a clock, "heartbeat late" where its supervisor says
    nothing any more, so that what is known is old. COMMAND ID is as much of it as `explain` and `cancel` need. No
    daemon means no commands; one that does not answer is an error.
    """
    try:
        answers = list(request(daemon_socket(socket, config_path), "list"))
    except NoDaemon as error:
        complain(str(error))
        answers = []
    running = [answer for answer in answers if answer.get("type") == "command"]
    commands = [command for command in running if fits(command, text)]
    commands.sort(key=lambda command: -int(command.get("elapsedMs", 0)))
    if as_json:
        click.echo(json.dumps(commands, indent=2))
    elif commands:
        print_running(commands, [str(command.get("commandId", "")) for command in running], config_path)
    elif answers:
        complain("nothing fits the filter" if running else "no command is running")


def cells(command: "Record", command_id: str = "") -> tuple[str, ...]:
    """One row, in the order of the columns; `-` where nothing is known."""
    elapsed_ms = int(command.get("elapsedMs", 0))
    silent_ms = command.get("lastOutputAgeMs", elapsed_ms)
    timeout_ms = command.get("timeoutMs")
    return (
        word(command.get("program")),
        word(command.get("pid")),
        span_text(elapsed_ms),
        span_text(int(silent_ms)),
        "-" if timeout_ms is None else span_text(int(timeout_ms)),
        _verdict(command),
        word(command_id),
        word(command.get("toolCallId")),
        word(command.get("sessionId")),
    )


def span_text(span_ms: int) -> str:
    """A span for eyes, two units at most: `0.4s`, `12s`, `3m05s`, `2h07m`, `3d04h`."""
    seconds = span_ms // 1000
    if seconds < 10:
        return f"{span_ms // 100 / 10:.1f}s"
    if seconds < 60:
        return f"{seconds}s"
    if seconds < 3600:
        return f"{seconds // 60}m{seconds % 60:02}s"
    if seconds < 86400:
        return f"{seconds // 3600}h{seconds // 60 % 60:02}m"
    return f"{seconds // 86400}d{seconds // 3600 % 24:02}h"


def _verdict(command: "Record") -> str:
    """`awaiting_input 1m05s`; where its supervisor says nothing any more, that: a verdict would be an old one."""
    if "heartbeatDelayMs" in command:
        return f"heartbeat {span_text(int(command['heartbeatDelayMs']))} late"
    verdict = word(command.get("verdict"))
    if "sinceMs" not in command:
        return verdict
    repeats = ", output repeats" if command.get("repeats") is True else ""
    return f"{verdict} {span_text(int(command['sinceMs']))}{repeats}"


def print_running(commands: Sequence["Record"], running: Sequence[str], config_path: str | None) -> None:
    """A table of them. `running`: the ids of all that run."""
    ids = short_ids([str(command.get("commandId", "")) for command in commands], running, config_path)
    rows = [cells(command, command_id) for command, command_id in zip(commands, ids, strict=True)]
    print_table(LAYOUT, rows, ["yellow" if command.get("silent") else "" for command in commands])
