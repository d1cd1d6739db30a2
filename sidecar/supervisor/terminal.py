"""The PTY between the agent's terminal and the command's.

The command's terminal starts as a copy of the agent's (settings and size), or as the system's default with
80x24 where the agent has none. The agent's own terminal is put into raw mode while we relay its keys, and
put back as it was, so that ^C, ^Z and echo are the business of the command's terminal alone.
"""

import os

_TYPED_AHEAD_BYTES = 4096
_DEFAULT_SIZE = (24 << 0 | 80 << 16).to_bytes(8, "little")


class Terminal:
    """`master` is ours, `slave` the command's.

    We hold the slave side open too, until the command has exited (`command_exited`). A command may close its own
    and open /dev/tty later; and one that closed it is still alive, when an end of file on the master side would
    have us close that, and the hang-up would kill it.

    `agent` is the agent's terminal that we read keys from and copy settings of: fd 0 or 1, or None.
    Raises OSError where no PTY can be had.
    """

    def __init__(self) -> None:
        self.agent = next((fd for fd in (0, 1) if os.isatty(fd)), None)
        self.reads_keys = os.isatty(0)
        self.master, self.slave = os.openpty()
        self.typed_ahead = b""
        self._saved: list[object] | None = None
        self._copy_settings()
        self.copy_size()

    def command_exited(self) -> None:
        """From here on the master side gives its end of file when nobody else holds the slave side."""
        os.close(self.slave)

    @property
    def has_keys(self) -> bool:
        """The agent's terminal is in raw mode, its keys ours to relay."""
        return self._saved is not None

    def copy_size(self) -> None:
        """Give the command's terminal the agent's size (TIOCGWINSZ, ioctl_tty(2)); the kernel tells the command."""
        import fcntl
        import termios

        size = _DEFAULT_SIZE
        if self.agent is not None:
            try:
                size = fcntl.ioctl(self.agent, termios.TIOCGWINSZ, bytes(8))
            except OSError:
                return
        try:
            fcntl.ioctl(self.master, termios.TIOCSWINSZ, size)
        except OSError:
            return

    def take_keys(self) -> None:
        """Raw mode on the agent's terminal, if we are its foreground group: then its keys are ours to relay."""
        import termios

        if not self.reads_keys or self._saved is not None:
            return
        try:
            if os.tcgetpgrp(0) != os.getpgrp():
                return
            settings = termios.tcgetattr(0)
            if settings[3] & termios.ICANON:
                self.typed_ahead += _lines_typed(settings[6][termios.VEOF])
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

    def _copy_settings(self) -> None:
        import termios

        if self.agent is None:
            return
        try:
            termios.tcsetattr(self.slave, termios.TCSANOW, termios.tcgetattr(self.agent))
        except (OSError, termios.error):
            return


def _lines_typed(end_of_file: bytes) -> bytes:
    """What was typed before our time, as keys. Read while the terminal still gives whole lines: in raw mode a
    waiting end of file would come out as a NUL."""
    import select

    poll = select.poll()
    poll.register(0, select.POLLIN)
    typed = b""
    while len(typed) < _TYPED_AHEAD_BYTES and poll.poll(0):
        line = os.read(0, _TYPED_AHEAD_BYTES)
        typed += line or end_of_file
        if not line:
            break
    return typed
