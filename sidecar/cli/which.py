"""Which command a person means who gives an id, the beginning of one, or a trace's: of all that run, and all that have
ended lately."""

import os
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from sidecar.cli.errors import complain
from sidecar.cli.tables import MIN_ID_CHARS, unique_prefixes
from sidecar.config import load_settings
from sidecar.core.command_ids import meant, named, trace_id_in, typed_id
from sidecar.core.errors import DaemonUnavailable, SidecarError, UsageError
from sidecar.core.values import printable
from sidecar.daemon.client import request

if TYPE_CHECKING:
    from sidecar.history.store import History

Record = dict[str, Any]
_Answer = TypeVar("_Answer")
_ALL = 1_000_000
"""The history is bounded."""
_SOON_S = 1.0
_WRITTEN_WITHIN_S = 0.5
"""The daemon tells no longer of a command that has just ended, and gathers what it writes into the history."""


class SeveralOfTrace(UsageError):  # noqa: N818 - says what is
    """A trace has more than one command. `running` and `ended` are their records, the latest end first."""

    def __init__(self, trace_id: str, running: list[Record], ended: list[Record]) -> None:
        self.trace_id, self.running, self.ended = trace_id, running, ended
        number = len(running) + len(ended)
        some = ("1 runs" if len(running) == 1 else f"{len(running)} run") if running else "all have ended"
        which = named(_called(running or ended))
        super().__init__(f"trace {trace_id} has {number} commands, {some}: {which}; give the id of one")


class NoSuchCommand(UsageError):  # noqa: N818 - says what is
    """Neither the daemon nor the history has it, and both can be read."""


def one_command(text: str, path: str, config_path: str | None) -> Record:
    """The daemon's record of the running command that is meant by `text`, or the history's, which has `endUnixMs`.

    Raises UsageError: there is none (NoSuchCommand), or more than one (of a trace: SeveralOfTrace). Without a daemon
    there is the history; where neither has it, and one of them cannot be read, that is the error (DaemonUnavailable,
    UsageError).
    """
    try:
        return _one_command(text, path, config_path)
    except NoSuchCommand:
        time.sleep(_WRITTEN_WITHIN_S)
        return _one_command(text, path, config_path)


def _one_command(text: str, path: str, config_path: str | None) -> Record:
    wanted = typed_id(text)
    trace_id = trace_id_in(wanted)
    subject = f"command {printable(wanted.lower()[:64])}" if trace_id is None else f"command of trace {trace_id}"
    missing: SidecarError = NoSuchCommand(
        f"no {subject} runs or has ended lately; see `sidecar ps` and `sidecar history`"
    )
    found: dict[str, Record] = {}
    try:
        for answer in request(path, "list"):
            if "commandId" in answer:
                found[str(answer["commandId"])] = answer
    except DaemonUnavailable as error:
        missing = error
    try:
        for record in ended(config_path, wanted) if trace_id is None else ended_of_trace(config_path, trace_id):
            found.setdefault(str(record["commandId"]), record)  # one that ends just now is in both
    except UsageError as error:  # it cannot hide what runs
        missing = error
    if trace_id is not None:
        return _only_one_of_trace(trace_id, found.values(), missing)
    command_id = meant(wanted, _called(found.values()))
    if command_id is None:
        raise missing
    return found[command_id]


def _only_one_of_trace(trace_id: str, known: Iterable[Record], missing: SidecarError) -> Record:
    found = [record for record in known if record.get("traceId") == trace_id]
    if not found:
        raise missing
    if len(found) > 1:
        running = [record for record in found if "endUnixMs" not in record]
        raise SeveralOfTrace(trace_id, running, [record for record in found if "endUnixMs" in record])
    return found[0]


def _called(records: Iterable[Record]) -> dict[str, str]:
    """By id, what a person calls each."""
    return {
        str(record["commandId"]): f"{record['program']}{', ended' if 'endUnixMs' in record else ''}"
        for record in records
    }


def short_ids(ids: Sequence[str], running: Sequence[str], config_path: str | None) -> list[str]:
    """As much of each id as `one_command` needs. `ids`: at least one; `running`: all that run."""
    oldest = min(ids)[:MIN_ID_CHARS]  # of what ended before it started nothing begins alike
    return unique_prefixes(ids, [*running, *ended_ids(config_path, oldest)])


def running_ids(path: str) -> list[str]:
    """The ids of what runs, if a daemon says so."""
    try:
        answers = list(request(path, "list", timeout_s=_SOON_S))
    except DaemonUnavailable:
        return []
    return [str(answer["commandId"]) for answer in answers if "commandId" in answer]


def latest(config_path: str | None, limit: int, *, is_silent: bool = False) -> list[Record]:
    """The commands that ended last; none where there is no history yet. Raises UsageError where it cannot be read.

    What may be missing is told on stderr, unless `is_silent`.
    """
    return _read(config_path, lambda store: store.latest(limit), is_silent=is_silent) or []


def ended(config_path: str | None, prefix: str) -> list[Record]:
    """Ended commands whose id begins so, the latest first. As `latest`."""
    return _read(config_path, lambda store: store.begins_with(prefix, _ALL)) or []


def ended_of_trace(config_path: str | None, trace_id: str) -> list[Record]:
    """Ended commands of a trace, the latest first. As `latest`."""
    return _read(config_path, lambda store: store.of_trace(trace_id)) or []


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
