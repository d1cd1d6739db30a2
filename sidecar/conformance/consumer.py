"""A consumer under test: a process that gets a vector's lines on stdin, and answers each with a line on stdout.

The answer is what it shows after the line: {"calls": {ID: {"status": ..., "title": ..., "kind": ..., "output": ...}},
"text": ...}; of a call only the status is asked for. A consumer is started anew for each vector, and gets the end of
its input after it. Its stderr is ours.
"""

import json
import os
import select
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import IO

from sidecar.conformance.judge import fault_of
from sidecar.conformance.rules import ALL
from sidecar.conformance.vectors import Step, Vector

_MAX_ANSWER_BYTES = 1 << 20
_READ_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class Fault:
    """`line` counts from 1; 0 = none in particular."""

    line: int
    rule: str
    found: str

    def __str__(self) -> str:
        where = f"line {self.line}: " if self.line else ""
        return f"{where}{self.rule}: {ALL[self.rule]}. Here: {self.found}."


def check(argv: Sequence[str], vector: Vector, timeout_s: float) -> Fault | None:
    """Run the consumer on one vector. The first fault; None = it keeps the rules. Raises OSError: it cannot be run."""
    with subprocess.Popen(  # noqa: S603 - the user's own words
        list(argv), stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            conversation = _Conversation(process.stdin, process.stdout, timeout_s)
            shown: object = None
            for number, step in enumerate(vector.steps, 1):
                shown = _step(conversation, number, step, shown)
                if isinstance(shown, Fault):
                    return shown
            return None
        finally:
            process.stdin.close()
            process.stdout.close()
            try:
                process.wait(timeout_s)
            except subprocess.TimeoutExpired:
                process.kill()


def _step(conversation: "_Conversation", number: int, step: Step, before: object) -> Fault | object:
    """What is shown now, or the fault in it. `before`: what was shown before."""
    answer = conversation.ask(step.line)
    if answer is None:
        # Not one that answers at all, or one that this line was too much for: the rule says which.
        return Fault(number, step.rule, "the consumer ended or failed at it")
    if answer == b"":
        return Fault(number, "one-answer-a-line", f"no answer within {conversation.timeout_s:g} s")
    try:
        shown = json.loads(answer)
    except (ValueError, RecursionError):
        return Fault(number, "one-answer-a-line", f"the answer is {answer[:80]!r}")
    found = fault_of(step, shown, before)
    return shown if found is None else Fault(number, *found)


class _Conversation:
    def __init__(self, stdin: IO[bytes], stdout: IO[bytes], timeout_s: float) -> None:
        self._stdin = stdin
        self._stdout = stdout
        self.timeout_s = timeout_s
        self._read = b""

    def ask(self, line: bytes) -> bytes | None:
        """The answer, without its newline; empty = none came in time; None = it has ended."""
        try:
            self._stdin.write(line)
        except OSError:
            return None
        until_s = time.monotonic() + self.timeout_s
        while b"\n" not in self._read:
            left_s = until_s - time.monotonic()
            poll = select.poll()
            poll.register(self._stdout, select.POLLIN)
            if left_s <= 0 or len(self._read) > _MAX_ANSWER_BYTES or not poll.poll(left_s * 1000):
                return b""
            data = os.read(self._stdout.fileno(), _READ_BYTES)
            if not data:
                return None
            self._read += data
        answer, _, self._read = self._read.partition(b"\n")
        return answer or b" "
