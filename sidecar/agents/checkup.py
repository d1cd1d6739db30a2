"""What `sidecar doctor` finds, and how it asks: each question by itself, at the same time, within a bound.

A question that raises is an answer ("could not be looked at"), and so is one that does not come back: a name server or
a file system that hangs costs its own line, and no more.
"""

import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

from sidecar.core.values import printable

OK, NOTE, PROBLEM = "ok", "note", "problem"
LIMIT_S = 10.0


@dataclass(frozen=True)
class Check:
    """One line: what was looked at, how it is (OK, NOTE, PROBLEM), in words; `mend` is what to do, empty for nothing.

    A NOTE is worth knowing and nothing to mend.
    """

    name: str
    status: str
    text: str
    mend: str = ""

    def as_record(self) -> dict[str, str]:
        return {key: value for key, value in asdict(self).items() if value or key != "mend"}


Question = tuple[str, Callable[[], Sequence[Check]]]


def ask(questions: Sequence[Question], limit_s: float = LIMIT_S) -> list[Check]:
    """All answers, in the order of the questions. Takes `limit_s` at most, whatever hangs; never raises."""
    answers: queue.Queue[tuple[int, Sequence[Check]]] = queue.Queue()
    for number, question in enumerate(questions):
        # Daemon threads: one that hangs in the kernel must not hold the exit.
        threading.Thread(target=_answer, args=(number, question, answers), daemon=True).start()
    found: dict[int, Sequence[Check]] = {}
    deadline = time.monotonic() + limit_s
    while len(found) < len(questions):
        try:
            number, checks = answers.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            break
        found[number] = checks
    return [
        check
        for number, (name, _) in enumerate(questions)
        for check in found.get(number, (_unanswered(name, limit_s),))
    ]


def _unanswered(name: str, limit_s: float) -> Check:
    return Check(name, PROBLEM, f"no answer within {limit_s:g} s", "look for a file system or a name server that hangs")


def _answer(number: int, question: Question, answers: "queue.Queue[tuple[int, Sequence[Check]]]") -> None:
    name, function = question
    try:
        checks: Sequence[Check] = function()
    except Exception as error:  # noqa: BLE001 - whatever it is, it is an answer; a doctor does not fall ill
        text = printable(str(error).partition("\n")[0]) or type(error).__name__
        checks = [Check(name, PROBLEM, f"could not be looked at: {text}")]
    answers.put((number, checks))
