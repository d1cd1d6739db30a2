"""Two processes that make job control work on the command's own terminal.

The command leads a session of its own, and its parent (us) is in another. POSIX calls its process group orphaned, and
the kernel then drops SIGTSTP, SIGTTIN and SIGTTOU: nobody could continue what they stop. But we can. A group is no
orphan while one of its members has a parent in another group of the same session. So there are

    the holder    a group of its own in the command's session. While we are in the background, its group is the
                  foreground of the command's terminal, so that a command that reads gets SIGTTIN, as bare.
    the member    its child, in the command's group, for the rule above. It does nothing at all.

Both block every signal, hold no descriptor and no folder, and die with us. They are made by the command's process
before its exec, since a session can only be joined by being born into it; a go-between that exits at once makes the
holder our child (we are a subreaper), so that the command has no child that it did not make.
"""

import _signal
import posix

from sidecar.detach import close_all_but
from sidecar.supervisor import libc
from sidecar.supervisor.signals import SIGCHLD, SIGKILL

_TO_COMMAND, _TO_HOLDER = int(_signal.SIGUSR1), int(_signal.SIGUSR2)
_YIELDS = 20_000
"""How often a change of the foreground is looked for before it is given up: some 10 ms of our own time."""


class Companions:
    """The supervisor's side. `pids` are the two, () where there are none (they could not be made)."""

    def __init__(self, report: int) -> None:
        """`report` is the read end of the pipe that `make` writes to; it is closed. Call it after the exec."""
        try:
            posix.set_blocking(report, False)
            told = posix.read(report, 8)
        except OSError:
            told = b""
        posix.close(report)
        self.pids: tuple[int, ...] = ()
        if len(told) == 8:
            self.pids = (int.from_bytes(told[:4], "little"), int.from_bytes(told[4:], "little"))

    def set_foreground(self, master: int, group: int, *, command: bool) -> bool:
        """Make the command's group (`group`), or the holder's, the foreground of the terminal. False = in vain.

        Only a process of the session may do that: the holder does, and the terminal's master side shows it.
        """
        if not self.pids:
            return False
        wanted = group if command else self.pids[0]
        try:
            posix.kill(self.pids[0], _TO_COMMAND if command else _TO_HOLDER)
            for _ in range(_YIELDS):
                if posix.tcgetpgrp(master) == wanted:
                    return True
                posix.sched_yield()
        except OSError:
            pass
        return False

    def end(self) -> None:
        for pid in self.pids:
            try:
                posix.kill(pid, SIGKILL)
                posix.waitpid(pid, 0)
            except OSError:
                continue  # reaped already; the member is our child once the holder is gone
        self.pids = ()


def make(report: int, supervisor_pid: int) -> int:
    """In the child that will be the command, a session's leader with a terminal, every signal blocked.

    Writes the two pids to `report`. Returns the holder's, 0 where there is none: job control then does not work.
    """
    command_pid = posix.getpid()
    ready, is_ready = posix.pipe()
    try:
        between = posix.fork()
    except OSError:
        between = -1
    if between == 0:
        try:
            go_between_pid = posix.getpid()
            if posix.fork() == 0:
                _hold(command_pid, go_between_pid, supervisor_pid, (is_ready, report))
        finally:
            posix._exit(0)
    posix.close(is_ready)
    told = b""
    if between > 0:
        posix.waitpid(between, 0)
        # It must not be pending still when the command looks.
        handler = _signal.signal(SIGCHLD, _signal.SIG_IGN)
        _signal.signal(SIGCHLD, handler)
        told = posix.read(ready, 4)
    posix.close(ready)
    return int.from_bytes(told, "little")


def _hold(command_pid: int, go_between_pid: int, supervisor_pid: int, tell: tuple[int, ...]) -> None:
    """The holder. Does not return."""
    try:
        pid = posix.getpid()
        posix.setpgid(0, 0)
        member = posix.fork()
        if member == 0:
            _rest(pid)
        posix.setpgid(member, command_pid)
        while posix.getppid() == go_between_pid:
            posix.sched_yield()
        if posix.getppid() != supervisor_pid or not libc.die_with_parent(SIGKILL):
            posix.kill(member, SIGKILL)
            posix._exit(0)
        _signal.pthread_sigmask(_signal.SIG_BLOCK, _signal.valid_signals())
        both = pid.to_bytes(4, "little") + member.to_bytes(4, "little")
        for descriptor in tell:
            posix.write(descriptor, both)
        close_all_but(())
        posix.chdir("/")
        while posix.getppid() == supervisor_pid:
            asked = _signal.sigwait((_TO_COMMAND, _TO_HOLDER))
            _give_foreground(command_pid if asked == _TO_COMMAND else pid)
    finally:
        posix._exit(0)


def _rest(parent_pid: int) -> None:
    """The member. Does not return."""
    try:
        libc.die_with_parent(SIGKILL)
        _signal.pthread_sigmask(_signal.SIG_BLOCK, _signal.valid_signals())
        close_all_but(())
        posix.chdir("/")
        while posix.getppid() == parent_pid:
            _signal.pause()
    finally:
        posix._exit(0)


def _give_foreground(group: int) -> None:
    try:
        terminal = posix.open("/dev/tty", posix.O_RDWR | posix.O_CLOEXEC)
    except OSError:
        return  # the command has hung it up
    try:
        posix.tcsetpgrp(terminal, group)  # SIGTTOU is blocked here: tcsetpgrp(3) then works from the background too
    except OSError:
        pass
    finally:
        posix.close(terminal)
