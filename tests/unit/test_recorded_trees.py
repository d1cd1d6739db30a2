"""Trees recorded from real runs, one or more for each verdict: judged as when they were recorded, and with less.

`python -m tests.verdicts.record` makes new ones. With pieces of the evidence taken away - a source denied, any answers
of the kernel gone - nothing crashes, no verdict gets surer, and no wait becomes a hang.
"""

import ctypes
import json
import os
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collectors.kernel import SOURCES
from collectors.recording import RecordingKernel, replay
from sidecar.core.evidence import Context
from sidecar.core.finding import CONFIDENCES, Verdict
from sidecar.core.verdict import judge
from sidecar.core.verdict_names import ALL

FOLDER = Path(__file__).parent / "recorded"
NAMES = sorted(path.stem for path in FOLDER.glob("*.json"))
PLAINER = {
    ("lock_wait", "polling"),
    ("lock_wait", "sleeping"),
    ("deadlock_suspected", "pipe_wait"),
    ("deadlock_suspected", "ipc_wait"),
    ("deadlock_suspected", "child_wait"),
    ("deadlock_suspected", "lock_wait"),
}
"""An inferred reason, and the measured fact that is left where the reason cannot be seen: as true, and no surer."""


@cache
def recorded(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text())
    return found


def judged(tree: dict[str, Any], denied: frozenset[str] = frozenset()) -> Verdict:
    return judge(*replay(tree, denied), Context(**tree["context"]))


@pytest.mark.parametrize("name", NAMES)
def test_a_recorded_tree_is_judged_as_it_was(name: str) -> None:
    tree = recorded(name)
    verdict = judged(tree)
    assert verdict.name in tree["right"]
    assert (verdict.name, verdict.confidence) == (tree["verdict"], tree["confidence"])
    assert verdict.alive
    assert verdict.leaf is not None
    assert all(verdict.evidence)


def test_there_is_a_tree_for_every_verdict() -> None:
    assert {recorded(name)["verdict"] for name in NAMES} == set(ALL)


def check_no_worse(whole: Verdict, less: Verdict) -> None:
    if (whole.name, less.name) not in PLAINER:
        assert CONFIDENCES.index(less.confidence) >= CONFIDENCES.index(whole.confidence), (whole, less)
    if less.group == "may_be_hung":
        assert whole.group == "may_be_hung", (whole, less)


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("name", NAMES)
def test_no_source_is_needed_to_be_honest(name: str, source: str) -> None:
    tree = recorded(name)
    check_no_worse(judged(tree), judged(tree, frozenset({source})))


@pytest.mark.parametrize("name", NAMES)
def test_with_nothing_but_the_tree_little_is_said_and_nothing_wrong(name: str) -> None:
    tree = recorded(name)
    less = judged(tree, frozenset(SOURCES) - {"stat", "children", "schedstat"})
    check_no_worse(judged(tree), less)
    assert less.unseen


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_whatever_is_missing_no_verdict_gets_surer(data: st.DataObject) -> None:
    """Each process's files, or single answers, are gone from one look or both."""
    tree = recorded(data.draw(st.sampled_from(NAMES), "tree"))
    keys = sorted(set(tree["before"]) | set(tree["after"]))
    gone = data.draw(st.sets(st.sampled_from(keys), max_size=12), "gone")
    first_too = data.draw(st.booleans(), "first_too")
    poorer = dict(tree)
    poorer["after"] = {**tree["after"], **dict.fromkeys(gone)}
    if first_too:
        poorer["before"] = {key: value for key, value in tree["before"].items() if key not in gone}
    if "now_ns" in gone:
        return
    less = judged(poorer)
    if less.alive:
        check_no_worse(judged(tree), less)


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_whatever_the_kernel_says_nothing_crashes(data: st.DataObject) -> None:
    """Answers are cut, doubled or replaced by those of another file: hostile names, reused pids, other kernels."""
    tree = recorded(data.draw(st.sampled_from(NAMES), "tree"))
    texts = [key for key, value in tree["before"].items() if isinstance(value, str)]
    spoilt = dict(tree["before"])
    for key in data.draw(st.sets(st.sampled_from(texts), min_size=1, max_size=8), "spoilt"):
        if key == "now_ns" or key.startswith(("mode", "memory")):
            continue
        how = data.draw(st.sampled_from(("cut", "other", "noise")), key)
        value: str = spoilt[key]
        if how == "cut":
            spoilt[key] = value[: data.draw(st.integers(0, len(value)))]
        elif how == "other":
            spoilt[key] = tree["before"][data.draw(st.sampled_from(texts))]
        else:
            spoilt[key] = data.draw(st.text(st.characters(codec="latin-1"), max_size=60))
    verdict = judged({**tree, "before": spoilt})
    assert verdict.name in ALL


def test_a_record_has_a_path_and_nothing_of_what_lies_behind_it() -> None:
    data = ctypes.create_string_buffer(b"/some/path\0a secret behind it", 256)
    kernel = RecordingKernel()
    kernel.memory(os.getpid(), ctypes.addressof(data), 256)
    (kept,) = kernel.answers["before"].values()
    assert bytes.fromhex(kept) == b"/some/path".ljust(256, b"\0")
