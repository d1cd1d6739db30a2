"""A verdict as the keys of a frame, bounded and safe to show, and the guard for what comes back off the wire.

    verdict     its name                      group       one of core.verdict_names.GROUPS
    confidence  proved, measured, inferred    sinceMs     for how long it has held
                or unknown                    alive       a process of the command lives
    progress    something in its tree has     leaf?       {"pid", "program"}: the process to look at
                moved since the look before   evidence?   facts in words with figures, the weightiest first
    hint?       what to do first, where only  unseen?     what could not be read: how to make it readable
                the look could tell

Names of programs and paths may hold anything: what could move a cursor or hide what follows is escaped, and each text
is cut, so that a frame of 8 KiB has room for all of it whatever a process calls itself.
"""

from sidecar.core.values import printable

TYPE_CHECKING = False  # typing.TYPE_CHECKING, without the 7 ms of importing typing
if TYPE_CHECKING:
    from collections.abc import Iterable

    from sidecar.core.finding import Verdict
    from sidecar.core.frame import Json

MAX_TEXT_BYTES = 320
MAX_EVIDENCE_BYTES = 2048
MAX_UNSEEN_BYTES = 1536
MAX_HINT_BYTES = 512
MAX_PROGRAM_BYTES = 64

KEYS = ("verdict", "group", "confidence", "sinceMs", "alive", "progress", "leaf", "evidence")
"""What `_meta.sidecar` has of a verdict."""
ADVICE_KEYS = ("hint", "unseen")
"""What only `sidecar explain` and the verdict's own record have."""

_LEAF_KEYS = frozenset(("pid", "program"))
_MS = 1_000_000


def fields_of(verdict: "Verdict", held_ns: int) -> "dict[str, Json]":
    """`held_ns`: for how long it has held. Keys with nothing to say are absent."""
    fields: dict[str, Json] = {
        "verdict": verdict.name,
        "group": verdict.group,
        "confidence": verdict.confidence,
        "sinceMs": max(0, held_ns) // _MS,
        "alive": verdict.alive,
        "progress": verdict.progress,
    }
    if verdict.leaf is not None:
        fields["leaf"] = {"pid": verdict.leaf.pid, "program": safe_text(verdict.leaf.program, MAX_PROGRAM_BYTES)}
    evidence = _bounded(verdict.evidence, MAX_EVIDENCE_BYTES)
    if evidence:
        fields["evidence"] = evidence
    if verdict.hint:
        hint = printable(verdict.hint)
        if _json_bytes(hint) <= MAX_HINT_BYTES:  # half a command is worse than none
            fields["hint"] = hint
    unseen = _bounded(verdict.unseen, MAX_UNSEEN_BYTES)
    if unseen:
        fields["unseen"] = unseen
    return fields


def is_leaf(obj: object) -> bool:
    """Whether `obj` is the leaf of a verdict: a pid and a program's name, and nothing else."""
    if not isinstance(obj, dict) or obj.keys() != _LEAF_KEYS:
        return False
    pid, program = obj["pid"], obj["program"]
    if not isinstance(pid, int) or isinstance(pid, bool) or not 0 <= pid < 2**63:
        return False
    return isinstance(program, str) and not any("\ud800" <= letter <= "\udfff" for letter in program)


def safe_text(text: str, max_bytes: int = MAX_TEXT_BYTES) -> str:
    """`text` without control characters, and cut to at most `max_bytes` of JSON (a letter beyond ASCII takes six)."""
    shown = printable(text)
    if len(shown) * 12 <= max_bytes or _json_bytes(shown) <= max_bytes:
        return shown
    room = max_bytes - 3
    kept = []
    for letter in shown:
        room -= _json_bytes(letter)
        if room < 0:
            break
        kept.append(letter)
    return "".join(kept) + "..."


def _bounded(texts: "Iterable[str]", max_bytes: int) -> "list[Json]":
    """The first texts that have room together. The weightiest come first, so that the rest can be spared."""
    kept: list[Json] = []
    for text in texts:
        shown = safe_text(text)
        max_bytes -= _json_bytes(shown) + 3
        if max_bytes < 0:
            break
        kept.append(shown)
    return kept


def _json_bytes(text: str) -> int:
    """How much room it may take on the wire, where another encoder than ours may write escapes."""
    return sum(
        (2 if letter in '"\\' else 1) if letter.isascii() else (12 if letter > "\uffff" else 6) for letter in text
    )
