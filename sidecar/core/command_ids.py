"""Which command is meant by an id, or by as much of its beginning as says so. It is never guessed: ids of the same
millisecond begin alike, and `cancel` is not for the wrong one."""

from collections.abc import Mapping
from typing import Final

from sidecar.core.errors import UsageError
from sidecar.core.values import printable

MIN_PREFIX_CHARS: Final = 4
_NAMED: Final = 5
_SHOWN_CHARS: Final = 64


def meant(wanted: str, known: Mapping[str, str]) -> str | None:
    """The id that is `wanted`, else the only one that begins so; None where none does. Upper case is as lower case, and
    a `~` at the end is where `sidecar top` has cut it.

    `known`: the ids, and with each what a person calls the command. Raises UsageError, which names the first few: more
    than one begins so. Of less than MIN_PREFIX_CHARS nothing is asked: UsageError too.
    """
    if wanted in known:
        return wanted
    prefix = wanted.lower().removesuffix("~")
    found = [command_id for command_id in known if command_id.lower().startswith(prefix)]
    exact = [command_id for command_id in found if len(command_id) == len(prefix)]
    if len(exact) == 1:
        return exact[0]
    if len(prefix) < MIN_PREFIX_CHARS:
        raise UsageError(f"give at least {MIN_PREFIX_CHARS} characters of the command's id; `sidecar ps` shows it")
    if len(found) > 1:
        named = ", ".join(f"{printable(command_id)} ({printable(known[command_id])})" for command_id in found[:_NAMED])
        more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
        shown = printable(prefix[:_SHOWN_CHARS])
        raise UsageError(f"{shown} is the beginning of {len(found)} commands: {named}{more}; give more of the id")
    return found[0] if found else None
