"""The pictures in docs/screens, made from the real program: `sidecar top` as text, the web page by Chromium.

    python tests/e2e/screens.py            makes them anew, and puts the text into docs/operating.md

Real commands, some of them in trouble on purpose; ages differ from run to run, and nothing else should.
"""

import fcntl
import json
import os
import re
import select
import signal
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from browser import Browser
from installed import SCRIPT, Sidecar

SCREENS = Path(__file__).parents[2] / "docs" / "screens"
PAGE = SCREENS.parent / "operating.md"
SHOWN_ON_PAGE = re.compile(r"(?<=<!-- screen: top\.txt -->\n```\n).*?(?=^```$)", re.MULTILINE | re.DOTALL)
WAIT_S = 90.0

TALKS = "i=0; while :; do i=$((i + 1)); echo line $i; sleep 0.2; done"
FIRST_TALKS = """
import time
for step in range(8):
    print("step", step, flush=True)
    time.sleep(0.25)
"""
"""So that a timeline shows all that it can: output, then a silence, then the verdict on it."""
DEADLOCK = """
import threading
first, second = threading.Lock(), threading.Lock()
def crosswise(one, other):
    with one:
        meet.wait()
        with other:
            pass
meet = threading.Barrier(2)
threads = [threading.Thread(target=crosswise, args=pair) for pair in ((first, second), (second, first))]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""
SHOWN = ("awaiting_input", "sleeping", "computing", "deadlock_suspected")
"""The verdicts that must be there before a picture is taken."""


def make(folder: Path, *, web: bool = True) -> list[Path]:
    """The pictures, in `folder`. Raises TimeoutError where the program does not come to show what it should."""
    folder.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as place, ExitStack() as stack:
        sidecar = stack.enter_context(Sidecar(Path(place), "http://127.0.0.1:9", interval_s=1.0, VERDICT_AFTER="500ms"))
        sidecar.start("sh", "-c", "exit 3").wait(WAIT_S)
        sidecar.start("sleep", "600", options=("--timeout", "2s")).wait(WAIT_S)
        until(lambda: len(json.loads(asked(sidecar, "history", "--json"))) == 2)
        for words, options in (
            (("sleep", "600"), ("--tool-call-id", "call_1")),
            (("python3", "-c", FIRST_TALKS + "while True: pass"), ("--tool-call-id", "call_2")),
            (("python3", "-c", FIRST_TALKS + DEADLOCK), ("--tool-call-id", "call_3")),
            (("sh", "-c", TALKS), ("--tool-call-id", "call_4")),
        ):
            sidecar.start(*words, options=options)
        stack.enter_context(prompt(sidecar))
        made = [folder / "top.txt"]
        made[0].write_text(top(sidecar), encoding="utf-8")
        if web:
            made.append(folder / "web.png")
            page(sidecar, made[1])
        return made


class prompt:  # noqa: N801 - used as a function
    """A command at a terminal that asks and gets no answer."""

    def __init__(self, sidecar: Sidecar) -> None:
        self._master, slave = os.openpty()
        self._process = subprocess.Popen(
            [SCRIPT, "run", "--tool-call-id", "call_5", "--", "python3", "-c", FIRST_TALKS + "input('Password: ')"],
            env=sidecar.environ,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(slave)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._master)


def asked(sidecar: Sidecar, *words: str) -> str:
    return subprocess.run([SCRIPT, *words], capture_output=True, text=True, env=sidecar.environ, check=True).stdout


def until(condition: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + WAIT_S
    while not condition():
        if time.monotonic() >= deadline_s:
            raise TimeoutError("what has ended does not come into the history")
        time.sleep(0.1)


def top(sidecar: Sidecar) -> str:
    """The picture on a terminal of 80 columns and 24 lines, without styles."""
    master, slave = os.openpty()
    termios.tcsetwinsize(slave, (24, 80))
    process = subprocess.Popen(
        [SCRIPT, "top", "--interval", "500ms"],
        env={**sidecar.environ, "TERM": "xterm", "LANG": "C.UTF-8"},
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
    )
    drawn = b""
    deadline_s = time.monotonic() + WAIT_S
    try:
        while time.monotonic() < deadline_s:
            if select.select([master], [], [], 0.1)[0]:
                drawn += os.read(master, 65536)
            whole = [part for part in drawn.split(b"\x1b[H") if part.endswith(b"\x1b[K\x1b[J")]
            text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", whole[-1].decode()) if whole else ""
            # Bars for its output need some looks.
            if all(verdict in text for verdict in SHOWN) and len(whole) > 15:
                lines = text.replace("\r", "").split("\n")
                return "\n".join(line.rstrip() for line in lines) + "\n"
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(WAIT_S)
        os.close(master)
        os.close(slave)
    raise TimeoutError(f"sidecar top shows only\n{text}")


def page(sidecar: Sidecar, path: Path) -> None:
    with Browser(1200, 900) as browser:
        browser.open(asked(sidecar, "top", "--web").strip())
        browser.until(lambda: all(verdict in browser.text("#running") for verdict in SHOWN))
        browser.click("#running button")
        browser.until(lambda: "evidence" in browser.text("#running"))
        # How busy a command is needs two looks at it.
        browser.until(lambda: browser.text("#running").count("%\t") == len(SHOWN) + 1)
        browser.picture(path)


if __name__ == "__main__":
    for name in make(SCREENS):
        print(name, file=sys.stdout)
    text = (SCREENS / "top.txt").read_text(encoding="utf-8")
    PAGE.write_text(SHOWN_ON_PAGE.sub(lambda _: text, PAGE.read_text(encoding="utf-8")), encoding="utf-8")
