"""`sidecar history`: what ran here lately, from the daemon's local store. Needs no daemon; one that is there
is asked what is missing."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import click

from sidecar.cli.errors import complain
from sidecar.cli.parameters import config_parameter, daemon_socket, filter_option
from sidecar.cli.ps import span_text
from sidecar.cli.tables import Layout, print_table, word
from sidecar.cli.which import latest, running_ids, short_ids
from sidecar.core.errors import DaemonUnavailable, UsageError
from sidecar.core.text_filter import fits
from sidecar.core.values import parse_duration, printable
from sidecar.core.verdict_names import ALL, GROUPS
from sidecar.daemon.client import status

Record = Mapping[str, Any]

LAYOUT: Final = Layout(
    names=("ENDED", "PROGRAM", "RAN", "SILENT", "HOW", "LAST VERDICT", "COMMAND ID", "TOOL CALL", "SESSION"),
    always=frozenset({0, 1, 2, 3, 4}),
    numbers=frozenset({0, 2, 3}),
    widest={1: 16},
    ids=(7, 8),
    least={1: 8, 5: 14, 4: 7},
    spare=(2, 3, 1),
)
_STATUS_S: Final = 1.0
_SEARCHED: Final = 1_000_000
"""With a condition all that is kept is looked at: the store is bounded."""


def _with_config(command: click.Command) -> click.Command:
    command.params.append(config_parameter())
    return command


@_with_config
@click.command("history", short_help="What ran here lately, with verdicts and the longest silence.")
@click.option("-n", "--limit", type=click.IntRange(min=1), default=20, show_default=True, help="At most so many.")
@filter_option
@click.option("--program", metavar="NAME", help="Only this program.")
@click.option("--session-id", metavar="ID", help="Only this session.")
@click.option(
    "--verdict", metavar="NAME", help="Only where a silence had this verdict, or the last one is of this group."
)
@click.option("--silent-for", metavar="DURATION", help="Only where a silence lasted at least so long.")
@click.option("--json", "as_json", is_flag=True, help="For programs: one array, with everything that is kept.")
def history(
    limit: int,
    text: str,
    program: str | None,
    session_id: str | None,
    verdict: str | None,
    silent_for: str | None,
    as_json: bool,
    config_path: str | None,
) -> None:
    """List the commands that ended lately, the latest first.

    SILENT is the longest time without output, HOW the way it ended, LAST VERDICT why it was silent when it was looked
    at last. `sidecar explain COMMAND_ID` says more. The daemon keeps the last 10000 commands (`history_max_commands`).
    """
    wanted = _conditions(program, session_id, verdict, silent_for, text)
    records = latest(config_path, _SEARCHED if wanted else limit)
    found = [record for record in records if all(condition(record) for condition in wanted)][:limit]
    if as_json:
        click.echo(json.dumps(found, indent=2))
    elif found:
        print_ended(found, config_path)
    else:
        complain("no such command has ended" if records else "no command has ended yet")
    if missing := _missing(config_path):
        complain(missing)


def _missing(config_path: str | None) -> str | None:
    """What the daemon says of commands that it could not keep; None where there is none, of either."""
    try:
        kept = status(daemon_socket(None, config_path), timeout_s=_STATUS_S)["telemetry"].get("history")
    except DaemonUnavailable:
        return None
    if not kept:
        return None
    missing = f"{kept['dropped']} that ended since its start {'is' if kept['dropped'] == 1 else 'are'} missing here"
    if kept["problem"]:
        return f"the daemon keeps no history: {kept['problem']}; {missing}"
    return f"of the commands {missing}"


def ending(record: Record) -> str:
    """How it ended, in a word or two: `exit 0`, `SIGKILL`, `timeout`, `cancelled`, `lost`, `ENOENT`."""
    reason = record.get("reason")
    if reason == "exited":
        return f"exit {record.get('exitCode', '?')}"
    if reason == "signaled":
        return str(record.get("signal", "signal"))
    if reason == "spawn_failed":
        return str(record.get("error", "not started"))
    return str(reason)


def cells(record: Record, command_id: str, now_unix_ms: int) -> tuple[str, ...]:
    """One row, in the order of the columns; `-` where nothing is known."""
    return (
        f"{span_text(max(0, now_unix_ms - int(record['endUnixMs'])))} ago",
        word(record.get("program")),
        span_text(int(record.get("elapsedMs", 0))),
        span_text(int(record.get("longestSilenceMs", 0))),
        word(ending(record)),
        word(record.get("verdict")),
        command_id,
        word(record.get("toolCallId")),
        word(record.get("sessionId")),
    )


def _conditions(
    program: str | None, session_id: str | None, verdict: str | None, silent_for: str | None, text: str = ""
) -> list[Callable[[Record], bool]]:
    conditions: list[Callable[[Record], bool]] = []
    if text:
        conditions.append(lambda record: fits(record, text))
    if program is not None:
        conditions.append(lambda record: record.get("program") == program)
    if session_id is not None:
        conditions.append(lambda record: record.get("sessionId") == session_id)
    if verdict is not None:
        if verdict not in ALL and verdict not in GROUPS:
            raise UsageError(f"{printable(verdict)} is no verdict and no group of verdicts (see docs/verdicts.md)")
        conditions.append(lambda record: record.get("group") == verdict or verdict in _verdicts(record))
    if silent_for is not None:
        try:
            least_ms = parse_duration(silent_for) // 1_000_000
        except ValueError as error:
            raise UsageError(f"--silent-for: {error}") from None
        conditions.append(lambda record: int(record.get("longestSilenceMs", 0)) >= least_ms)
    return conditions


def _verdicts(record: Record) -> set[str]:
    named = {name for _from, _to, bands in record.get("silences", ()) for _at, name in bands}
    return named | {str(record.get("verdict"))}


def print_ended(records: Sequence[Record], config_path: str | None) -> None:
    """A table of them. Their ids are as long as `explain` needs them."""
    now_unix_ms = time.time_ns() // 1_000_000
    whole = [str(record.get("commandId", "")) for record in records]
    ids = short_ids(whole, running_ids(daemon_socket(None, config_path)), config_path)
    rows = [cells(record, command_id, now_unix_ms) for record, command_id in zip(records, ids, strict=True)]
    went_well = [record.get("reason") == "exited" and record.get("exitCode") == 0 for record in records]
    print_table(LAYOUT, rows, ["" if well else "yellow" for well in went_well])
