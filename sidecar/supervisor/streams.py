"""Which of the agent's streams stand between us and the command, and how: pipes, a terminal, or untouched.

- fd 0 is inherited in pipe mode, never pumped: a pump would eat the input of the loop around the command.
- fd 1 and fd 2 are relayed through one pipe where the agent had joined them (one open file), else through
  one each. A closed one stays closed.
- With a terminal, those that are terminals become the PTY's slave side.
- fd 2 that is a terminal while fd 1 is not (`cmd | less`) is left alone: isatty(2) must stay true.
"""

import posix

from sidecar.supervisor import libc

_S_IFMT, _S_IFREG = 0o170000, 0o100000


class Streams:
    """The plan. `pty`: make one. `relayed`: groups of descriptors that share one pipe; the first of a group is
    where its bytes go. `on_terminal`: descriptors that become the slave side."""

    __slots__ = ("on_terminal", "pty", "relayed")

    def __init__(self, pty: bool, relayed: list[tuple[int, ...]], on_terminal: tuple[int, ...]) -> None:
        self.pty = pty
        self.relayed = relayed
        self.on_terminal = on_terminal


def plan_streams(wanted_pty: bool | None) -> Streams:
    """Look at our own descriptors 0, 1, 2 and plan. `wanted_pty` None = as the agent's stdout is."""
    stdout_open, stderr_open = is_open(1), is_open(2)
    pty = (stdout_open and posix.isatty(1)) if wanted_pty is None else wanted_pty
    joined = stdout_open and stderr_open and _joined(1, 2)
    if pty:
        terminal = [1]
        if posix.isatty(0):
            terminal.insert(0, 0)
        if joined or posix.isatty(2) or not stderr_open:
            terminal += [2] if stderr_open else []
            return Streams(True, [], tuple(terminal))
        return Streams(True, [(2,)], tuple(terminal))
    if joined:
        return Streams(False, [(1, 2)], ())
    relayed: list[tuple[int, ...]] = [(1,)] if stdout_open else []
    if stderr_open and not (wanted_pty is None and posix.isatty(2)):
        relayed.append((2,))
    return Streams(False, relayed, ())


def plug_standard_descriptors() -> None:
    """Put /dev/null on each closed descriptor of 0, 1, 2, close-on-exec, so that no file of ours lands there.

    The command still finds them closed. Call it after `plan_streams`.
    """
    for descriptor in range(3):
        if not is_open(descriptor):
            try:
                opened = posix.open("/dev/null", posix.O_RDWR | posix.O_CLOEXEC)
            except OSError:
                opened, spare = posix.pipe()  # a file system without /dev/null: any file of ours will do
                if spare > 2:
                    posix.close(spare)
            if opened != descriptor:
                posix.close(opened)


def is_open(descriptor: int) -> bool:
    try:
        posix.fstat(descriptor)
    except OSError:
        return False
    return True


def _joined(fd_a: int, fd_b: int) -> bool:
    """Whether both are one open file, so that their order must be kept."""
    a, b = posix.fstat(fd_a), posix.fstat(fd_b)
    if (a.st_dev, a.st_ino, a.st_rdev) != (b.st_dev, b.st_ino, b.st_rdev):
        return False
    exact = libc.same_open_file(fd_a, fd_b)
    if exact is not None:
        return exact
    if a.st_mode & _S_IFMT != _S_IFREG:
        return True
    # Two opens of one regular file have an offset each; with the same offset they cannot be told apart here.
    return posix.lseek(fd_a, 0, 1) == posix.lseek(fd_b, 0, 1)
