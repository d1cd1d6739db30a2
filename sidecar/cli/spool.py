"""`sidecar spool`: what waits for a Collector; send it now, or throw it away. With and without a daemon.

1    `flush` where something is left that was to be sent
125  anything that is wrong, in one line on stderr
"""

import json
import os
import sqlite3
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

import click

from sidecar.cli.parameters import socket_options
from sidecar.config import Resolved, load_settings
from sidecar.core.duration import format_duration
from sidecar.core.errors import DaemonUnavailable, SidecarError
from sidecar.core.values import counted, parse_duration
from sidecar.daemon import client, elsewhere

if TYPE_CHECKING:
    from sidecar.telemetry.spool_file import SpoolFile, Total

EXIT_LEFT: Final = 1
_LOOK_EVERY_S: Final = 0.05
_UNITS: Final = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))
_KINDS: Final = {"traces": "span", "logs": "log record"}

_as_json = click.option("--json", "as_json", is_flag=True, help="As one JSON object.")


@click.group("spool")
def spool() -> None:
    """What no Collector has taken yet: look at it, send it now, or throw it away."""


@spool.command("status")
@socket_options
@_as_json
def status(config_path: str | None, socket: str | None, as_json: bool) -> None:
    """Say what waits, for whom, and why."""
    place = _place(socket, config_path)
    totals, oldest_ms = _look(place)
    if as_json:
        click.echo(json.dumps(_as_record(place, totals, oldest_ms)))
        return
    age = "" if oldest_ms is None else f", the oldest for {format_duration(oldest_ms // 1000 * 1_000_000_000)}"
    click.echo(f"{place.path or 'the spool is switched off'}: {_in_words(totals)}{age}")
    for total in totals:
        click.echo(f"  {counted(total.records, _KINDS[total.signal])}, {_size(total.bytes)}, for {total.destination}")
    if commands := _left_commands(place):
        click.echo(f"  {counted(commands, 'command')} as frames, to become spans with the next daemon or flush")
    for reason in place.reasons:
        click.echo(f"  {reason}")


@spool.command("flush")
@socket_options
@click.option("--all", "everything", is_flag=True, help="Also what was meant for another Collector than today's.")
@click.option("--timeout", metavar="DURATION", default="30s", help="Give up after this long. [30s]")
@_as_json
def flush(config_path: str | None, socket: str | None, everything: bool, timeout: str, as_json: bool) -> int:
    """Send what waits, now; exit status 1 where something is left."""
    try:
        budget_s = parse_duration(timeout) / 1e9
    except ValueError as error:
        raise click.BadParameter(f"use {error}", param_hint="--timeout") from None
    place = _place(socket, config_path)
    before, _ = _look(place)
    reasons: list[str] = []
    if before or _left_commands(place):
        send = _flush_by_daemon if place.daemon else _flush_here
        reasons = send(place, budget_s, everything)
    left, _ = _look(place)
    others = sum(total.records for total in left if total.destination not in place.destinations)
    if left and not reasons:
        another = f"{others} were meant for another Collector: see `sidecar spool status`, and --all"
        reasons = [another if others else f"not all was taken within {timeout}"]
    sent = max(0, sum(total.records for total in before) - sum(total.records for total in left))
    if as_json:
        click.echo(json.dumps({"gone": sent, "left": sum(total.records for total in left), "reasons": reasons}))
    elif left:
        click.echo(f"sent {sent}; still waiting: {_in_words(left)} ({'; '.join(reasons)})", err=True)
    elif reasons:
        click.echo(f"nothing waits any more, but not all was taken: {'; '.join(reasons)}", err=True)
    else:
        click.echo(f"sent: {_in_words(before)}" if before else "nothing waits")
    return EXIT_LEFT if left or reasons else 0


@spool.command("clear")
@socket_options
@_as_json
def clear(config_path: str | None, socket: str | None, as_json: bool) -> None:
    """Throw away what waits."""
    from sidecar.telemetry.leftovers import clear as clear_frames

    place = _place(socket, config_path)
    with _opened(place) as file:
        totals = file.clear() if file is not None else []
    commands = clear_frames(place.path) if place.path is not None else 0
    what = [*([_in_words(totals)] if totals else []), *([counted(commands, "command")] if commands else [])]
    if as_json:
        click.echo(json.dumps({"records": sum(total.records for total in totals), "commandsAsFrames": commands}))
    else:
        click.echo(f"thrown away: {' and '.join(what)}" if what else "nothing waits")


@dataclass(frozen=True)
class _Place:
    """The spool that counts: the running daemon's, else the one of our own configuration.

    `destinations` is where this configuration sends to now; `reasons` what the daemon says stands against it.
    """

    path: str | None
    daemon: str | None
    resolved: Resolved
    destinations: tuple[str, ...]
    reasons: tuple[str, ...]


def _place(socket: str | None, config_path: str | None) -> _Place:
    from sidecar.telemetry.configured import spool_limits, telemetry_settings
    from sidecar.telemetry.targets import target_of

    resolved = load_settings({} if socket is None else {"socket": socket}, os.environ, config_path)
    daemon = elsewhere.found(os.environ, resolved.settings.socket)
    try:
        telemetry: Mapping[str, Any] = client.status(daemon).get("telemetry") or {}
    except DaemonUnavailable:
        settings = telemetry_settings(resolved, "inline")
        targets = [target_of("traces", settings, []), target_of("logs", settings, [])]
        destinations = tuple(target.shown for target in targets if target is not None)
        return _Place(spool_limits(resolved).path, None, resolved, destinations, ())
    theirs = telemetry.get("spool") or {}
    destinations = tuple(signal["endpoint"] for signal in telemetry.get("signals", {}).values())
    reasons = [*([theirs["problem"]] if theirs.get("problem") else []), *theirs.get("waiting_because", {}).values()]
    return _Place(theirs.get("path"), daemon, resolved, destinations, tuple(reasons))


@contextmanager
def _opened(place: _Place) -> "Iterator[SpoolFile | None]":
    """The spool's file; None where there is none. Raises SidecarError for one that cannot be used."""
    from sidecar.telemetry.spool_file import SpoolFile

    if place.path is None or not os.path.lexists(place.path):
        yield None
        return
    try:
        file = SpoolFile(place.path, create=False)
        try:
            yield file
        finally:
            file.close()
    except sqlite3.Error as error:
        raise SidecarError(f"the spool {place.path} cannot be used: {error}") from None


def _look(place: _Place) -> "tuple[list[Total], int | None]":
    """What waits, and for how many ms the oldest of it does."""
    from sidecar.telemetry.spool_clock import now

    with _opened(place) as file:
        if file is None:
            return [], None
        age_ns = file.oldest_age_ns(now())
        return file.totals(), None if age_ns is None else age_ns // 1_000_000


def _flush_by_daemon(place: _Place, budget_s: float, everything: bool) -> list[str]:
    """The daemon sends, we watch: until nothing is left, it says why not, or the time is over."""
    assert place.daemon is not None
    deadline_s = time.monotonic() + budget_s
    client.flush(place.daemon, everything=everything)
    reasons: list[str] = []
    while not reasons and time.monotonic() < deadline_s:
        time.sleep(_LOOK_EVERY_S)
        left, _ = _look(place)
        telemetry = client.status(place.daemon).get("telemetry") or {}
        reasons = list((telemetry.get("spool") or {}).get("waiting_because", {}).values())
        ours = any(everything or total.destination in place.destinations for total in left)
        if not ours and not _left_commands(place):
            break
    return reasons


def _flush_here(place: _Place, budget_s: float, everything: bool) -> list[str]:
    from sidecar.telemetry.configured import telemetry_settings
    from sidecar.telemetry.spool_flush import flush as flush_here

    return flush_here(telemetry_settings(place.resolved, "inline"), budget_s, everything=everything)


def _as_record(place: _Place, totals: "list[Total]", oldest_ms: int | None) -> dict[str, Any]:
    return {
        "path": place.path,
        "daemon": place.daemon,
        "requests": sum(total.requests for total in totals),
        "records": sum(total.records for total in totals),
        "bytes": sum(total.bytes for total in totals),
        "maxBytes": place.resolved.settings.spool_max_bytes,
        "oldestAgeMs": oldest_ms,
        "commandsAsFrames": _left_commands(place),
        "waiting": [asdict(total) for total in totals],
        "destinations": list(place.destinations),
        "reasons": list(place.reasons),
    }


def _left_commands(place: _Place) -> int:
    """How many inline commands had to leave their frames as they are."""
    from sidecar.telemetry.leftovers import files

    return len(files(place.path)) if place.path is not None else 0


def _in_words(totals: "list[Total]") -> str:
    if not totals:
        return "nothing waits"
    counts = [
        counted(number, kind)
        for signal, kind in _KINDS.items()
        if (number := sum(total.records for total in totals if total.signal == signal))
    ]
    return f"{' and '.join(counts)} ({_size(sum(total.bytes for total in totals))})"


def _size(size_bytes: int) -> str:
    for unit_bytes, unit in _UNITS:
        if size_bytes >= unit_bytes:
            return f"{size_bytes / unit_bytes:.1f} {unit}"
    return f"{size_bytes} B"
