"""`sidecar explain`: why a command is silent, from what its supervisor told the daemon last; or was, if it has ended.

0    it is explained, or there is nothing to explain since it is not silent
125  no daemon, no such command, or more than one
"""

import json
from typing import Any

import click

from sidecar.cli.history import ending
from sidecar.cli.parameters import daemon_socket, socket_options
from sidecar.cli.ps import span_text
from sidecar.cli.verdict_words import in_words, opening, told, unheard_advice
from sidecar.cli.which import one_command
from sidecar.core.advice import advice
from sidecar.core.ended_advice import ended_advice
from sidecar.core.values import printable
from sidecar.core.verdict_texts import sentences

Record = dict[str, Any]


@click.command("explain", short_help="Say why a running command is silent, and what to do.")
@click.argument("command_id", metavar="COMMAND_ID")
@click.option("--json", "as_json", is_flag=True, help="For programs: the daemon's record, with the words added.")
@socket_options
def explain(command_id: str, as_json: bool, socket: str | None, config_path: str | None) -> None:
    """Say why a command is silent: in two sentences, with the facts, what to do next, and what was not seen.

    COMMAND_ID is the command's id, or as much of its beginning as no other command has, of those that run and those
    that have ended lately; `sidecar ps` and `sidecar history` show it. Of one that has ended it says why it was silent
    when it was looked at last. For a process that was not started by `sidecar run` there is `sidecar why PID`.
    """
    found = one_command(command_id, daemon_socket(socket, config_path), config_path)
    subject = f"{found['program']} (pid {found['pid']})" if "pid" in found else str(found["program"])
    if as_json:
        click.echo(json.dumps(with_words(found, subject), indent=2))
        return
    if "endUnixMs" in found:
        _tell_of_ended(found, subject)
        return
    click.echo(opening(found, subject))
    for line in told(found, subject):
        click.echo(line)


def _tell_of_ended(found: Record, subject: str) -> None:
    ran, silence = (span_text(int(found.get(key, 0))) for key in ("elapsedMs", "longestSilenceMs"))
    click.echo(f"{printable(subject)} ran for {ran} and has ended: {ending(found)}. Its longest silence was {silence}.")
    if "stop" in found:
        click.echo(f"It was stopped: {printable(str(found['stop'].get('evidence') or found['stop'].get('askedBy')))}.")
    for number, text in enumerate(ended_advice(found)):
        click.echo(f"{'' if number else 'next':<11} {printable(text)}")
    if "verdict" in found:
        click.echo("When it was silent and looked at last:")
        click.echo()
        for line in in_words(found, subject, is_over=True):
            click.echo(line)


def with_words(found: Record, subject: str) -> Record:
    """The record, and in words what it means: `meaning` (two sentences) and `next` (what a person would do)."""
    if "endUnixMs" in found:
        found = {**found, "next": " ".join(ended_advice(found))}
    elif "heartbeatDelayMs" in found:
        found = {**found, "next": unheard_advice(found)}
    if "verdict" not in found:
        return found
    leaf = found.get("leaf")
    who = subject if leaf is None else f"{leaf['program']} (pid {leaf['pid']})"
    return {
        "next": " ".join(advice(found)),
        **found,
        "meaning": list(sentences(found["verdict"], who)),
    }
