"""`sidecar why`: looks at a process tree that nobody supervises, and says what it waits for. Linux only.

0    there is a verdict, which may be `unknown`
125  no such process, or no /proc to look at
"""

import json
import os
import time
from collections.abc import Callable

import click

from collectors import Looker, observe
from sidecar.cli.explain import with_words
from sidecar.cli.verdict_words import in_words
from sidecar.cli.wrapping import say
from sidecar.core.errors import UsageError
from sidecar.core.finding import Verdict
from sidecar.core.published import PublishedVerdict
from sidecar.core.verdict import judge
from sidecar.core.verdict_fields import fields_of

PAIRS_AT_MOST = 3


@click.command("why", short_help="Say the same of any process of yours, by its pid.")
@click.argument("pid", metavar="PID", type=click.IntRange(min=1))
@click.option("--json", "as_json", is_flag=True, help="For programs: one object.")
def why(pid: int, as_json: bool) -> None:
    """Look at the process PID and everything it has started, and say what they wait for, or that they work.

    It takes two or three seconds, since a verdict counts when it was found twice. Nothing is stopped or traced. What
    may be seen of a process that is not a child of this one depends on kernel.yama.ptrace_scope.
    """
    program = _program(pid)
    looker = Looker(pid)
    verdict, is_confirmed = settled_verdict(lambda: judge(*observe(looker)), time.monotonic_ns)
    if not verdict.alive and not os.path.exists(f"/proc/{pid}"):
        raise UsageError(f"process {pid} has ended while it was looked at")
    subject = f"{program} (pid {pid})"
    found = {key: value for key, value in fields_of(verdict, 0).items() if key != "sinceMs"}
    found = {"pid": pid, "program": program, "confirmed": is_confirmed, **found}
    if as_json:
        click.echo(json.dumps(with_words(found, subject), indent=2))
        return
    for line in in_words(found, subject):
        say(line)
    if not is_confirmed:
        click.echo(f"            (each of {PAIRS_AT_MOST} looks found something else; this is the last)")


def settled_verdict(look: Callable[[], Verdict], now_ns: Callable[[], int]) -> tuple[Verdict, bool]:
    """The verdict that was found twice in a row (or may be told at once), and True; else the last one."""
    published = PublishedVerdict()
    for _ in range(PAIRS_AT_MOST):
        verdict = look()
        published.offer(verdict, now_ns())
        if published.current is not None:
            return published.current, True
    return verdict, False


def _program(pid: int) -> str:
    """Its name. Raises UsageError where there is no such process."""
    if not os.path.exists("/proc/self/stat"):
        raise UsageError("there is no /proc here to look at")
    try:
        with open(f"/proc/{pid}/comm", "rb") as file:
            return file.read().decode("utf-8", "replace").removesuffix("\n")
    except OSError:
        raise UsageError(f"there is no process {pid}, or it may not be seen") from None
