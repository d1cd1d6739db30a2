"""Every signal that can be passed on, to the supervisor's pid and to its group, bare and wrapped, over pipes and in a
terminal: the command hears it exactly once, ignores it, or dies of it, and so does the supervisor."""

import os
import select
import signal
import subprocess
import time
from collections.abc import Callable

import pytest
from supervised import WAIT_S, Installation, on_linux, until

pytestmark = on_linux
# All but those that cannot be caught, those that mean the receiver itself is broken, and those with a meaning of their
# own to a supervisor: CHLD, and job control, which test_supervisor_jobs.py has.
APART = {"KILL", "STOP", "CHLD", "CONT", "TSTP", "TTIN", "TTOU", "PIPE", "XFSZ"} | {
    "SEGV", "BUS", "FPE", "ILL", "ABRT", "TRAP", "SYS",
}  # fmt: skip
NAMES = sorted({one.name[3:] for one in signal.Signals} - APART - {"CLD", "IOT", "POLL"})
HARMLESS = {"WINCH", "URG"}
MODES = {"pipe": ("--no-pty",), "pty": ("--pty",)}
# Says "ready", counts what it hears for as long as it is told to, and then says how often.
LISTENER = """
import os, signal, sys
how, number = sys.argv[1], int(sys.argv[2])
heard = 0
def hear(*_):
    global heard
    heard += 1
    os.write(1, b"heard\\n")
def end(*_):
    os.write(1, b"in all %d\\n" % heard)
    os._exit(5)
signal.signal(signal.SIGRTMIN + 1, end)
signal.signal(number, {"handles": hear, "ignores": signal.SIG_IGN, "dies": signal.SIG_DFL}[how])
os.write(1, b"ready\\n")
while True: signal.pause()
"""
SENDERS: dict[str, Callable[[int, int], None]] = {"pid": os.kill, "group": os.killpg}


class Heard:
    """The output of a listener, line by line, as it comes."""

    def __init__(self, child: "subprocess.Popen[bytes]") -> None:
        assert child.stdout is not None
        self._descriptor = child.stdout.fileno()
        self.text = b""

    def until(self, text: bytes) -> None:
        deadline_s = time.monotonic() + WAIT_S
        while text not in self.text:
            assert select.select([self._descriptor], [], [], max(0, deadline_s - time.monotonic()))[0], self.text
            chunk = os.read(self._descriptor, 65536)
            assert chunk, self.text
            self.text += chunk.replace(b"\r\n", b"\n")

    def rest(self) -> bytes:
        while select.select([self._descriptor], [], [], WAIT_S)[0]:
            try:
                chunk = os.read(self._descriptor, 65536)
            except OSError:
                break
            if not chunk:
                break
            self.text += chunk.replace(b"\r\n", b"\n")
        return self.text


def has_canary(supervisor: int) -> bool:
    """Whether the process is there by which a signal to the group is told from one to the pid."""
    try:
        with open(f"/proc/{supervisor}/task/{supervisor}/children") as file:
            for pid in file.read().split():
                with open(f"/proc/{pid}/status") as status:
                    fields = dict(line.split(":", 1) for line in status)
                if int(fields["SigBlk"], 16) >> 62 & 1 and os.getpgid(int(pid)) == os.getpgid(supervisor):
                    return not int(fields["ShdPnd"], 16) and not os.listdir(f"/proc/{pid}/fd")
    except OSError:
        pass
    return False


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("to", SENDERS)
@pytest.mark.parametrize("name", NAMES)
def test_a_handler_hears_it_once(sidecar: Installation, name: str, to: str, mode: str) -> None:
    number = getattr(signal, f"SIG{name}")
    words = ("python3", "-S", "-c", LISTENER, "handles", str(int(number)))
    with sidecar.started(*words, flags=(*MODES[mode], "--kill-after", "60s")) as child:
        heard = Heard(child)
        heard.until(b"ready\n")
        until(lambda: has_canary(child.pid))
        SENDERS[to](child.pid, number)
        heard.until(b"heard\n")
        # A second one would be delivered before this, which is sent behind it by the same way.
        os.kill(child.pid, signal.SIGRTMIN + 1)
        assert heard.rest() == b"ready\nheard\nin all 1\n"
        assert child.wait(WAIT_S) == 5


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("to", SENDERS)
@pytest.mark.parametrize("name", NAMES)
def test_one_that_dies_of_it_takes_the_supervisor_along(sidecar: Installation, name: str, to: str, mode: str) -> None:
    number = getattr(signal, f"SIG{name}")
    words = ("python3", "-S", "-c", LISTENER, "dies", str(int(number)))
    with sidecar.started(*words, flags=MODES[mode]) as child:
        heard = Heard(child)
        heard.until(b"ready\n")
        until(lambda: has_canary(child.pid))
        SENDERS[to](child.pid, number)
        if name in HARMLESS:
            os.kill(child.pid, signal.SIGRTMIN + 1)
            assert child.wait(WAIT_S) == 5
        else:
            assert child.wait(WAIT_S) == -number


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("to", SENDERS)
@pytest.mark.parametrize("name", [name for name in NAMES if name != "TERM"])
def test_one_that_ignores_it_lives_on(sidecar: Installation, name: str, to: str, mode: str) -> None:
    number = getattr(signal, f"SIG{name}")
    words = ("python3", "-S", "-c", LISTENER, "ignores", str(int(number)))
    with sidecar.started(*words, flags=MODES[mode]) as child:
        heard = Heard(child)
        heard.until(b"ready\n")
        SENDERS[to](child.pid, number)
        os.kill(child.pid, signal.SIGRTMIN + 1)
        assert heard.rest() == b"ready\nin all 0\n"
        assert child.wait(WAIT_S) == 5
