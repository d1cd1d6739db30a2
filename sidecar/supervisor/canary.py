"""Was a signal sent to our pid alone, or to the whole process group, the command included?

kill(2) does not tell its receiver. So a canary sits in the group: a process of ours with every signal blocked
and nothing to do. What was sent to the group stays pending in it, for us to read in proc(5). The kernel signals
the members that joined last first, so the canary has the signal when we get ours.

It holds no descriptor, dies with us (parent-death signal), and is replaced once something is pending in it.

There is no way back: what was sent before the canary was made cannot be told apart any more, since nothing in the
command's own state says what it has handled already.
"""

import _signal
import posix

from sidecar.detach import close_all_but
from sidecar.supervisor import libc
from sidecar.supervisor.signals import JOB_STOPS, SIGCONT, SIGKILL

_CONT = 1 << (SIGCONT - 1)
_STOPS = sum(1 << (number - 1) for number in JOB_STOPS)
"""As masks. The later voids the earlier, as in the kernel (signal(7))."""


class Canary:
    """`pid` is the canary's, 0 where there is none: then no signal was ever seen."""

    def __init__(self) -> None:
        self.pid = _hatch()
        self._seen = 0  # as a mask: what came to the group, and was not asked for yet

    def saw(self, number: int) -> bool:
        """Whether signal `number` was sent to the group, not counting what was said before.

        A canary that has seen something is replaced. Its successor is there before it is read for the last time, so
        that what comes meanwhile is seen by one of the two.
        """
        self._look()
        bit = 1 << (number - 1)
        seen = bool(self._seen & bit)
        self._seen &= ~bit
        return seen

    def holds(self, numbers: tuple[int, ...]) -> bool:
        """Whether one of the signals came to the group that was not asked for yet. Call it behind `saw`."""
        return any(self._seen >> (number - 1) & 1 for number in numbers)

    def forget(self, numbers: tuple[int, ...]) -> None:
        """What came of these so far is over and done with."""
        self._look()
        for number in numbers:
            self._seen &= ~(1 << (number - 1))

    def _look(self) -> None:
        if self.pid and _pending(self.pid):
            successor = _hatch()
            came = _pending(self.pid)
            if came & _STOPS:
                self._seen &= ~_CONT
            if came & _CONT:
                self._seen &= ~_STOPS
            self._seen |= came
            self.end()
            self.pid = successor

    def end(self) -> None:
        if not self.pid:
            return
        try:
            posix.kill(self.pid, SIGKILL)
            posix.waitpid(self.pid, 0)
        except OSError:
            pass  # somebody else has killed it, and the loop has reaped it
        self.pid = 0


def _hatch() -> int:
    parent_pid = posix.getpid()
    try:
        pid = posix.fork()
    except OSError:
        return 0
    if pid:
        return pid
    try:
        libc.die_with_parent(SIGKILL)
        _signal.pthread_sigmask(_signal.SIG_BLOCK, _signal.valid_signals())
        close_all_but(())
        while posix.getppid() == parent_pid:
            _signal.pause()
    finally:
        posix._exit(0)


def _pending(pid: int) -> int:
    """The signals pending for the process, as a mask (bit 0 is signal 1)."""
    try:
        with open(f"/proc/{pid}/status", "rb") as file:
            for line in file:
                if line.startswith(b"ShdPnd:"):
                    return int(line.split()[1], 16)
    except (OSError, ValueError):
        pass
    return 0
