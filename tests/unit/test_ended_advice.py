"""What to do about a command that has ended: for each way to end, with what is known filled in; nothing where it went
well."""

import re
import subprocess
from typing import Any

import pytest

from sidecar.core.ended_advice import _OPEN, AFTER, ended_advice, fill
from sidecar.core.lifecycle import SETTLE_REASONS

KNOWN = {"pid": 4711, "program": "make", "endUnixMs": 1_764_700_000_000}


def told(**found: Any) -> str:
    return " ".join(ended_advice({**KNOWN, **found}))


def test_every_reason_has_advice_and_there_is_no_other() -> None:
    assert {name.partition(", ")[0] for name in AFTER} == set(SETTLE_REASONS)


@pytest.mark.parametrize("name", AFTER)
def test_it_is_a_sentence_and_a_shell_can_read_its_commands(name: str) -> None:
    text = fill(name, **dict.fromkeys(_OPEN, 7))
    assert text.split()[0] in {"Ask", "Find", "Look", "Read", "See"}
    assert text.endswith((".", ")"))
    for command in re.findall(r"`([^`]+)`", text):
        if not command.startswith("--"):  # an option
            subprocess.run(["sh", "-n", "-c", command], check=True)
    assert not any(word in text.split() for word in _OPEN.values())


def test_nothing_is_to_be_done_where_it_went_well() -> None:
    assert ended_advice({**KNOWN, "reason": "exited", "exitCode": 0}) == []
    assert ended_advice({**KNOWN, "reason": "of a newer daemon"}) == []


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ({"reason": "exited", "exitCode": 3}, "what exit code 3 means is its own affair"),
        ({"reason": "exited", "exitCode": 143}, "`kill -l 143`"),
        ({"reason": "exited", "exitCode": 137}, "journalctl -k --since @1764699940 --until @1764700060 |"),
        ({"reason": "signaled", "signal": "SIGHUP"}, "Find out who sent SIGHUP; the sidecar did not."),
        ({"reason": "signaled", "signal": "SIGKILL"}, "grep -i 'killed process'"),
        ({"reason": "signaled", "signal": "SIGSEGV"}, "`coredumpctl info 4711`"),
        ({"reason": "timeout"}, "`--timeout`"),
        ({"reason": "silence_timeout"}, "`--silence-timeout`"),
        ({"reason": "spawn_failed", "error": "ENOENT"}, "`command -v make`"),
        ({"reason": "lost"}, "`ps -o pid,lstart,args -p 4711`"),
    ],
)
def test_what_is_said_of_each_end(found: dict[str, Any], said: str) -> None:
    assert said in told(**found)


@pytest.mark.parametrize(
    ("asked_by", "said"),
    [
        ("signal", "Ask the sender of the signal, if that was not meant: as a rule it is the agent"),
        ("cancel", "Ask whoever stopped it, if that was not meant."),
        ("verdict", "`sidecar config show` says where `on_verdict` is set."),
        ("a newer one", "Ask whoever stopped it, if that was not meant."),
    ],
)
def test_who_cancelled_it(asked_by: str, said: str) -> None:
    assert said in told(reason="cancelled", stop={"askedBy": asked_by})


def test_what_holds_its_output_is_named() -> None:
    found = told(reason="exited", exitCode=0, outputHeldBy=["4712 sleep: stdout, stderr", "4713 sh: stdout"])
    assert "`ps -o pid,etime,args -p 4712,4713`" in found
    assert "`kill 4712 4713`" in found


def test_what_did_not_die_is_named() -> None:
    stop = {"askedBy": "cancel", "survivorCount": 1, "survivors": ["4713 dd (D, uninterruptible)"]}
    assert "See what holds what did not die: `sidecar why 4713`." in told(reason="timeout", stop=stop)


def test_a_program_of_any_name_is_not_pasted() -> None:
    assert "`command -v PROGRAM`" in told(reason="spawn_failed", program="$(reboot)")
