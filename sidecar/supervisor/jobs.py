"""Job control: when the command is stopped by its terminal we stop with it, and go on with it.

The agent's shell sees us, not the command. So where a SIGTSTP, SIGTTIN or SIGTTOU stopped the command, we give the
terminal back and stop by the same signal; continued, we take the terminal again, and continue the command. On its own
terminal the command is stopped alone, while bare the whole group is: so with one our group is sent the signal.

SIGSTOP is not followed: it is no key, and who sends it to the command alone means the command alone. Nor is any stop
where there is no job control: no signal of the kind came to us, and we have no controlling terminal.
"""

import _signal
import posix
import select

from sidecar.core.lifecycle import RUNNING
from sidecar.supervisor.signals import JOB_STOPS, SIGCONT, SIGTSTP, signal_name

TYPE_CHECKING = False  # typing.TYPE_CHECKING, without the 7 ms of importing typing
if TYPE_CHECKING:
    from sidecar.supervisor.child import Child
    from sidecar.supervisor.loop import Loop
    from sidecar.supervisor.relay import Channel
    from sidecar.supervisor.terminal import Terminal

_LAST_CHUNKS = 64
_LOOK_EVERY_NS = 1_000_000_000


class Jobs:
    """`deadline_ns` is when `look` wants to be called, None = never."""

    def __init__(self, loop: "Loop", child: "Child", terminal: "Terminal | None") -> None:
        self._loop = loop
        self._child = child
        self._terminal = terminal
        self._told_to_stop = False
        self._holds_command = False
        """With a terminal: the command is stopped, and to be continued by us when we are."""
        self.times_stopped = 0
        self.deadline_ns: int | None = None
        if terminal is not None and terminal.reads_keys and not terminal.has_keys:
            self.deadline_ns = 0

    def told_to_stop(self, number: int) -> None:
        """A job-control stop came to us, and the command has it."""
        if self._holds_command:
            # It voided the SIGCONT that came before it and that we had not read: the command is stopped as it was.
            self._stop(number)
            return
        self._told_to_stop = True
        self.child_changed()

    def child_changed(self) -> None:
        """The direct child may have been stopped."""
        stopped_by = self._child.stopped_by
        if stopped_by not in JOB_STOPS or not (self._told_to_stop or _has_controlling_terminal()):
            return
        self._child.stopped_by = None
        self._told_to_stop = False
        if self._loop.lifecycle.state != RUNNING:
            return  # it is being stopped for good: who waits for the end must not be left with a suspended job
        terminal = self._terminal
        if terminal is not None and stopped_by != SIGTSTP and terminal.in_foreground():
            # It wanted its terminal while it was behind it; by now we have come to the front.
            self.take_terminal()
            self._continue_command()
            return
        _relay_what_is_there(self._loop.channels, self._loop.clock_ns())
        self._stop(stopped_by)

    def _stop(self, number: int) -> None:
        """Stop as the command is stopped, until we are continued."""
        terminal = self._terminal
        if terminal is not None:
            terminal.give_back()
            self._holds_command = True
        self._loop.silence.suspended(signal_name(number), self._loop.clock_ns())
        began_ns = self._loop.clock_ns()
        was_stopped = self._stop_by(number)
        self.times_stopped += 1
        if self._child.canary is not None:
            self._child.canary.forget(JOB_STOPS)  # or the SIGCONT that is read next would be taken for one before them
        self._loop.was_suspended(self._loop.clock_ns() - began_ns)
        if terminal is None or was_stopped:
            return  # what came meanwhile is to be read next: SIGCONT, or another stop
        # An orphaned process group cannot be stopped, and bare the command could not either.
        self.take_terminal()
        if terminal.companions is not None and not terminal.in_foreground():
            # Nobody can bring us to the front: bare it would be refused its terminal, here it waits for a key.
            terminal.companions.set_foreground(terminal.master, self._child.pid, command=True)
            terminal.companions.end()
        self._continue_command()

    def _stop_by(self, number: int) -> bool:
        """Stop by signal `number`: this process, or with a terminal its group. Returns when it is continued, True then,
        and False where the kernel did not stop it.

        What continued it is pending then: SIGCONT is among the signals that we block, and so is a stop that came after
        it. A signal of ours voids a SIGCONT that is pending, so for one that came too early it is looked before, and
        over pipes, where the command has it too, once more before the signal of ours takes effect.
        """
        if SIGCONT in _signal.sigpending():
            return True
        before = _signal.signal(number, _signal.SIG_DFL)
        posix.kill(posix.getpid() if self._terminal is None else 0, number)
        if self._terminal is None and self._child.goes_on():
            _signal.signal(number, _signal.SIG_IGN)  # the kernel then forgets the one that is pending
        mask = _signal.pthread_sigmask(_signal.SIG_UNBLOCK, [number])
        _signal.pthread_sigmask(_signal.SIG_SETMASK, mask)
        _signal.signal(number, before)
        return not _signal.sigpending().isdisjoint((SIGCONT, *JOB_STOPS))

    def continued(self) -> None:
        """SIGCONT came to us. First the terminal, then the command that is to find it."""
        if self._terminal is not None:
            self.take_terminal()
            self._terminal.copy_size()
            self._continue_command()

    def look(self, now_ns: int) -> None:
        """A shell that brings a running job to the front sends it no signal."""
        self.take_terminal()
        terminal = self._terminal
        waits = terminal is not None and terminal.reads_keys and not terminal.has_keys
        self.deadline_ns = now_ns + _LOOK_EVERY_NS if waits else None

    def take_terminal(self) -> None:
        """The agent's keys, and the front of the command's terminal, if we are in front of the agent's."""
        if self._terminal is not None:
            self._terminal.take_keys()
            self._terminal.follow_foreground(self._child.pid)
            if self._terminal.reads_keys and not self._terminal.has_keys:
                self.deadline_ns = self._loop.clock_ns() + _LOOK_EVERY_NS

    def _continue_command(self) -> None:
        self._holds_command = False
        if self._terminal is not None and self._child.status is None:
            for group in self._terminal.groups(self._child.pid):
                self._child.send_to_group(group, SIGCONT)


def _relay_what_is_there(channels: "list[Channel]", now_ns: int) -> None:
    """What the command wrote before it was stopped belongs before the shell's next prompt."""
    for channel in channels:
        poll = select.poll()
        for _ in range(_LAST_CHUNKS):
            if not channel.wants_read:
                break
            poll.register(channel.source, select.POLLIN)
            if not poll.poll(0) or not channel.pump(now_ns):
                break


def _has_controlling_terminal() -> bool:
    try:
        posix.close(posix.open("/dev/tty", posix.O_RDONLY | posix.O_NOCTTY | posix.O_NONBLOCK | posix.O_CLOEXEC))
    except OSError:
        return False
    return True
