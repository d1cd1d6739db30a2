"""The recorded sequences, read from the data files beside this module.

A file is one JSON object: `name`, `protocol` ("acp" or "stream-json"), `about`, and `steps`. A step has a `line` (the
message, to be sent as one line) and a `view` (what a consumer shows after it). Where the line is a beat, `beat` is the
call that it is for; there, and on what follows one, `rule` is what a consumer breaks that fails at it (rules.py).

A view is {"calls": {ID: CALL}, "text": TEXT}. CALL has a `status` (or a list of those that will do), and may have
`title`, `kind` and `output`; null: the call may be absent, and must not have ended if it is there. `text` is the
conversation.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Final

PROTOCOLS: Final = ("acp", "stream-json")
View = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Step:
    line: bytes
    rule: str
    beat: str | None
    view: View


@dataclass(frozen=True, slots=True)
class Vector:
    name: str
    protocol: str
    about: str
    steps: tuple[Step, ...]


def load(protocol: str | None = None) -> list[Vector]:
    """All of them, or those of one protocol, by name."""
    found = (vector_of(json.loads(text)) for _, text in sources())
    return sorted((each for each in found if protocol in (None, each.protocol)), key=lambda each: each.name)


def sources() -> Iterable[tuple[str, str]]:
    """Each data file's name and its text, as it is."""
    folder = files(__package__) / "data"
    return ((file.name, file.read_text("utf-8")) for file in folder.iterdir() if file.name.endswith(".json"))


def vector_of(data: Mapping[str, Any]) -> Vector:
    """A vector from a data file's object."""
    steps = tuple(
        Step(
            json.dumps(step["line"]).encode() + b"\n",
            step.get("rule", "plain-protocol"),
            step.get("beat"),
            step["view"],
        )
        for step in data["steps"]
    )
    return Vector(data["name"], data["protocol"], data["about"], steps)
