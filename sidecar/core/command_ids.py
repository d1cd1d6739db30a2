"""Which command is meant by an id, by as much of its beginning as says so, or by the id of its trace. It is never
guessed: ids of the same millisecond begin alike, a trace has many commands, and `cancel` is not for the wrong one."""

from collections.abc import Mapping
from typing import Final

from sidecar.core.errors import UsageError
from sidecar.core.values import printable

MIN_PREFIX_CHARS: Final = 4
_NAMED: Final = 5
_SHOWN_CHARS: Final = 64
_ELLIPSES: Final = ("~", "...", "\N{HORIZONTAL ELLIPSIS}")
_TRACE_ID_CHARS: Final = 32
_HEX: Final = frozenset("0123456789abcdef")


def typed_id(text: str) -> str:
    """What is known of an id that was copied from a view, which may have cut it short."""
    for ellipsis in _ELLIPSES:
        text = text.removesuffix(ellipsis)
    return text


def trace_id_in(text: str) -> str | None:
    """The trace id that `text` is, in lower case; None where it is none. No command's id has its form."""
    lower = text.lower()
    return lower if len(lower) == _TRACE_ID_CHARS and _HEX.issuperset(lower) else None


def named(known: Mapping[str, str]) -> str:
    """The first few of them, each with what a person calls it, and how many more there are."""
    first = [f"{printable(command_id)} ({printable(known[command_id])})" for command_id in [*known][:_NAMED]]
    more = f" and {len(known) - _NAMED} more" if len(known) > _NAMED else ""
    return ", ".join(first) + more


def meant(wanted: str, known: Mapping[str, str]) -> str | None:
    """The id that is `wanted`, else the only one that begins so; None where none does. Upper case is as lower case.

    `known`: the ids, and with each what a person calls the command. Raises UsageError, which names the first few: more
    than one begins so. Of less than MIN_PREFIX_CHARS nothing is asked: UsageError too.
    """
    if wanted in known:
        return wanted
    prefix = typed_id(wanted).lower()
    found = [command_id for command_id in known if command_id.lower().startswith(prefix)]
    exact = [command_id for command_id in found if len(command_id) == len(prefix)]
    if len(exact) == 1:
        return exact[0]
    if len(prefix) < MIN_PREFIX_CHARS:
        raise UsageError(f"give at least {MIN_PREFIX_CHARS} characters of the command's id; `sidecar ps` shows it")
    if len(found) > 1:
        shown = printable(prefix[:_SHOWN_CHARS])
        which = named({command_id: known[command_id] for command_id in found})
        raise UsageError(f"{shown} is the beginning of {len(found)} commands: {which}; give more of the id")
    return found[0] if found else None
