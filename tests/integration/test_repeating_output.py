"""Output that flows and says nothing new: a spinner and a clock are looked at like a silence, and never beat.

Ten seconds of it are wanted, whatever the interval; so each test takes twenty, and they run side by side where they can.
"""

import contextlib
import sys
from typing import Any

from supervised import Installation, on_linux
from verdict_watch import Watched, watched

pytestmark = on_linux
INTERVAL = ("--heartbeat-interval", "1s")
WITHIN_S = 40.0
SPINNER = r"""while :; do for c in - "\\" "|" /; do printf "\r%s" "$c"; sleep .2; done; done"""
WRITES = "import itertools, time\ndef say(text): print(text, end='', flush=True)\n"
CLOCK = WRITES + "for n in itertools.count(): say(f'\\rwaiting {n / 2:.1f} s'); time.sleep(.5)"
ENDING = WRITES + (
    "for n in range(100): say('\\r' + '-/'[n % 2]); time.sleep(.2)\n"
    "for n in itertools.count(): say(f'made object {n * n}\\n'); time.sleep(.2)"
)
PERCENT = WRITES + "for n in itertools.count(): say(f'\\r{n * 0.7:.1f} %'); time.sleep(.2)"
LOG = WRITES + "for n in itertools.count(): say(f'{hash(str(n))} opened\\n'); time.sleep(.1)"
BUILD = WRITES + (
    "for n in itertools.count():\n for c in '-/|': say('\\r' + c); time.sleep(.1)\n say(f'\\rcc -c {hash(str(n))}.c\\n')"
)
FLOOD = "while 1: print('the same line, again and again')"


def beats(command: Watched) -> list[dict[str, Any]]:
    return [frame for frame in command.frames if "_meta" in frame]


def test_a_spinner_for_ever(sidecar: Installation) -> None:
    with watched(sidecar, "bash", "-c", SPINNER, flags=INTERVAL) as command:
        found = command.verdict(within_s=WITHIN_S)
        assert found["verdict"] in ("sleeping", "polling")
        assert found["progress"] is False
        assert found["elapsedMs"] >= 10_000
        assert any("output repeats itself: a spinner for 1" in fact for fact in found["evidence"])
        listed = command.listed()
        assert (listed["verdict"], listed["repeats"], listed["silent"]) == (found["verdict"], True, False)
        command.process.terminate()
        settled = command.until(lambda frame: frame.get("type") == "command_settled")
        assert settled["heartbeatCount"] == 0
        assert not beats(command)


def test_a_clock_and_its_age_in_the_list(sidecar: Installation) -> None:
    with watched(sidecar, sys.executable, "-c", CLOCK, flags=INTERVAL) as command:
        found = command.verdict(within_s=WITHIN_S)
        assert found["verdict"] in ("sleeping", "polling")
        assert found["progress"] is False
        assert any("output is a clock, for 1" in fact for fact in found["evidence"])
        first = command.listed()["sinceMs"]
        while command.listed()["sinceMs"] < first + 3000:  # several frames of activity came since
            pass
        assert not beats(command)


def test_new_lines_end_it(sidecar: Installation) -> None:
    with watched(sidecar, sys.executable, "-c", ENDING, flags=INTERVAL) as command:
        found = command.verdict(within_s=WITHIN_S)
        assert any("a spinner" in fact for fact in found["evidence"])
        assert found["elapsedMs"] < 20_000
        while (listed := command.listed()).get("repeats") or "verdict" in listed:
            assert listed["elapsedMs"] < 30_000, "new lines since the 20th second"
        assert listed["elapsedMs"] >= 20_000
        assert not beats(command)


def test_a_rule_may_act_on_it(sidecar: Installation) -> None:
    flags = (*INTERVAL, "--on-verdict", "waiting:2s=cancel")
    with watched(sidecar, "bash", "-c", SPINNER, flags=flags) as command:
        settled = command.until(lambda frame: frame.get("type") == "command_settled", WITHIN_S)
        assert settled["stop"]["askedBy"] == "verdict"
        assert settled["stop"]["evidence"].startswith(("polling for", "sleeping for"))
        assert settled["elapsedMs"] >= 10_000


def test_what_says_something_new_has_no_verdict(sidecar: Installation) -> None:
    programs = [PERCENT, LOG, BUILD, FLOOD]
    with contextlib.ExitStack() as stack:
        commands = [
            stack.enter_context(watched(sidecar, sys.executable, "-c", program, flags=INTERVAL))
            for program in programs
        ]
        while min(command.listed()["elapsedMs"] for command in commands) < 25_000:
            for command in commands:
                listed = command.listed()
                assert "verdict" not in listed
                assert "repeats" not in listed
        for command in commands:
            command.process.terminate()
            command.until(lambda frame: frame.get("type") == "command_settled")
            assert not any(frame.get("type") == "verdict" for frame in command.frames)
