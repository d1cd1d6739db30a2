"""Doing and undoing the edits of a plan: what would change, and changing it. The way a user's files are touched.

Apply: each file's bytes are kept, then written down, then replaced at once; what is done already is left alone, so that
twice is once. Undo: a file that is as we left it gets its old bytes back, to the byte; from one that was changed
meanwhile only what is ours is taken out, and that is said.
"""

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from sidecar.agents import files
from sidecar.agents.edits import Edit, Link, NotUnderstood, TextEdit
from sidecar.agents.places import is_sidecar_sh
from sidecar.agents.records import Record, digest
from sidecar.agents.shown import diff, name
from sidecar.core.errors import UsageError
from sidecar.core.values import printable


@dataclass(frozen=True)
class Change:
    """What happens to one path. `diff` is for people (shown.py); `note` is what a user must know of it."""

    path: str
    diff: str
    note: str = ""


def plan_apply(edits: Sequence[Edit], within: str | None = None) -> list[Change]:
    """What `apply` would do. Raises UsageError for what would be refused."""
    return [change for edit in edits if (change := _apply(edit, None, within)) is not None]


def apply(edits: Sequence[Edit], record: Record, within: str | None = None) -> list[Change]:
    """Do what is not done yet: all of it or none. All is looked at before anything is changed. Raises UsageError."""
    to_do = _writable(edits, plan_apply(edits, within))
    known = {entry.path for entry in record.files}
    done: list[Change] = []
    try:
        for edit in to_do:
            if (change := _apply(edit, record, within)) is not None:
                done.append(change)
    except UsageError:
        _take_back([edit for edit in to_do if edit.path not in known], record, within)
        raise
    return done


def _writable(edits: Sequence[Edit], planned: Sequence[Change]) -> list[Edit]:
    """Those of the edits that are planned. Raises UsageError where one of them may not be done."""
    paths = {change.path for change in planned}
    to_do = [edit for edit in edits if edit.path in paths]
    for edit in to_do:
        files.check_writable(edit.path if isinstance(edit, Link) else os.path.realpath(edit.path))
    return to_do


def _take_back(edits: Sequence[Edit], record: Record, within: str | None) -> None:
    """What was done before something failed (a disk is full, say), as far as it can be."""
    for edit in reversed(edits):
        entry = record.entry(edit.path)
        if entry is None:
            continue
        with suppress(UsageError):
            _undo(edit, record, within, do=True)
            files.remove_folders(entry.made)
            record.files.remove(entry)
    with suppress(UsageError):
        record.save() if record.files else record.drop()


def plan_undo(edits: Sequence[Edit], record: Record, within: str | None = None) -> list[Change]:
    """What `undo` would do. Raises UsageError for what would be refused."""
    return [change for edit in reversed(edits) if (change := _undo(edit, record, within, do=False)) is not None]


def undo(edits: Sequence[Edit], record: Record, within: str | None = None) -> list[Change]:
    """Take out what is ours, and forget it. Raises UsageError."""
    _writable(edits, plan_undo(edits, record, within))
    done = [change for edit in reversed(edits) if (change := _undo(edit, record, within, do=True)) is not None]
    for entry in reversed(record.files):  # one that was made for a file may have had another one in it until now
        files.remove_folders(entry.made)
    record.drop()
    return done


def _apply(edit: Edit, record: Record | None, within: str | None) -> Change | None:
    if isinstance(edit, Link):
        return _link(edit, record)
    found = files.look(edit.path, within)
    try:
        text = found.text()
        if found.data is not None and edit.is_done(text):
            return None
        after = edit.do(text).encode()
    except NotUnderstood as error:
        raise UsageError(f"{printable(edit.path)}: {error}; nothing was changed") from None
    if record is not None:
        before = _before(edit, found, record)
        made = files.make_folders(found.real)
        record.keep(edit.path, type(edit).__name__, before, after, made)
        files.replace(found, after, edit.mode)
    return Change(edit.path, diff(edit.path, found.data, after))


def _before(edit: TextEdit, found: files.Found, record: Record) -> bytes | None:
    """What an undo shall come back to: the file as it is, less what an earlier apply of ours has left in it."""
    if found.data is None or not edit.is_left(found.text()):
        return found.data
    entry = record.entry(edit.path)
    before = record.before(entry) if entry is not None else None
    if entry is not None and digest(found.data) == entry.digest:
        return before
    return _without(edit, found, before, has_entry=entry is not None)


def _undo(edit: Edit, record: Record, within: str | None, *, do: bool) -> Change | None:
    entry = record.entry(edit.path)
    made = entry.made if entry is not None else []
    if isinstance(edit, Link):
        return _unlink(edit, made, do=do)
    found = files.look(edit.path, within)
    if found.data is None:
        return None
    before = record.before(entry) if entry is not None else None
    note = ""
    if entry is not None and digest(found.data) == entry.digest:
        after = before
    else:
        after = _without(edit, found, before, has_entry=entry is not None)
        if after == found.data:
            return None
        if after != before:
            note = "it was changed since: only what sidecar had put in is taken out, the rest stays as it is"
    if do:
        if after is None:
            files.remove(found)
            files.remove_folders(made)
        else:
            files.replace(found, after, edit.mode)
    return Change(edit.path, diff(edit.path, found.data, after), note)


def _without(edit: TextEdit, found: files.Found, before: bytes | None, *, has_entry: bool) -> bytes | None:
    """The bytes without what is ours; the backup's, where that leaves a difference of white space at the end only."""
    original = before.decode() if before is not None else None if has_entry else ""
    try:
        text = edit.undo(found.text(), original)
    except NotUnderstood as error:
        raise UsageError(f"{printable(edit.path)}: {error}; nothing was changed") from None
    if text is None:
        return None
    after = text.encode()
    return before if before is not None and after.rstrip() == before.rstrip() else after


def _link(edit: Link, record: Record | None) -> Change | None:
    target = _target(edit)
    if target == edit.target:
        return None
    if record is not None:
        made = files.make_folders(edit.path)
        record.keep(edit.path, type(edit).__name__, None, os.fsencode(edit.target), made)
        scratch = f"{edit.path}.{os.getpid()}"
        try:
            os.symlink(edit.target, scratch)
            os.rename(scratch, edit.path)
        except OSError as error:
            raise UsageError(f"{printable(edit.path)}: cannot be made: {error.strerror}") from None
    old = f"-link to {printable(target)}\n" if target is not None else ""
    return Change(edit.path, f"--- {name(edit.path, target)}\n+++ {edit.path}\n{old}+link to {edit.target}\n")


def _unlink(edit: Link, made: list[str], *, do: bool) -> Change | None:
    target = _target(edit)
    if target is None:
        return None
    if do:
        try:
            os.unlink(edit.path)
        except OSError as error:
            raise UsageError(f"{printable(edit.path)}: cannot be removed: {error.strerror}") from None
        files.remove_folders(made)
    return Change(edit.path, f"--- {edit.path}\n+++ /dev/null\n-link to {printable(target)}\n")


def _target(edit: Link) -> str | None:
    """Where the link points; None where there is none. Raises UsageError for what is not a link of ours."""
    try:
        target = os.readlink(edit.path)
    except FileNotFoundError:
        return None
    except OSError:
        raise UsageError(f"{printable(edit.path)}: is there already, and no link of ours") from None
    if not is_sidecar_sh(target):
        raise UsageError(f"{printable(edit.path)}: is a link to {printable(target)}, and not ours")
    return target


DONE, PARTLY, NONE = "done", "partly", "none"


def state(edits: Sequence[Edit]) -> str:
    """DONE: all is there and leads somewhere; NONE: nothing of ours is; PARTLY: anything in between.

    Raises UsageError for a file that is not understood.
    """
    done, left = 0, 0
    for edit in edits:
        if isinstance(edit, Link):
            target = _target(edit)
            done += target == edit.target and os.access(edit.path, os.X_OK)
            left += target is not None
            continue
        found = files.look(edit.path)
        try:
            done += found.data is not None and edit.is_done(found.text())
            left += found.data is not None and edit.is_left(found.text())
        except NotUnderstood as error:
            raise UsageError(f"{printable(edit.path)}: {error}") from None
    return DONE if done == len(edits) else PARTLY if left else NONE
