"""`sidecar bridge`: an agent behind us on stdio, its client before us, and heartbeats in between.

The exit status is the agent's, or its signal; 125, 126 and 127 as for `sidecar run`.
"""

import os
from collections.abc import Callable
from typing import NoReturn

import click

from sidecar.bridges.agent import Agent
from sidecar.bridges.careful import Careful
from sidecar.bridges.loop import Protocols, run
from sidecar.bridges.news import News
from sidecar.cli.errors import complain
from sidecar.cli.parameters import daemon_socket, socket_options
from sidecar.gateways.acp_bridge import AcpBridge
from sidecar.gateways.stream_json_bridge import StreamJsonBridge
from sidecar.supervisor.leave import leave
from sidecar.supervisor.signals import SignalSource
from sidecar.supervisor.spawn import SpawnError

_WORDS = {"allow_interspersed_args": False, "ignore_unknown_options": True}


@click.group("bridge", short_help="Stand between a client and its agent, and add the heartbeats.")
def bridge() -> None:
    """Run an agent behind us: every byte of both directions passes as it is, and heartbeats are put in between.

    What the agent runs must be supervised (`sidecar-sh` as its shell); commands are found by the tool call's id, else
    by their text. Nothing is added for a call that the agent has not said to be running, nor once it is over.
    """


@bridge.command("acp", context_settings=_WORDS, short_help="For an agent that speaks ACP on stdio.")
@socket_options
@click.argument("agent", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- AGENT [ARG]...")
def acp(agent: tuple[str, ...], socket: str | None, config_path: str | None) -> None:
    """ACP: a heartbeat is a `session/update` with the tool call's own id, the status in_progress, and `_meta` only."""
    _between(agent, socket, config_path, AcpBridge)


@bridge.command(
    "stream-json", context_settings=_WORDS, short_help="For an agent that writes stream-json (Claude Code, Qwen Code)."
)
@socket_options
@click.argument("agent", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- AGENT [ARG]...")
def stream_json(agent: tuple[str, ...], socket: str | None, config_path: str | None) -> None:
    """stream-json: a heartbeat is a `tool_progress` in the agent's own dialect, with the tool call's own id.

    Qwen Code's clients get it only with --include-partial-messages. An agent that beats by itself (Qwen Code 0.24.4,
    Claude Code 2.1.332 and later) is not doubled: its client gets the verdict, as a `system` message.
    """
    # Nobody types stream-json; and agents wait for what a pipe may bring them, but not for a terminal.
    _between(agent, socket, config_path, lambda bridge_id: StreamJsonBridge(bridge_id, agent), os.isatty(0))


def _between(
    agent: tuple[str, ...],
    socket: str | None,
    config_path: str | None,
    said: Callable[[str], Protocols],
    shares_stdin: bool = False,
) -> NoReturn:
    path = daemon_socket(socket, config_path)
    signals = SignalSource()
    try:
        process = Agent(agent, os.environ, signals, shares_stdin=shares_stdin)
    except SpawnError as error:
        complain(str(error))
        _leave(error.exit_code, None)
    exit_code, signal_number = run(process, Careful(said(process.bridge_id), complain), News(path), signals)
    _leave(exit_code, signal_number)


def _leave(exit_code: int | None, signal_number: int | None) -> NoReturn:
    leave(exit_code, signal_number)
    raise AssertionError("unreachable")  # pragma: no cover
