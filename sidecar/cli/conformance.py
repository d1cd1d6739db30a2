"""`sidecar conformance`: does a consumer of heartbeats do with them what it must?

Exit status 0: every rule is kept. 1: one is not, and it is named. 125: nothing was checked.
"""

import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NoReturn

import click

from sidecar.cli.errors import EXIT_USAGE, complain
from sidecar.conformance import consumer, stream, vectors
from sidecar.conformance.rules import ALL
from sidecar.conformance.vectors import PROTOCOLS, Vector

_TIMEOUT_S = 10.0


@click.command(
    "conformance",
    context_settings={"allow_interspersed_args": False},
    short_help="Check what a consumer does with heartbeats, or a recorded stream of them.",
)
@click.option("--protocol", type=click.Choice(PROTOCOLS), default="acp", show_default=True)
@click.option("--vector", "names", multiple=True, metavar="NAME", help="Only this one; may be given again.")
@click.option("--gateway", is_flag=True, help="CONSUMER passes messages on: check what comes out of it.")
@click.option("--stream", "recorded", type=click.Path(exists=True, allow_dash=True), help="Check a recorded stream.")
@click.option(
    "--timeout", "timeout_s", type=float, default=_TIMEOUT_S, show_default=True, help="Seconds for an answer."
)
@click.option("--list", "listed", is_flag=True, help="Print the vectors and the rules.")
@click.option("--export", type=click.Path(file_okay=False), metavar="DIR", help="Write the vectors there.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a vector.")
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[-- CONSUMER [ARG]...]")
def conformance(
    protocol: str, names: tuple[str, ...], gateway: bool, recorded: str | None, timeout_s: float,
    listed: bool, export: str | None, as_json: bool, words: tuple[str, ...],
) -> None:  # fmt: skip
    """Feed recorded sequences to CONSUMER and check what it shows after each line.

    CONSUMER gets one message a line on stdin and answers each with one line, what it shows now:
    {"calls": {ID: {"status": ..., "title": ..., "kind": ..., "output": ...}}, "text": ...}. Of a call only the status
    must be there.
    """
    if export is not None:
        _export(Path(export))
    elif listed:
        _list(protocol)
    elif recorded is not None:
        with click.open_file(recorded, "rb") as file:
            faults = stream.faults(file, protocol)
        _leave([_report(recorded, fault, as_json) for fault in faults] or [_report(recorded, None, as_json)])
    elif not words:
        raise click.UsageError("name a consumer after --, or use --stream, --list or --export")
    else:
        found = [each for each in vectors.load(protocol) if not names or each.name in names]
        if unknown := set(names) - {each.name for each in found}:
            raise click.UsageError(f"there is no vector {', '.join(sorted(unknown))} of {protocol}; --list has them")
        check = _gateway if gateway else consumer.check
        try:
            _leave([_report(each.name, check(words, each, timeout_s), as_json) for each in found])
        except OSError as error:
            complain(f"{words[0]}: {error.strerror}")
            sys.exit(EXIT_USAGE)


def _gateway(argv: tuple[str, ...], vector: Vector, timeout_s: float) -> consumer.Fault | None:
    given = [step.line for step in vector.steps]
    try:
        done = subprocess.run(  # noqa: S603 - the user's own words
            list(argv), input=b"".join(given), stdout=subprocess.PIPE, timeout=timeout_s, check=False
        )
    except subprocess.TimeoutExpired:
        return consumer.Fault(0, "nothing-is-lost", f"it had not ended {timeout_s:g} s after its input")
    return next(iter(stream.faults_of_gateway(given, done.stdout.splitlines(keepends=True), vector.protocol)), None)


def _report(name: str, fault: consumer.Fault | None, as_json: bool) -> bool:
    if as_json:
        record: dict[str, Any] = {"name": name, "ok": fault is None}
        if fault is not None:
            record |= {"line": fault.line, "rule": fault.rule, "means": ALL[fault.rule], "found": fault.found}
        click.echo(json.dumps(record))
    else:
        click.echo(f"ok    {name}" if fault is None else f"FAIL  {name}: {fault}")
    return fault is None


def _leave(results: Iterable[bool]) -> NoReturn:
    sys.exit(0 if all(list(results)) else 1)


def _list(protocol: str) -> None:
    for each in vectors.load(protocol):
        click.echo(f"{each.name}: {each.about}")
    click.echo()
    for rule, means in ALL.items():
        click.echo(f"{rule}: {means}")


def _export(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in vectors.sources():
        (folder / name).write_text(text, "utf-8")
