"""Output that flows and says nothing new: a spinner and a clock are looked at like a silence, and never beat.

Ten seconds of it are wanted, whatever the interval; so all commands start at once, and each test looks at its own.
"""

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from supervised import Installation, on_linux, until
from verdict_watch import Watched, watched

pytestmark = on_linux
INTERVAL = ("--heartbeat-interval", "8s")  # a busy machine holds up a talking command for a second or two
WITHIN_S = 60.0
SPINNER = r"""while :; do for c in - "\\" "|" /; do printf "\r%s" "$c"; sleep .2; done; done"""
# The same numbers each time: what takes 24 s once takes them always.
WRITES = "import itertools, random, time\nrandom.seed(1)\ndef say(text): print(text, end='', flush=True)\n"
CLOCK = "for n in itertools.count(): say(f'\\rwaiting {n / 2:.1f} s'); time.sleep(.5)"
BUSY = (
    "for n in itertools.count():\n"
    " say('\\r' + '-/'[n % 2]); began = time.monotonic()\n"
    " while time.monotonic() < began + .2: pass"
)
ENDING = (
    "import os\n"
    "for n in itertools.count():\n"
    " say('\\r' + '-/'[n % 2]); time.sleep(.2)\n"
    " if os.path.exists({news!r}): break\n"
    "for n in itertools.count(): say(f'made object {{n * n}}\\n'); time.sleep(.2)"
)
NEWS = {
    "a percentage": "for n in range(125): say(f'\\r{n * 0.7:.1f} %'); time.sleep(.2)",
    "one percent a second": "for n in range(50): say(f'\\r[{n // 2:3d}%]'); time.sleep(.5)",
    "one test a second": "for n in range(50): say(f'\\rtest {n // 2} of 900'); time.sleep(.5)",
    "a bar": "for n in range(125): say('\\r[' + '#' * n + ' ' * (125 - n) + ']'); time.sleep(.2)",
    "a bar and a clock": "for n in range(125): say(f'\\r[{\"#\" * (n // 3):40}] {n // 5} s'); time.sleep(.2)",
    "a log": "for n in range(250): say(f'{random.random()} opened\\n'); time.sleep(.1)",
    "numbers at random": (
        "for n in range(85):\n"
        " say(f'worker {random.randrange(8)} is done\\n'); time.sleep(random.choice((.05, .2, .6)))"
    ),
    "dots of tests": "for n in range(85): say('.'); time.sleep(random.choice((.05, .2, .6)))",
    "an access log": (
        "for n in range(85): say(time.strftime('[%H:%M:%S] GET / 200\\n')); time.sleep(random.choice((.05, .2, .6)))"
    ),
    "a spinner between news": (
        "for n in range(80):\n"
        " for c in '-/|': say('\\r' + c); time.sleep(.1)\n"
        " say(f'\\rcc -c {hash(str(n))}.c\\n')"
    ),
    "a flood": "for n in range(250): say('the same line, again and again\\n' * 4000); time.sleep(.1)",
}


def is_beat(frame: dict[str, Any]) -> bool:
    return "_meta" in frame


def is_settled(frame: dict[str, Any]) -> bool:
    return frame.get("type") == "command_settled"


@pytest.fixture(scope="module")
def news(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Once it is there, the spinner that ends has something new to say."""
    return tmp_path_factory.mktemp("news") / "there are some"


@pytest.fixture(scope="module")
def commands(sidecar: Installation, news: Path) -> Iterator[dict[str, Watched]]:
    python = {"a clock": CLOCK, "a busy spinner": BUSY, "ending": ENDING.format(news=str(news)), **NEWS}
    lines = {name: (sys.executable, "-c", WRITES + code) for name, code in python.items()}
    with contextlib.ExitStack() as stack:
        reader = stack.enter_context(subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL))

        def start(*words: str, rule: tuple[str, ...] = ()) -> Watched:
            flags = (*INTERVAL, *rule)
            return stack.enter_context(watched(sidecar, *words, flags=flags, stdout=reader.stdin))

        started = {name: start(*words) for name, words in lines.items()}
        started["a spinner"] = start("bash", "-c", SPINNER)
        started["with a rule"] = start("bash", "-c", SPINNER, rule=("--on-verdict", "waiting:2s=cancel"))
        yield started


def test_a_spinner_for_ever(commands: dict[str, Watched]) -> None:
    command = commands["a spinner"]
    found = command.verdict("sleeping", "polling", within_s=WITHIN_S)
    assert found["progress"] is False
    assert found["elapsedMs"] >= 10_000
    assert any("output repeats itself: a spinner for " in fact for fact in found["evidence"])
    listed = command.listed()
    assert (listed["verdict"], listed["repeats"], listed["silent"]) == (found["verdict"], True, False)
    command.process.terminate()
    settled = command.until(is_settled)
    assert settled["heartbeatCount"] == 0
    assert not any(map(is_beat, command.frames))


def test_what_draws_a_spinner_and_works_makes_progress(commands: dict[str, Watched]) -> None:
    found = commands["a busy spinner"].verdict("computing", "cpu_starved", within_s=WITHIN_S)
    assert found["progress"] is True
    assert any("a spinner" in fact for fact in found["evidence"])


def test_a_rule_may_act_on_it(commands: dict[str, Watched]) -> None:
    settled = commands["with a rule"].until(is_settled, WITHIN_S)
    assert settled["stop"]["askedBy"] == "verdict"
    assert settled["stop"]["evidence"].startswith(("polling for", "sleeping for"))
    assert settled["elapsedMs"] >= 10_000


def test_new_lines_end_it(commands: dict[str, Watched], news: Path) -> None:
    command = commands["ending"]
    found = command.verdict(within_s=WITHIN_S)
    assert any("a spinner" in fact for fact in found["evidence"])
    news.touch()
    until(lambda: not command.listed().keys() & {"repeats", "verdict"})
    assert not any(map(is_beat, command.frames))


def test_a_clock_and_its_age_in_the_list(commands: dict[str, Watched]) -> None:
    command = commands["a clock"]
    found = command.verdict("sleeping", "polling", within_s=WITHIN_S)
    assert found["progress"] is False
    assert any("output is a clock, for " in fact for fact in found["evidence"])
    first_ms = command.listed()["sinceMs"]
    until(lambda: command.listed()["sinceMs"] > first_ms + 3000)  # several frames of activity came since
    assert not any(map(is_beat, command.frames))


@pytest.mark.parametrize("name", NEWS)
def test_what_says_something_new_has_no_verdict(commands: dict[str, Watched], name: str) -> None:
    command = commands[name]
    settled = command.until(is_settled, WITHIN_S)
    assert (settled["reason"], settled["exitCode"]) == ("exited", 0)
    assert settled["elapsedMs"] > 20_000, "a spinner would have had its verdict"
    assert not any(frame.get("type") == "verdict" for frame in command.frames)
