"""What to do about a verdict: it begins with a deed, its commands exist, nothing is left open that is known, and the
page of verdicts says the same."""

import re
import shlex
import subprocess
from pathlib import Path

import pytest

from sidecar.core.advice import _OPEN, FIRST, THEN, advice, first, quoted, then
from sidecar.core.verdict_fields import MAX_HINT_BYTES
from sidecar.core.verdict_names import ALL
from tests.verdicts.advice_page import with_advice

PAGE = Path(__file__).parents[2] / "docs" / "verdicts.md"
DEEDS = ["Continue", "Find", "Give", "Keep", "Leave", "Look", "Make", "Raise", "See", "Start", "Type", "Wait"]
EVERYWHERE = {"bash", "cat", "echo", "free", "grep", "head", "kill", "ps", "sidecar", "stty", "timeout", "top"}
OF_UTIL_LINUX = {"fsfreeze", "lslocks", "renice", "umount"}
PERHAPS = {"docker", "fuser", "gdb", "jcmd", "lsof", "pip", "py-spy", "ss", "strace"}
NO_COMMANDS = {"-y", "--batch", "GIT_TERMINAL_PROMPT=0", "</dev/null", ">log 2>&1 &"}
FILLED = {
    **dict.fromkeys(_OPEN, "/srv/x"),
    "pid": 4711,
    "peer": "flock[4712]",
    "peer_pid": 4712,
    "host": "10.0.0.7",
    "port": 5432,
    "address": "10.0.0.7:5432",
    "value": 64,
    "supervisor": 4710,
}
OPEN = re.compile(rf"\b({'|'.join(re.escape(word) for word in _OPEN.values())}|GROUP|BYTES)\b")


def commands(text: str) -> list[str]:
    return [one for one in re.findall(r"`([^`]+)`", text) if one not in NO_COMMANDS]


def test_every_verdict_has_advice_and_no_other() -> None:
    assert [name for name in FIRST if ", " not in name] == list(ALL)
    assert {name.partition(", ")[0] for name in FIRST} == set(ALL)
    assert set(THEN) <= set(ALL)


@pytest.mark.parametrize("name", FIRST)
def test_it_begins_with_a_deed_and_has_a_command(name: str) -> None:
    text = first(name, **FILLED)
    assert text.split()[0].strip(",") in DEEDS
    assert text.endswith(".")
    assert commands(text)
    assert len(text.encode()) < MAX_HINT_BYTES - 64, "else there is no room for the paths"


@pytest.mark.parametrize("name", FIRST)
def test_its_commands_are_of_programs_that_are_known_and_a_shell_can_read_them(name: str) -> None:
    verdict = name.partition(", ")[0]
    for command in commands(first(name, **FILLED)) + commands(then(verdict, "sidecar cancel 01a2")):
        subprocess.run(["sh", "-n", "-c", command], check=True)
        for part in command.split(" | "):
            assert shlex.split(part)[0] in EVERYWHERE | OF_UTIL_LINUX | PERHAPS
    assert not PERHAPS - set(re.findall(r"[a-z-]+", PAGE.read_text())), "the page says what may have to be installed"


@pytest.mark.parametrize("name", FIRST)
def test_nothing_that_is_known_is_left_open(name: str) -> None:
    for program in (None, "python3.11", "java", "node", "make"):
        assert not OPEN.search(first(name, program, **FILLED))


@pytest.mark.parametrize("verdict", ALL)
def test_a_running_commands_pid_and_id_are_filled_in(verdict: str) -> None:
    found = {"verdict": verdict, "pid": 4711, "commandId": "01a2", "leaf": {"pid": 4712, "program": "psql"}}
    told = " ".join(advice(found))
    assert not re.search(r"\bPID\b", told)
    if verdict != "output_held":
        assert "`sidecar cancel 01a2`" in told
    else:
        assert "`kill 4712`" in told
    assert "`sidecar cancel" not in " ".join(advice({"verdict": verdict, "pid": 4711})), "`sidecar why` has no id"


def test_what_the_look_suggests_comes_first() -> None:
    told = advice({"verdict": "stopped", "pid": 7, "commandId": "01a2", "hint": "Do this."})
    assert told == ["Do this.", "If nobody needs it: `sidecar cancel 01a2`."]


def test_what_is_stopped_ends_by_no_signal_but_kill() -> None:
    assert "`kill -KILL 7`" in advice({"verdict": "stopped", "pid": 7})[1]
    assert "`kill 7`" in advice({"verdict": "sleeping", "pid": 7})[1]


def test_a_verdict_of_a_newer_supervisor_gets_that_of_unknown() -> None:
    assert advice({"verdict": "quantum_wait", "pid": 7})[0] == first("unknown", pid=7)


def test_the_tool_fits_the_program() -> None:
    assert "`py-spy dump --pid 7`" in first("deadlock_suspected", "python3.11", pid=7)
    assert "`jcmd 7 Thread.print`" in first("internal_wait", "java", pid=7)
    assert "`gdb -p 7 " in first("event_idle", "postgres", pid=7)


@pytest.mark.parametrize("text", ["/a b", "it's", "$(reboot)", "`reboot`", "", "a;b", "/sys/fs/cgroup/a-b_c:1/x", "-é"])
def test_a_quoted_name_is_one_word_of_a_shell(text: str) -> None:
    said = subprocess.run(["sh", "-c", f"printf %s {quoted(text)}"], capture_output=True, text=True, check=True)
    assert said.stdout == text


def test_what_cannot_be_pasted_is_no_word() -> None:
    assert quoted("/a\nreboot") == quoted("/a\x1b[2K") == ""
    assert "MOUNTPOINT" in first("filesystem_wait", mount=quoted("/a\nb"))


def test_nothing_of_a_name_looks_like_a_command() -> None:
    assert "`reboot`" not in first("ipc_wait, with a peer", peer="`reboot`[7]", peer_pid=7)


def test_the_page_is_made_from_the_table() -> None:
    page = PAGE.read_text()
    assert with_advice(page) == page, "python -m tests.verdicts.matrix --render"
    assert page.count("\n| `") >= len(ALL)
