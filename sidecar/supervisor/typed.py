"""Keys that were typed for somebody else: before the command, for it; while it ran, for who reads after it.

Bare, there is one terminal, with one queue of what was typed. Here there are two, so what lies in one is moved to the
other, at the start and at the end, without being echoed again.
"""

import fcntl
import os
import select
import sys
import termios
import time

TYPE_CHECKING = False  # typing.TYPE_CHECKING, without the 7 ms of importing typing
if TYPE_CHECKING:
    from typing import Any

_MAX_BYTES = 4096
"""What a terminal's queue holds (N_TTY_BUF_SIZE in the kernel's drivers/tty/n_tty.c)."""
_WORKED_OFF_MS = 20
_END_OF_FILE = b"\0"
"""How n_tty(4) keeps an end of file among lines: as a NUL, that is what it gives in raw mode."""


def lines_waiting(terminal: int, end_of_file: bytes) -> bytes:
    """Whole lines typed before our time, as keys. Read while the terminal still gives whole lines: in raw mode a
    waiting end of file would come out as a NUL."""
    typed = b""
    while len(typed) < _MAX_BYTES and is_readable(terminal):
        line = os.read(terminal, _MAX_BYTES)
        typed += line or end_of_file
        if not line:
            break
    return typed


def rest_waiting(terminal: int) -> bytes:
    """What else was typed, a line that was begun say. For a terminal that has just been made raw."""
    waiting = bytes_waiting(terminal)
    return os.read(terminal, waiting) if waiting else b""


def give_unechoed(master: int, slave: int, typed: bytes) -> None:
    """Give the command keys that were echoed when they were typed, by the agent's terminal.

    So the command's is made not to echo until it has worked them off, which the kernel does in a thread of its own,
    within some ms, or when somebody polls an empty terminal. Best before the command runs, which then finds all as it
    should be.
    """
    settings = termios.tcgetattr(slave)
    silent = [*settings]
    silent[3] &= ~termios.ECHO
    termios.tcsetattr(slave, termios.TCSANOW, silent)
    whole = bytes_waiting(slave) + typed.rfind(b"\n") + 1
    os.write(master, typed)
    for _ in range(_WORKED_OFF_MS):
        ready = is_readable(slave)
        if bytes_waiting(slave) >= whole and (ready or not whole):
            break
        time.sleep(0.001)
    if whole and not typed.endswith(b"\n"):
        time.sleep(0.001)  # a line that was only begun shows nowhere
    if termios.tcgetattr(slave)[3] == silent[3]:  # else the command has its own mind by now
        termios.tcsetattr(slave, termios.TCSANOW, settings)


def unread(slave: int) -> bytes:
    """What the command's terminal has that nobody has read, as keys; the command has ended."""
    settings = termios.tcgetattr(slave)
    raw = [*settings[:6], list(settings[6])]
    raw[3] &= ~(termios.ICANON | termios.ECHO)
    raw[6][termios.VMIN], raw[6][termios.VTIME] = 0, 0
    termios.tcsetattr(slave, termios.TCSANOW, raw)
    found = rest_waiting(slave)
    termios.tcsetattr(slave, termios.TCSANOW, settings)
    if settings[3] & termios.ICANON:
        found = found.replace(_END_OF_FILE, settings[6][termios.VEOF])
    return found


def type_again(terminal: int, keys: bytes, settings: "list[Any]") -> None:
    """Put `keys` in front of what waits in the agent's terminal, which is raw; it shall have `settings` afterwards.

    By TIOCSTI (ioctl_tty(2)), for our own controlling terminal only. Raises OSError where the kernel does not allow it
    (from Linux 6.2 on without the sysctl dev.tty.legacy_tiocsti); nothing is changed then.
    """
    fcntl.ioctl(terminal, termios.TIOCSTI, keys[:1])
    # It is allowed, and now lies behind what was typed since, and is not processed yet.
    before, _, after = rest_waiting(terminal).rpartition(keys[:1])
    later = before + after
    keys += later.replace(b"\r", b"\n") if settings[0] & termios.ICRNL else later
    plain = [*settings[:6], [b"\0"] * len(settings[6])]
    plain[0] &= ~(termios.ISTRIP | termios.INLCR | termios.IGNCR | termios.ICRNL | termios.IXON)
    plain[3] &= ~(termios.ECHO | termios.ECHONL | termios.ISIG | termios.IEXTEN)
    plain[6][termios.VEOF] = settings[6][termios.VEOF]
    termios.tcsetattr(terminal, termios.TCSANOW, plain)
    for key in keys:
        fcntl.ioctl(terminal, termios.TIOCSTI, bytes((key,)))


def is_readable(descriptor: int) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(0))


def bytes_waiting(descriptor: int) -> int:
    """In a terminal or a pipe, to be read (FIONREAD of ioctl_tty(2) and pipe(7))."""
    return int.from_bytes(fcntl.ioctl(descriptor, termios.FIONREAD, bytes(4)), sys.byteorder)
