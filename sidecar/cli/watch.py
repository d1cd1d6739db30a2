"""`sidecar watch`: the daemon's records, one a line, as they come. It starts no daemon.

It waits for a daemon to appear and for the next one when one ends (`--once`: ends with it). It ends when its
reader goes away, even while nothing is to be written: the wait looks at stdout too.
"""

import json
import select
import sys
from collections.abc import Iterator
from typing import Any

import click

from sidecar.cli.errors import complain
from sidecar.cli.parameters import daemon_socket, socket_options
from sidecar.core.errors import DaemonUnavailable, UsageError
from sidecar.daemon.client import Subscription, subscribe
from sidecar.daemon.fanout import DEFAULT_FORMAT, ENCODERS

Record = dict[str, Any]

FIRST_WAIT_MS = 50
LONGEST_WAIT_MS = 500


@click.command("watch", short_help="Follow the frames of running commands, one JSON object a line.")
@click.option("--tool-call-id", metavar="ID", help="Only this tool call.")
@click.option("--session-id", metavar="ID", help="Only this session.")
@click.option(
    "--format",
    "form",
    type=click.Choice(sorted(ENCODERS)),
    default=DEFAULT_FORMAT,
    show_default=True,
    help="The native records (ndjson), or only heartbeats, as an agent's protocol says them: ACP's session/update, "
    "the stream-json of Claude Code or Qwen Code, MCP's notifications/progress.",
)
@click.option("--progress-token", metavar="TOKEN", help="For --format mcp: the progress token of the request.")
@click.option("--count", type=click.IntRange(min=1), metavar="N", help="End after so many lines.")
@click.option("--once", is_flag=True, help="End when the daemon ends, or if there is none.")
@socket_options
def watch(
    tool_call_id: str | None,
    session_id: str | None,
    form: str,
    progress_token: str | None,
    count: int | None,
    once: bool,
    socket: str | None,
    config_path: str | None,
) -> None:
    """Print what the daemon tells of running commands: one JSON object a line, flushed at once.

    First those that run already, then what happens: started, heartbeats, verdicts, settled. Nothing of what a
    command writes is in them. The formats of agents' protocols only tell of commands whose tool call is known
    (`sidecar run --tool-call-id`), and all but mcp only where the session is known too. Ends on Ctrl-C, or when the
    reader of its output goes away.
    """
    if (form == "mcp") != (progress_token is not None):
        raise UsageError("--format mcp and --progress-token TOKEN go together")
    path = daemon_socket(socket, config_path)
    # Whoever asks for a format of heartbeats alone has asked for partial messages.
    wanted: Record = {"format": form, **({"includePartialMessages": True} if form == "qwen" else {})}
    if progress_token is not None:
        wanted["progressToken"] = int(progress_token) if progress_token.isdecimal() else progress_token
    if tool_call_id is not None:
        wanted["toolCallId"] = tool_call_id
    if session_id is not None:
        wanted["sessionId"] = session_id
    left = count
    for record in _records(path, wanted, once=once):
        sys.stdout.write(json.dumps(record, ensure_ascii=False, separators=(",", ":")) + "\n")
        sys.stdout.flush()
        if left is not None:
            left -= 1
            if left <= 0:
                return


def _records(path: str, wanted: Record, *, once: bool) -> Iterator[Record]:
    """Records of one daemon after the other. Raises DaemonUnavailable only with `once`."""
    wait_ms = FIRST_WAIT_MS
    told = False
    while True:
        try:
            subscription = subscribe(path, wanted)
        except DaemonUnavailable as error:
            if once:
                raise
            if not told:
                complain(f"{error}; waiting for one")
                told = True
            _wait(None, wait_ms)
            wait_ms = min(2 * wait_ms, LONGEST_WAIT_MS)
            continue
        with subscription:
            answered = False
            reason = "has ended"
            for record in _live(subscription):
                answered = True
                kind = record.get("type")
                if kind == "lagged":
                    reason = "dropped this reader: it was too slow, and some records are missing"
                elif kind == "error":
                    reason = f"refused: {record.get('message')}"
                elif kind != "snapshot":
                    yield record
        if once:
            complain(f"the daemon {reason}")
            return
        if answered:
            wait_ms = FIRST_WAIT_MS
        if not told or answered:
            complain(f"the daemon {reason}; waiting for the next")
            told = True
        _wait(None, wait_ms)
        wait_ms = min(2 * wait_ms, LONGEST_WAIT_MS)


def _live(subscription: Subscription) -> Iterator[Record]:
    """What comes until the daemon ends."""
    while not subscription.ended:
        record = subscription.next_within(0)
        if record is not None:
            yield record
        elif not subscription.ended:
            _wait(subscription.fileno(), None)


def _wait(descriptor: int | None, timeout_ms: int | None) -> None:
    """Until `descriptor` can be read, or the time is up. Raises BrokenPipeError when our reader has gone."""
    poller = select.poll()
    if descriptor is not None:
        poller.register(descriptor, select.POLLIN)
    try:
        stdout = sys.stdout.fileno()
        poller.register(stdout, 0)
    except (OSError, ValueError):
        stdout = -1
    for ready, event in poller.poll(timeout_ms):
        if ready == stdout and event & (select.POLLERR | select.POLLHUP):
            raise BrokenPipeError
