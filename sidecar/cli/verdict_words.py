"""A verdict for eyes: two plain sentences, the facts with their figures, what to do next, and what was not seen."""

from collections.abc import Iterator, Mapping
from typing import Any

from sidecar.cli.ps import span_text
from sidecar.core.values import printable
from sidecar.core.verdict_names import group_of
from sidecar.core.verdict_texts import advice, sentences

_CONFIDENCE = {
    "proved": "proved: nothing else explains what was read",
    "measured": "measured",
    "inferred": "inferred: the likeliest of what fits",
    "unknown": "not known for sure",
}


def in_words(found: Mapping[str, Any], subject: str) -> Iterator[str]:
    """`found` has the keys of core.verdict_fields; lines without newlines. `subject`: who it is about
    where there is no leaf."""
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
    yield f"next        {printable(advice(verdict, found.get('hint')))}"
    yield from _listed("not seen", found.get("unseen", ()))


def _listed(title: str, texts: "list[str] | tuple[str, ...]") -> Iterator[str]:
    for number, text in enumerate(texts):
        yield f"{title if number == 0 else '':<11} {printable(text)}"
