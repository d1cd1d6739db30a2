"""Which command a person means who gives an id, or the beginning of one: of all that run, and all that have ended
lately."""

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from sidecar.cli.errors import complain
from sidecar.config import load_settings
from sidecar.core.command_ids import meant
from sidecar.core.errors import DaemonUnavailable, SidecarError, UsageError
from sidecar.core.values import printable
from sidecar.daemon.client import request

if TYPE_CHECKING:
    from sidecar.history.store import History

Record = dict[str, Any]
_Answer = TypeVar("_Answer")
_ALL = 1_000_000
"""The history is bounded."""


def one_command(wanted: str, path: str, config_path: str | None) -> Record:
    """The daemon's record of the running command that is meant, or the history's, which has `endUnixMs`.

    Raises UsageError: there is none, or more than one. Without a daemon there is the history; where neither has it,
    and one of them cannot be read, that is the error (DaemonUnavailable, UsageError).
    """
    missing: SidecarError = UsageError(
        f"no command {printable(wanted.lower()[:64])} runs or has ended lately; see `sidecar ps` and `sidecar history`"
    )
    found: dict[str, Record] = {}
    try:
        for answer in request(path, "list"):
            if "commandId" in answer:
                found[str(answer["commandId"])] = answer
    except DaemonUnavailable as error:
        missing = error
    try:
        for record in ended(config_path, wanted.removesuffix("~")):
            found.setdefault(str(record["commandId"]), record)  # one that ends just now is in both
    except UsageError as error:  # it cannot hide what runs
        missing = error
    called = {
        command_id: f"{record['program']}{', ended' if 'endUnixMs' in record else ''}"
        for command_id, record in found.items()
    }
    command_id = meant(wanted, called)
    if command_id is None:
        raise missing
    return found[command_id]


def latest(config_path: str | None, limit: int, *, is_silent: bool = False) -> list[Record]:
    """The commands that ended last; none where there is no history yet. Raises UsageError where it cannot be read.

    What may be missing is told on stderr, unless `is_silent`.
    """
    return _read(config_path, lambda store: store.latest(limit), is_silent=is_silent) or []


def ended(config_path: str | None, prefix: str) -> list[Record]:
    """Ended commands whose id begins so, the latest first. As `latest`."""
    return _read(config_path, lambda store: store.begins_with(prefix, _ALL)) or []


def ended_ids(config_path: str | None, since: str = "") -> Sequence[str]:
    """Of all that have ended, those that are `since` in order, or behind; none where the history cannot be read."""
    try:
        return _read(config_path, lambda store: store.ids(since), is_silent=True) or ()
    except UsageError:
        return ()


def _read(config_path: str | None, ask: "Callable[[History], _Answer]", *, is_silent: bool = False) -> _Answer | None:
    """None where there is no history yet. What may be missing in it is told, unless `is_silent`."""
    from sidecar.history.store import History, HistoryUnavailable, default_path  # SQLite: not for each verb

    settings = load_settings({}, os.environ, config_path).settings
    path = settings.history or default_path(os.environ)
    if path is None or not os.path.exists(path):
        return None
    try:
        store = History(path, settings.history_max_commands, read_only=True)
        try:
            if store.missing is not None and not is_silent:
                complain(store.missing)
            return ask(store)
        finally:
            store.close()
    except HistoryUnavailable as error:
        raise UsageError(str(error)) from None
