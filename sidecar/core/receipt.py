"""The receipt of a stop: who asked for it, what was sent when and to how many processes, what survived.

It is the value of `stop` in a command_settled frame, and says all that can be known of a stop afterwards:

    askedBy        one of lifecycle.ASKERS
    evidence?      the facts behind it, in words: "SIGTERM from pid 4711 (bash)"
    atMs           when it was asked for, since the spawn
    sent           [{"signal": "SIGTERM", "atMs": 12000, "processes": 3}, ...], in order; those that the agent's own
                   signal to the group had reached are counted too
    survivorCount  processes that did not die of KILL within the time they are given
    survivors?     the first of them, in words: "4711 dd (D, uninterruptible)"

Names of processes may hold anything: what could move a cursor is escaped, and each text is cut (in bytes of JSON).
Pure: the supervisor fills it in, the daemon and whoever reads frames check it with `is_receipt`.
"""

from sidecar.core.values import counted
from sidecar.core.verdict_fields import safe_text

TYPE_CHECKING = False  # typing.TYPE_CHECKING, without the 7 ms of importing typing
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from sidecar.core.frame import Json

MAX_EVIDENCE_CHARS = 512
MAX_SENT = 8
MAX_SURVIVORS_NAMED = 8
MAX_SURVIVOR_CHARS = 96

_KEYS = frozenset(("askedBy", "evidence", "atMs", "sent", "survivorCount", "survivors"))
_SENT_KEYS = frozenset(("signal", "atMs", "processes"))


class Receipt:
    """Filled in while the stop runs. Times are milliseconds since the spawn."""

    __slots__ = ("_sent", "asked_by", "at_ms", "evidence", "survivors")

    def __init__(self, asked_by: str, evidence: str | None, at_ms: int) -> None:
        self.asked_by = asked_by
        self.evidence = None if evidence is None else safe_text(evidence, MAX_EVIDENCE_CHARS)
        self.at_ms = at_ms
        self.survivors: list[str] = []
        self._sent: list[tuple[str, int, int]] = []

    def sent(self, signal: str, at_ms: int, processes: int) -> None:
        """`signal` went to so many processes. Of more than MAX_SENT the last stays, since it ended the matter."""
        if len(self._sent) == MAX_SENT:
            self._sent.pop()
        self._sent.append((signal, at_ms, processes))

    def as_json(self) -> "dict[str, Json]":
        receipt: dict[str, Json] = {
            "askedBy": self.asked_by,
            "evidence": self.evidence,
            "atMs": self.at_ms,
            "sent": [
                {"signal": signal, "atMs": at_ms, "processes": processes} for signal, at_ms, processes in self._sent
            ],
            "survivorCount": len(self.survivors),
        }
        if self.survivors:
            named = self.survivors[:MAX_SURVIVORS_NAMED]
            receipt["survivors"] = [safe_text(text, MAX_SURVIVOR_CHARS) for text in named]
        return {key: value for key, value in receipt.items() if value is not None}


def is_receipt(obj: object) -> bool:
    """Whether `obj` is a receipt: the keys above and nothing else, within the bounds of this module.

    An `askedBy` that is not known is let through, since a later version may know more.
    """
    if not isinstance(obj, dict) or not _KEYS.issuperset(obj) or not _is_text(obj.get("askedBy"), 64):
        return False
    if not (_is_count(obj.get("atMs")) and _is_count(obj.get("survivorCount"))):
        return False
    survivors = obj.get("survivors", [])
    return (
        _is_text(obj.get("evidence", ""), MAX_EVIDENCE_CHARS)
        and isinstance(survivors, list)
        and len(survivors) <= MAX_SURVIVORS_NAMED
        and all(_is_text(text, MAX_SURVIVOR_CHARS) for text in survivors)
        and isinstance(obj.get("sent"), list)
        and len(obj["sent"]) <= MAX_SENT
        and all(map(_is_sent, obj["sent"]))
    )


def sent_in_words(receipt: "Mapping[str, Any]") -> "Iterator[str]":
    """`SIGTERM to 3 processes after 12000 ms`, for each signal of a receipt that `is_receipt` has seen."""
    for sent in receipt["sent"]:
        yield f"{sent['signal']} to {counted(sent['processes'], 'process', 'processes')} after {sent['atMs']} ms"


def _is_sent(obj: object) -> bool:
    return (
        isinstance(obj, dict)
        and obj.keys() == _SENT_KEYS
        and _is_text(obj["signal"], 32)
        and _is_count(obj["atMs"])
        and _is_count(obj["processes"])
    )


def _is_text(obj: object, max_chars: int) -> bool:
    """Text that UTF-8 can say: JSON can spell half a surrogate pair, which nothing after us could write."""
    return isinstance(obj, str) and len(obj) <= max_chars and not any("\ud800" <= char <= "\udfff" for char in obj)


def _is_count(obj: object) -> bool:
    return isinstance(obj, int) and not isinstance(obj, bool) and 0 <= obj < 2**63
