"""What a verdict is: its name and group, how sure it is, whom it is about, and the facts it rests on."""


from sidecar.core.verdict_names import group_of

TYPE_CHECKING = False  # typing.TYPE_CHECKING, without the 7 ms of importing typing
if TYPE_CHECKING:
    from dataclasses import dataclass
else:
    from sidecar.core.records import dataclass

PROVED, MEASURED, INFERRED, UNSURE = "proved", "measured", "inferred", "unknown"
CONFIDENCES = (PROVED, MEASURED, INFERRED, UNSURE)
"""How sure, the surest first. proved: nothing else explains what was read. measured: it was read. inferred: the
likeliest of what fits. unknown: not enough could be read."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """The process at the end of the chain of waits: the one to look at."""

    pid: int
    program: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """Why a command is silent.

    `evidence` are facts in words with figures, the weightiest first. `alive`: a process of the command lives;
    `progress`: something in its tree moved between the looks. `hint` is what a person could do next, where there is
    something; `unseen` says what could not be read and how to make it readable, one sentence each.
    """

    name: str
    confidence: str
    leaf: Leaf | None = None
    evidence: tuple[str, ...] = ()
    alive: bool = True
    progress: bool = False
    hint: str = ""
    unseen: tuple[str, ...] = ()

    @property
    def group(self) -> str:
        return group_of(self.name)


def weaker(first: str, second: str) -> str:
    """The less sure of two confidences."""
    return max(first, second, key=CONFIDENCES.index)
