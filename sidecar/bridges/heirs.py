"""Who is left of the agent when a signal to it alone has killed it: what a launcher had no time to tell.

A launcher that waits for the real agent in a call that blocks (Qwen Code's does) dies of a SIGTERM before it can pass
it on, and the real agent runs on, its command too, where nobody finds them. They get the signal then, as they would
have got one to the process group. An agent that handles the signal has dealt with its own, and is not touched.
"""

import os
import signal

from sidecar.supervisor import tree

_ENDING = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)


class Heirs:
    """Of one agent. Nobody is found where there is no /proc or no pidfd_open(2) (Linux 5.3)."""

    def __init__(self) -> None:
        self._numbers: set[int] = set()
        self._handles: dict[int, int] = {}

    def before(self, number: int, agent_pid: int) -> None:
        """The agent is to get this signal: who is below it, and in our process group, which is the agent's, too."""
        if number not in _ENDING:
            return
        self._numbers.add(number)
        below = tree.descendants(agent_pid)
        elsewhere = set(tree.outside_group(below))
        for pid in below:
            if pid not in elsewhere and pid not in self._handles:
                try:
                    self._handles[pid] = os.pidfd_open(pid)  # it stays this process, whatever becomes of its pid
                except (AttributeError, OSError):
                    continue

    def after(self, returncode: int) -> None:
        """The agent has ended: `returncode` as subprocess has it. Those that are there still get what it died of."""
        if -returncode in self._numbers:
            for handle in self._handles.values():
                try:
                    signal.pidfd_send_signal(handle, -returncode)
                except OSError:
                    continue
        for handle in self._handles.values():
            os.close(handle)
        self._numbers, self._handles = set(), {}
