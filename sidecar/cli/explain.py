"""`sidecar explain`: why a command is silent, from what its supervisor told the daemon last; or was, if it has ended.

0    it is explained, or there is nothing to explain since it is not silent
125  no daemon, no such command, or more than one (of a trace: those are listed)
"""

import json
from typing import Any

import click

from sidecar.cli.errors import EXIT_USAGE, complain
from sidecar.cli.history import ending, print_ended
from sidecar.cli.parameters import daemon_socket, socket_options
from sidecar.cli.ps import print_running, span_text
from sidecar.cli.verdict_words import in_words, opening, told, unheard_advice
from sidecar.cli.which import SeveralOfTrace, one_command, running_ids
from sidecar.cli.wrapping import say
from sidecar.core.advice import advice
from sidecar.core.ended_advice import ended_advice
from sidecar.core.values import printable
from sidecar.core.verdict_texts import sentences

Record = dict[str, Any]
_LISTED = 20


@click.command("explain", short_help="Say why a running command is silent, and what to do.")
@click.argument("command_id", metavar="COMMAND_ID")
@click.option("--json", "as_json", is_flag=True, help="For programs: the daemon's record, with the words added.")
@socket_options
def explain(command_id: str, as_json: bool, socket: str | None, config_path: str | None) -> int:
    """Say why a command is silent: in two sentences, with the facts, what to do next, and what was not seen.

    COMMAND_ID is the command's id, or as much of its beginning as no other command has, of those that run and those
    that have ended lately; `sidecar ps` and `sidecar history` show it. Of one that has ended it says why it was silent
    when it was looked at last. The id of a trace does as well, if one command of it runs, or it has only one; else they
    are listed. For a process that was not started by `sidecar run` there is `sidecar why PID`.
    """
    path = daemon_socket(socket, config_path)
    try:
        found = one_command(command_id, path, config_path)
    except SeveralOfTrace as several:
        if len(several.running) != 1:
            if as_json:
                raise
            return _list(several, path, config_path)
        (found,) = several.running
        more = f"{len(several.ended)} {'has' if len(several.ended) == 1 else 'have'} ended"
        complain(f"of this trace it is the one that runs; {more}: `sidecar history --filter {several.trace_id}`")
    subject = f"{found['program']} (pid {found['pid']})" if "pid" in found else str(found["program"])
    if as_json:
        click.echo(json.dumps(with_words(found, subject), indent=2))
        return 0
    if "endUnixMs" in found:
        _tell_of_ended(found, subject)
        return 0
    say(opening(found, subject))
    for line in told(found, subject):
        say(line)
    return 0


def _list(several: SeveralOfTrace, path: str, config_path: str | None) -> int:
    """Those that run, else the latest of those that have ended."""
    shown = several.running or several.ended[:_LISTED]
    if several.running:
        print_running(shown, running_ids(path), config_path)
    else:
        print_ended(shown, config_path)
    how = "run" if several.running else "have ended"
    number = len(several.running or several.ended)
    latest = f", of which these are the latest {len(shown)}" if len(shown) < number else ""
    complain(f"{number} commands of this trace {how}{latest}; give the id of one")
    return EXIT_USAGE


def _tell_of_ended(found: Record, subject: str) -> None:
    ran, silence = (span_text(int(found.get(key, 0))) for key in ("elapsedMs", "longestSilenceMs"))
    say(f"{printable(subject)} ran for {ran} and has ended: {ending(found)}. Its longest silence was {silence}.")
    if "stop" in found:
        say(f"It was stopped: {printable(str(found['stop'].get('evidence') or found['stop'].get('askedBy')))}.")
    for number, text in enumerate(ended_advice(found)):
        say(f"{'' if number else 'next':<11} {printable(text)}")
    if "verdict" in found:
        say("When it was silent and looked at last:")
        say("")
        for line in in_words(found, subject, is_over=True):
            say(line)


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
