"""The PTY between the agent's terminal and the command's.

The command's terminal starts as a copy of the agent's (settings and size), or as the system's default with
80x24 where the agent has none. The agent's own terminal is put into raw mode while we relay its keys, and
put back as it was, so that ^C, ^Z and echo are the business of the command's terminal alone.
"""

import os

TYPE_CHECKING = False  # typing.TYPE_CHECKING, without the 7 ms of importing typing
if TYPE_CHECKING:
    from typing import Any

    from sidecar.supervisor.companions import Companions

_DEFAULT_SIZE = (24 << 0 | 80 << 16).to_bytes(8, "little")


class Terminal:
    """`master` is ours, `slave` the command's.

    We hold the slave side open too, until the command has exited (`command_exited`). A command may close its own
    and open /dev/tty later; and one that closed it is still alive, when an end of file on the master side would
    have us close that, and the hang-up would kill it.

    `agent` is the agent's terminal that we read keys from and copy settings of: fd 0 or 1, or None. `companions` are
    there once the command runs, where it is our controlling terminal, so that there may be job control.
    Raises OSError where no PTY can be had.
    """

    def __init__(self) -> None:
        self.agent = next((fd for fd in (0, 1) if os.isatty(fd)), None)
        self.reads_keys = os.isatty(0)
        self.master, self.slave = os.openpty()
        self.companions: Companions | None = None
        self._report = self._reporter = -1
        self._supervisor_pid = os.getpid()
        self._saved: list[Any] | None = None
        self._now: list[Any] | None = None
        self._size = self._size_now = b""
        self.is_over = False
        self._unread = b""
        self._agent_shows = os.isatty(1)
        self._uncooked = False
        self._given: list[Any] | None = None
        self._copy_settings()
        if not (self.reads_keys and self.in_foreground()):
            self._cook(False)
        self.copy_size()
        if self._is_controlling() and (os.getsid(0) != self._supervisor_pid or _has_companions(self._supervisor_pid)):
            self._report, self._reporter = os.pipe()

    def enter(self) -> None:
        """In the child: a session of its own with this terminal, in front of it if we are in front of the agent's."""
        import fcntl
        import termios

        is_behind = not self.in_foreground()
        os.setsid()
        fcntl.ioctl(self.slave, termios.TIOCSCTTY, 0)
        if self._report >= 0:
            from sidecar.supervisor.companions import make

            holder = make(self._reporter, self._supervisor_pid)
            if holder and is_behind:
                os.tcsetpgrp(self.slave, holder)

    def command_runs(self) -> None:
        """The exec has succeeded."""
        if self._report >= 0:
            from sidecar.supervisor.companions import Companions

            os.close(self._reporter)
            self.companions = Companions(self._report)

    def in_foreground(self) -> bool:
        """Whether we are the foreground of the agent's terminal; also where that is none of our session's."""
        if self.agent is None:
            return True
        try:
            return os.tcgetpgrp(self.agent) == os.getpgrp()
        except OSError:
            return True

    def follow_foreground(self, command_pid: int) -> None:
        """Put the command in front of its terminal, or behind it, as we are with the agent's."""
        if self.companions is not None:
            self.companions.set_foreground(self.master, command_pid, command=self.in_foreground())

    def groups(self, command_pid: int) -> set[int]:
        """The process groups that a signal to the agent's terminal or our group is meant for."""
        groups = {command_pid}
        try:
            groups.add(os.tcgetpgrp(self.master))
        except OSError:
            pass
        return groups - {0, *(() if self.companions is None else self.companions.pids)}

    def command_exited(self) -> None:
        """From here on the master side gives its end of file when nobody else holds the slave side."""
        import termios

        try:
            self._look_at_the_commands()
            if self.has_keys:
                from sidecar.supervisor.typed import unread

                self._unread = unread(self.slave)
        except (OSError, termios.error):
            pass  # hung up
        self.is_over = True
        os.close(self.slave)

    def withdraw(self) -> None:
        """There is no command: it could not be started."""
        self.command_exited()
        self.give_back()

    def not_taken(self, keys: bytes) -> None:
        """Keys that did not get as far as the command's terminal before the command had ended."""
        import termios

        if self._now is not None and self._now[0] & termios.ICRNL:
            keys = keys.replace(b"\r", b"\n")
        self._unread += keys

    @property
    def has_keys(self) -> bool:
        """The agent's terminal is in raw mode and its keys are ours to relay, which ends with the command."""
        return self._saved is not None and not self.is_over

    def copy_size(self) -> bool:
        """Give the command's terminal the agent's size (TIOCGWINSZ, ioctl_tty(2)).

        True = it is another one than before, and the kernel tells the command.
        """
        import fcntl
        import termios

        size = _DEFAULT_SIZE
        if self.agent is not None:
            try:
                size = fcntl.ioctl(self.agent, termios.TIOCGWINSZ, bytes(8))
            except OSError:
                return False
        try:
            self._size = size
            if fcntl.ioctl(self.master, termios.TIOCGWINSZ, bytes(8)) == size:
                return False
            fcntl.ioctl(self.master, termios.TIOCSWINSZ, size)
        except OSError:
            return False
        return True

    def take_keys(self) -> None:
        """Raw mode on the agent's terminal, if we are its foreground group: its keys are ours to relay then.

        What was typed before is given to the command."""
        import termios

        from sidecar.supervisor.typed import give_unechoed, lines_waiting, rest_waiting

        if not self.reads_keys or self._saved is not None or not self.in_foreground():
            return
        try:
            # A shell that edits its own line has its terminal raw while it starts a job behind it.
            self._copy_settings()
            settings = termios.tcgetattr(0)
            typed = lines_waiting(0, settings[6][termios.VEOF]) if settings[3] & termios.ICANON else b""
            raw = [*settings[:6], list(settings[6])]
            raw[0] &= ~(
                termios.BRKINT | termios.ICRNL | termios.INPCK | termios.ISTRIP | termios.IXON
                | termios.INLCR | termios.IGNCR
            )  # fmt: skip
            raw[1] &= ~termios.OPOST
            raw[3] &= ~(termios.ECHO | termios.ICANON | termios.IEXTEN | termios.ISIG)
            raw[6][termios.VMIN], raw[6][termios.VTIME] = 1, 0
            termios.tcsetattr(0, termios.TCSANOW, raw)
            self._saved = settings
            typed += rest_waiting(0)
            if typed:
                give_unechoed(self.master, self.slave, typed)
        except (OSError, termios.error):
            if self._saved is None:
                return
        self._cook(True)

    def give_back(self) -> None:
        """The agent's terminal as it was, but for what the command has changed of its own, which it would have changed
        of that. What was typed and nobody has read is there again for who reads next, where the kernel allows it."""
        if self._saved is None:
            if not self.reads_keys and self.agent is not None and self.in_foreground():
                self._hand_on(self.agent, None)
            return
        settings, self._saved = self._saved, None
        self._hand_on(0, settings)
        self._cook(False)

    def _hand_on(self, agent: int, saved: "list[Any] | None") -> None:
        import fcntl
        import termios

        settings = saved
        try:
            if not self.is_over:
                self._look_at_the_commands()
            settings = saved or termios.tcgetattr(agent)
            if self._given is not None and self._now is not None:
                settings = _changed(settings, self._given, self._now)
            if self._unread:
                self._type_again(agent, settings)
            if saved or settings != termios.tcgetattr(agent):
                termios.tcsetattr(agent, termios.TCSANOW, settings)
            if self._size and self._size_now not in (b"", self._size):
                fcntl.ioctl(agent, termios.TIOCSWINSZ, self._size_now)
        except (OSError, termios.error):
            return

    def _look_at_the_commands(self) -> None:
        """Settings and size of the command's terminal, while it is there."""
        import fcntl
        import termios

        self._now = termios.tcgetattr(self.slave)
        self._size_now = fcntl.ioctl(self.slave, termios.TIOCGWINSZ, bytes(8))

    def _type_again(self, agent: int, settings: "list[Any]") -> None:
        from sidecar.supervisor.typed import type_again

        keys, self._unread = self._unread, b""
        try:
            type_again(agent, keys, settings)
        except OSError:
            return  # the kernel does not allow it: they are gone

    def _cook(self, cooked: bool) -> None:
        """Output is processed once (a newline becomes CR NL, say): by the command's terminal while the agent's is raw,
        else by the agent's alone. A command that has switched it off itself is let alone."""
        import termios

        if not self._agent_shows:
            return
        try:
            settings = termios.tcgetattr(self.slave)
            is_ours = settings == self._given
            if cooked and self._uncooked:
                settings[1] |= termios.OPOST
            elif not cooked and settings[1] & termios.OPOST:
                settings[1] &= ~termios.OPOST
            else:
                return
            termios.tcsetattr(self.slave, termios.TCSANOW, settings)
            if is_ours:
                self._given = termios.tcgetattr(self.slave)
        except (OSError, termios.error):
            return
        self._uncooked = not cooked

    def _is_controlling(self) -> bool:
        """Whether the agent's terminal is that of our session."""
        if self.agent is None:
            return False
        try:
            return os.tcgetpgrp(self.agent) > 0
        except OSError:
            return False

    def _copy_settings(self) -> None:
        """The agent's settings, unless the command has changed those that it was given."""
        import termios

        if self.agent is None:
            return
        try:
            if self._given not in (None, termios.tcgetattr(self.slave)):
                return
            termios.tcsetattr(self.slave, termios.TCSANOW, termios.tcgetattr(self.agent))
            self._given, self._uncooked = termios.tcgetattr(self.slave), False
        except (OSError, termios.error):
            return


def _changed(settings: "list[Any]", given: "list[Any]", now: "list[Any]") -> "list[Any]":
    """`settings` with each flag, speed and key that is another one in `now` than in `given` (all as of tcgetattr)."""
    flags = [old & ~(was ^ new) | new & (was ^ new) for old, was, new in zip(settings[:4], given, now, strict=False)]
    speeds = [new if new != was else old for old, was, new in zip(settings[4:6], given[4:], now[4:], strict=False)]
    keys = [new if new != was else old for old, was, new in zip(settings[6], given[6], now[6], strict=True)]
    return [*flags, *speeds, keys]


def _has_companions(pid: int, proc: str = "/proc") -> bool:
    """Whether we, a session's leader, were started by a supervisor: then its companions make us a job, and stoppable.

    Any other leader's group is an orphan, which no terminal can stop: nobody of its session is its parent's. The holder
    is a child of that supervisor, as we are.
    """
    parent = os.getppid()
    try:
        with open(f"{proc}/{parent}/task/{parent}/children", "rb") as file:  # proc(5), CONFIG_PROC_CHILDREN
            siblings = [int(word) for word in file.read().split()]
    except (OSError, ValueError):
        return False
    for sibling in siblings:
        try:
            if sibling != pid and os.getsid(sibling) == pid:
                return True
        except OSError:
            continue
    return False
