"""A verdict for eyes: two plain sentences, the facts with their figures, what to do next, and what was not seen."""

from collections.abc import Iterator, Mapping
from typing import Any

from sidecar.cli.ps import span_text
from sidecar.core.advice import advice
from sidecar.core.values import printable
from sidecar.core.verdict_names import group_of
from sidecar.core.verdict_texts import sentences

_CONFIDENCE = {
    "proved": "proved: nothing else explains what was read",
    "measured": "measured",
    "inferred": "inferred: the likeliest of what fits",
    "unknown": "not known for sure",
}


def in_words(found: Mapping[str, Any], subject: str, *, is_over: bool = False) -> Iterator[str]:
    """`found` has the keys of core.verdict_fields; lines without newlines. `subject`: who it is about
    where there is no leaf. `is_over`: it was so, and what was to be done then is no advice now."""
    verdict = str(found["verdict"])
    leaf = found.get("leaf")
    who = subject if leaf is None else f"{leaf['program']} (pid {leaf['pid']})"
    yield " ".join(sentences(verdict, printable(who)))
    yield ""
    yield f"verdict     {printable(verdict)} ({printable(str(found.get('group', group_of(verdict))))})"
    yield f"how sure    {_CONFIDENCE.get(str(found.get('confidence')), 'not said')}"
    if "sinceMs" in found:
        yield f"for         {span_text(int(found['sinceMs']))}"
    if found.get("repeats") is True:
        yield "output      it only repeats itself, as a spinner or a clock does"
    if "progress" in found:
        alive = "" if found.get("alive", True) else "no process of it is seen alive; "
        moved = "something in its processes has moved" if found["progress"] else "nothing in its processes has moved"
        yield f"progress    {alive}{moved} since the look before"
    yield from _listed("evidence", found.get("evidence", ()))
    if not is_over:
        yield from _listed("next", advice(found))
    yield from _listed("not seen", found.get("unseen", ()))


def opening(found: Mapping[str, Any], subject: str) -> str:
    """Of a running command: its age, and that of its output."""
    silent = span_text(int(found["lastOutputAgeMs"] if "lastOutputAgeMs" in found else found["elapsedMs"]))
    output = f"its last output was {silent} ago" if found.get("hasOutput") else f"no output was seen for {silent}"
    return f"{printable(subject)} has run for {span_text(int(found['elapsedMs']))}; {output}."


def told(found: Mapping[str, Any], subject: str) -> Iterator[str]:
    """Of a running command, as the daemon tells of it: its verdict, in words, and how old that is where its supervisor
    says nothing any more; or that there is none."""
    if "heartbeatDelayMs" not in found:
        if "verdict" in found:
            yield from in_words(found, subject)
        else:
            yield "There is no verdict: it is not silent, was not for long enough to be looked at, or verdicts are off."
        return
    unheard_ms = int(found["heartbeatDelayMs"]) + int(found.get("heartbeatIntervalMs", 0))
    late, unheard = (span_text(each) for each in (int(found["heartbeatDelayMs"]), unheard_ms))
    output = "" if found.get("io") == "direct" else "its output gets nowhere, "
    does = "is stopped" if is_stopped(found) else "says nothing any more"
    yield (
        f"Its supervisor (pid {found.get('supervisorPid')}) {does}: it was heard {unheard} ago, and its heartbeat is "
        f"{late} late. What is known of the command is of then. It may run on, but {output}no timeout ends it, and "
        "nobody notices its end."
    )
    yield ""
    yield f"next        {unheard_advice(found)}"
    if "verdict" in found:
        yield ""
        yield "When it was heard last:"
        yield ""
        of_then = {**found, "sinceMs": max(0, int(found.get("sinceMs", 0)) - unheard_ms)}
        yield from in_words(of_then, subject, is_over=True)


def unheard_advice(found: Mapping[str, Any]) -> str:
    """What to do with a supervisor that says nothing any more."""
    supervisor, command_id = found.get("supervisorPid"), str(found.get("commandId"))
    if is_stopped(found):
        return f"`kill -CONT {supervisor}` continues it; `sidecar cancel {command_id}` does too, and ends the command."
    return (
        f"`sidecar why {supervisor}` says what holds it: a debugger, a frozen control group, a disk that does not "
        f"answer. If it is stopped, `kill -CONT {supervisor}` continues it."
    )


def is_stopped(found: Mapping[str, Any]) -> bool:
    """Whether the supervisor is stopped, as far as can be seen from here: in another pid namespace its pid is somebody
    else's, who is not the command's parent."""
    try:
        supervisor = int(found["supervisorPid"])
        with open(f"/proc/{int(found['pid'])}/stat", "rb") as file:
            parent = int(file.read().rpartition(b") ")[2].split()[1])
        with open(f"/proc/{supervisor}/stat", "rb") as file:
            state = file.read().rpartition(b") ")[2].split()[0]
    except (OSError, KeyError, ValueError, IndexError):
        return False
    return parent == supervisor and state == b"T"


def _listed(title: str, texts: "list[str] | tuple[str, ...]") -> Iterator[str]:
    for number, text in enumerate(texts):
        yield f"{title if number == 0 else '':<11} {printable(text)}"
