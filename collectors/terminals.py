"""The command's terminal: does it echo, does it wait for a line, who is in the foreground, does it take
output? termios(3), ioctl_tty(2).

Cost: 10 microseconds. Privilege: a descriptor of the terminal (the supervisor has one), or the right to open it.
Cannot see: None. This is the only evidence of a prompt of a program that runs as somebody else.
"""

import termios

from collectors.kernel import Kernel
from sidecar.core.evidence import Process, Terminal, terminal_path


def read_terminal(kernel: Kernel, descriptor: int | None, processes: list[Process]) -> Terminal | None:
    """From `descriptor` (either side of a PTY), else by opening the terminal that a process of the tree controls."""
    name = next((path for process in processes if (path := terminal_path(process.terminal))), "")
    if descriptor is None and not name:
        return None
    found = kernel.terminal(descriptor, name)
    if found is None:
        return None
    flags, foreground_group, takes_output = found
    return Terminal(name, bool(flags & termios.ECHO), bool(flags & termios.ICANON), foreground_group, takes_output)
