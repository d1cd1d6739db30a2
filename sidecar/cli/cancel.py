"""`sidecar cancel`: stop a running command from outside, and show the receipt.

0    it has settled (or, with --no-wait, was asked to)
124  it was asked, and has not settled in time
125  it was not asked: no daemon, no such command, or more than one
"""

import json
import os
import time
from typing import Any

import click

from sidecar.cli.errors import complain
from sidecar.cli.parameters import daemon_socket, socket_options
from sidecar.cli.which import SeveralOfTrace, one_command
from sidecar.core.command_ids import typed_id
from sidecar.core.duration import format_duration
from sidecar.core.errors import UsageError
from sidecar.core.receipt import sent_in_words
from sidecar.core.values import parse_duration, printable
from sidecar.daemon import client

EXIT_NOT_SETTLED = 124
_ANSWER_S = 10.0
_WHOLE_CHARS = 36
Record = dict[str, Any]


def _duration(_ctx: click.Context, _param: click.Parameter, text: str) -> int:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise UsageError(f"--wait: {json.dumps(text)} is not allowed; use {error}") from None


@click.command("cancel", short_help="Stop a running command, and say what came of it.")
@click.argument("command_id", metavar="COMMAND_ID")
@click.option(
    "--wait",
    "wait_ns",
    metavar="DURATION",
    default="30s",
    show_default=True,
    callback=_duration,
    help="Wait so long for the command's end.",
)
@click.option("--no-wait", is_flag=True, help="Ask for it, and leave.")
@click.option("--json", "as_json", is_flag=True, help="For programs: the daemon's record of the end.")
@socket_options
def cancel(
    command_id: str, wait_ns: int, no_wait: bool, as_json: bool, socket: str | None, config_path: str | None
) -> int:
    """Stop a running command: TERM to its whole tree, KILL after its --kill-after.

    COMMAND_ID is the command's id, or as much of its beginning as no other command has, of those that run and those
    that have ended lately; `sidecar ps` shows it. The id of a trace does, if the trace has only this command: else
    nothing is stopped, and those that run are named. Asked for a second time, KILL goes out at once. A command whose
    supervisor was stopped (Ctrl-Z) is continued.
    """
    path = daemon_socket(socket, config_path)
    command_id = typed_id(command_id)
    if len(command_id) < _WHOLE_CHARS:
        # The daemon knows those that have ended since its start. The history knows what ended before.
        try:
            command_id = str(one_command(command_id, path, config_path)["commandId"])
        except SeveralOfTrace as several:
            if several.running:
                raise
            of_them = f"its {len(several.ended)} commands have ended: `sidecar history --filter {several.trace_id}`"
            raise UsageError(f"nothing of trace {several.trace_id} runs; {of_them}") from None
    with client.cancel(path, command_id, f"sidecar cancel, pid {os.getpid()}") as answers:
        asked = answers.next_within(_ANSWER_S)
        if asked is None:
            raise answers.unanswered(_ANSWER_S)
        if asked.get("type") != "cancelling":
            raise UsageError(str(asked.get("message", f"the daemon on {path} does not know how to cancel")))
        if asked.get("continued"):
            complain(f"its supervisor, pid {asked['supervisorPid']}, was stopped; it was continued")
        deadline_s = time.monotonic() + (0 if no_wait else wait_ns / 1e9)
        settled = None if no_wait else answers.next_within(max(0.0, deadline_s - time.monotonic()))
        gone = answers.ended
    if no_wait:
        click.echo(json.dumps(asked) if as_json else f"asked {_name(asked)} to stop")
        return 0
    if settled is None:
        why = "the daemon went away" if gone else f"it has not settled within {format_duration(wait_ns)}"
        complain(f"{_name(asked)} was asked to stop, and {why}; `sidecar ps` tells whether it still runs")
        return EXIT_NOT_SETTLED
    click.echo(json.dumps(settled) if as_json else _in_words(asked, settled))
    return 0


def _name(asked: Record) -> str:
    return f"{printable(str(asked['program']))} (pid {asked['pid']})"


def _in_words(asked: Record, settled: Record) -> str:
    """What came of it, in two lines or three."""
    end = f"signal {settled['signal']}" if "signal" in settled else f"exit code {settled.get('exitCode', 'unknown')}"
    lines = [f"{_name(asked)} settled after {settled['elapsedMs'] / 1000:.1f} s: {settled['reason']}, {end}"]
    receipt = settled.get("stop")
    if receipt is not None:
        lines.append("; ".join(sent_in_words(receipt)))
        if receipt["survivorCount"]:
            named = ", ".join(map(printable, receipt.get("survivors", ())))
            lines.append(f"{receipt['survivorCount']} did not die: {named}")
    return "\n".join(lines)
