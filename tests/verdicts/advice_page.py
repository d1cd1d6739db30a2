"""What to do about each verdict and each end, in the tables of docs/verdicts.md: made from sidecar/core/advice.py and
ended_advice.py."""

from __future__ import annotations

from collections.abc import Callable

from sidecar.core.advice import FIRST, THEN, first, then
from sidecar.core.ended_advice import AFTER, fill
from sidecar.core.lifecycle import SETTLE_REASONS
from sidecar.core.verdict_names import ALL


def cell(verdict: str) -> str:
    """All that may be said, with what only a look knows in capitals. In a table a | of a command is escaped."""
    texts = _texts(verdict, FIRST, first)
    if verdict in THEN:  # the others have one for all, said above the tables
        texts.append(then(verdict, "sidecar cancel COMMAND_ID"))
    return _joined(texts)


def cell_of_end(reason: str) -> str:
    return _joined(_texts(reason, AFTER, fill))


def _texts(name: str, table: dict[str, str], say: Callable[[str], str]) -> list[str]:
    texts = [say(name)]
    for special in table:
        base, _, case = special.partition(", ")
        if case and base == name:
            texts.append(f"*{case[0].upper()}{case[1:]}:* {say(special)}")
    return texts


def _joined(texts: list[str]) -> str:
    return " ".join(text for text in texts if text).replace("|", "\\|")


def with_advice(page: str) -> str:
    """The page, with the last cell of each verdict's row made anew."""
    lines = page.split("\n")
    for number, line in enumerate(lines):
        cells = line.split(" | ")
        name = cells[0].removeprefix("| ").strip("`")
        if line.startswith("| `") and name in (*ALL, *SETTLE_REASONS) and len(cells) > 2:
            told = cell(name) if name in ALL else cell_of_end(name)
            lines[number] = f"{cells[0]} | {cells[1]} | {told} |"
    return "\n".join(lines)
