"""Options from the full parser to the process that supervises: one word of text, and back."""

import marshal

from sidecar.core.errors import UsageError
from sidecar.supervisor.options import RunOptions

TYPE_CHECKING = False  # typing.TYPE_CHECKING, without the 7 ms of importing typing
if TYPE_CHECKING:
    from typing import Any

_FIELDS = [name for name in RunOptions.__slots__ if name != "argv"]


def to_text(options: RunOptions) -> str:
    """All options but the command itself."""
    return marshal.dumps({name: getattr(options, name) for name in _FIELDS}).hex()


def from_text(text: str, argv: list[str]) -> RunOptions:
    """What `to_text` made, and the command. Raises UsageError for anything else."""
    try:
        values: dict[str, Any] = marshal.loads(bytes.fromhex(text))  # noqa: S302 - our own exec wrote it; nobody gains by forging their own options
        return RunOptions(argv, {name: values[name] for name in _FIELDS})
    except (ValueError, TypeError, EOFError, KeyError):
        raise UsageError("the internal option was not made by this version of sidecar; use `sidecar run`") from None
