"""The PTY between the agent's terminal and the command's.

The command's terminal starts as a copy of the agent's (settings and size), or as the system's default with
80x24 where the agent has none. The agent's own terminal is put into raw mode while we relay its keys, and
put back as it was, so that ^C, ^Z and echo are the business of the command's terminal alone.
"""

import os

TYPE_CHECKING = False  # typing.TYPE_CHECKING, without the 7 ms of importing typing
if TYPE_CHECKING:
    from sidecar.supervisor.companions import Companions

_TYPED_AHEAD_BYTES = 4096
_WORKED_OFF_MS = 20
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
        self._saved: list[object] | None = None
        self._agent_shows = os.isatty(1)
        self._uncooked = False
        self._given: list[object] | None = None
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
        os.close(self.slave)

    @property
    def has_keys(self) -> bool:
        """The agent's terminal is in raw mode, its keys ours to relay."""
        return self._saved is not None

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
            if fcntl.ioctl(self.master, termios.TIOCGWINSZ, bytes(8)) == size:
                return False
            fcntl.ioctl(self.master, termios.TIOCSWINSZ, size)
        except OSError:
            return False
        return True

    def take_keys(self) -> None:
        """Raw mode on the agent's terminal, if we are its foreground group: then its keys are ours to relay."""
        import termios

        if not self.reads_keys or self._saved is not None or not self.in_foreground():
            return
        try:
            # A shell that edits its own line has its terminal raw while it starts a job behind it.
            self._copy_settings()
            settings = termios.tcgetattr(0)
            self.take_typed_ahead()
            raw = [*settings[:6], list(settings[6])]
            raw[0] &= ~(
                termios.BRKINT | termios.ICRNL | termios.INPCK | termios.ISTRIP | termios.IXON
                | termios.INLCR | termios.IGNCR
            )  # fmt: skip
            raw[1] &= ~termios.OPOST
            raw[3] &= ~(termios.ECHO | termios.ICANON | termios.IEXTEN | termios.ISIG)
            raw[6][termios.VMIN], raw[6][termios.VTIME] = 1, 0
            termios.tcsetattr(0, termios.TCSANOW, raw)
        except (OSError, termios.error):
            return
        self._saved = settings
        self._cook(True)

    def take_typed_ahead(self) -> None:
        """Give the command what was typed before our time, in whole lines.

        It was echoed when it was typed, by the agent's terminal; so the command's is made not to echo until it has
        worked that off, which the kernel does in a thread of its own, within some ms. Best before the command runs,
        which then finds all as it should be.
        """
        import fcntl
        import termios
        import time

        if not self.reads_keys or not self.in_foreground():
            return
        try:
            agent = termios.tcgetattr(0)
            typed = _lines_typed(agent[6][termios.VEOF]) if agent[3] & termios.ICANON else b""
            if not typed:
                return
            settings = termios.tcgetattr(self.slave)
            silent = [*settings]
            silent[3] &= ~termios.ECHO
            termios.tcsetattr(self.slave, termios.TCSANOW, silent)
            os.write(self.master, typed)
            for _ in range(_WORKED_OFF_MS):
                waiting = int.from_bytes(fcntl.ioctl(self.slave, termios.FIONREAD, bytes(4)), "little")
                if waiting >= typed.rfind(b"\n") + 1 and _is_readable(self.slave):
                    break
                time.sleep(0.001)
            if termios.tcgetattr(self.slave)[3] == silent[3]:  # else the command has its own mind by now
                termios.tcsetattr(self.slave, termios.TCSANOW, settings)
        except (OSError, termios.error):
            return

    def give_back(self) -> None:
        """The agent's terminal as it was."""
        import termios

        if self._saved is None:
            return
        try:
            termios.tcsetattr(0, termios.TCSANOW, self._saved)  # type: ignore[arg-type]  # what tcgetattr gave
        except (OSError, termios.error):
            pass
        self._saved = None
        self._cook(False)

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


def _lines_typed(end_of_file: bytes) -> bytes:
    """What was typed before our time, as keys. Read while the terminal still gives whole lines: in raw mode a
    waiting end of file would come out as a NUL."""
    typed = b""
    while len(typed) < _TYPED_AHEAD_BYTES and _is_readable(0):
        line = os.read(0, _TYPED_AHEAD_BYTES)
        typed += line or end_of_file
        if not line:
            break
    return typed


def _is_readable(descriptor: int) -> bool:
    import select

    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(0))
