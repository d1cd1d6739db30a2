"""What to do about each verdict, in the tables of docs/verdicts.md: made from sidecar/core/advice.py."""

from __future__ import annotations

from sidecar.core.advice import FIRST, THEN, first, then
from sidecar.core.verdict_names import ALL


def cell(verdict: str) -> str:
    """All that may be said, with what only a look knows in capitals. In a table a | of a command is escaped."""
    texts = [first(verdict)]
    for name in FIRST:
        base, _, case = name.partition(", ")
        if case and base == verdict:
            texts.append(f"*{case[0].upper()}{case[1:]}:* {first(name)}")
    if verdict in THEN:  # the others have one for all, said above the tables
        texts.append(then(verdict, "sidecar cancel COMMAND_ID"))
    return " ".join(text for text in texts if text).replace("|", "\\|")


def with_advice(page: str) -> str:
    """The page, with the last cell of each verdict's row made anew."""
    lines = page.split("\n")
    for number, line in enumerate(lines):
        cells = line.split(" | ")
        verdict = cells[0].removeprefix("| ").strip("`")
        if line.startswith("| `") and verdict in ALL and len(cells) > 2:
            lines[number] = f"{cells[0]} | {cells[1]} | {cell(verdict)} |"
    return "\n".join(lines)
