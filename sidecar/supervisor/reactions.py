"""What is asked of us from outside, and what we do then: signals, and what the daemon passes on.

A signal to our pid goes on to the command; one that came to our whole group the command has already. SIGTERM is a
request to stop the tree. What comes once the command has ended by itself changes nothing but our patience.
"""

import posix

from sidecar.core.lifecycle import CANCEL, SIGNAL
from sidecar.supervisor.signals import (
    SI_KERNEL,
    SIGCHLD,
    SIGCONT,
    SIGHUP,
    SIGINT,
    SIGQUIT,
    SIGSTOP,
    SIGTERM,
    SIGTSTP,
    SIGTTIN,
    SIGTTOU,
    SIGWINCH,
    Received,
)

TYPE_CHECKING = False  # typing.TYPE_CHECKING, without the 7 ms of importing typing
if TYPE_CHECKING:
    from sidecar.supervisor.canary import Canary
    from sidecar.supervisor.child import Child
    from sidecar.supervisor.loop import Loop
    from sidecar.supervisor.requests import Requests
    from sidecar.supervisor.terminal import Terminal

_JOB_STOPS = (SIGTSTP, SIGTTIN, SIGTTOU)
_USUAL_ENDS = (SIGHUP, SIGINT, SIGQUIT)


class Reactions:
    """`canary` is set once there is one. With `ignores_term` SIGTERM is no request to stop."""

    def __init__(self, loop: "Loop", child: "Child", terminal: "Terminal | None", *, ignores_term: bool) -> None:
        self._loop = loop
        self._child = child
        self._terminal = terminal
        self._ignores_term = ignores_term
        self.canary: Canary | None = None
        self._job_stop_seen = False
        self._requests: Requests | None = None

    def signal(self, received: Received) -> None:
        number = received.number
        if number == SIGCHLD:
            if not self._loop.reap():
                self._follow_job_stop()
            return
        for_group = self._terminal is None and self._came_to_the_group(received)
        if number == SIGWINCH and self._terminal is not None:
            self._terminal.copy_size()
        elif number == SIGTERM and not self._ignores_term:
            self._terminate(received, for_group=for_group)
        elif number in _JOB_STOPS and self._terminal is None:
            # The command has it already if it came from the terminal; when it stops, we follow.
            self._job_stop_seen = True
            if not for_group:
                self._child.send(number)
            self._follow_job_stop()
        elif self._child.status is not None and number in _USUAL_ENDS:
            self._loop.hurry()  # it would have ended the command, which is over: only its bytes are waited for
        elif not for_group:
            self._child.send(number)
        if number == SIGCONT and self._terminal is not None:
            self._terminal.take_keys()
            self._terminal.copy_size()

    def requests(self, data: bytes, command_id: str) -> None:
        """The daemon said something: somebody asks for a stop (`sidecar cancel`)."""
        from sidecar.supervisor.requests import Requests, text_of

        if self._requests is None:
            self._requests = Requests(command_id)
        for request in self._requests.feed(data):
            if request.get("request") == "cancel" and not self._loop.ended_by_itself():
                self._loop.stop("cancelled", text_of(request, "askedBy") or CANCEL, text_of(request, "evidence"))

    def _came_to_the_group(self, received: Received) -> bool:
        """The command, which is of our group, got it too."""
        seen = self.canary is not None and self.canary.saw(received.number)
        return seen or received.code == SI_KERNEL

    def _terminate(self, received: Received, *, for_group: bool) -> None:
        """SIGTERM came: the whole tree gets it once, and KILL when it comes again."""
        if self._loop.ended_by_itself(SIGTERM, or_by_any=for_group):
            return
        from sidecar.supervisor.stopping import sender_words

        evidence = sender_words("SIGTERM", received.sender_pid)
        if not self._loop.stop("cancelled", SIGNAL, evidence, but_group=for_group) and not for_group:
            self._child.send(SIGTERM)

    def _follow_job_stop(self) -> None:
        """Where a job-control stop came to us and stopped the command, the agent's shell must see us stopped."""
        stopped_by = self._child.stopped_by
        if stopped_by is None or not self._job_stop_seen or stopped_by not in _JOB_STOPS:
            return
        self._child.stopped_by = None
        self._job_stop_seen = False
        posix.kill(posix.getpid(), SIGSTOP)
