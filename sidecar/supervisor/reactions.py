"""What is asked of us from outside, and what we do then: signals, and what the daemon passes on.

A signal to our pid goes on to the command; one that came to our whole group the command has already. SIGTERM is a
request to stop the tree. What comes once the command has ended by itself changes nothing but our patience.
"""

import _signal
import posix

from sidecar.core.lifecycle import CANCEL, SIGNAL, VERDICT
from sidecar.supervisor.signals import (
    JOB_STOPS,
    SI_KERNEL,
    SIGCHLD,
    SIGCONT,
    SIGHUP,
    SIGINT,
    SIGQUIT,
    SIGTERM,
    SIGWINCH,
    SIGXCPU,
    Received,
    SignalSource,
    voided_by,
)

TYPE_CHECKING = False  # typing.TYPE_CHECKING, without the 7 ms of importing typing
if TYPE_CHECKING:
    from sidecar.supervisor.canary import Canary
    from sidecar.supervisor.child import Child
    from sidecar.supervisor.jobs import Jobs
    from sidecar.supervisor.loop import Loop
    from sidecar.supervisor.requests import Requests
    from sidecar.supervisor.terminal import Terminal

_CANARY_AFTER_NS = 20_000_000
"""A command of less has hardly a handler yet, and is not worth a process that listens to its group."""
_PRELOAD_AFTER_NS = 1_000_000_000
_OF_TERMINALS = (SIGHUP, SIGINT, SIGQUIT, SIGCONT, SIGWINCH, *JOB_STOPS)
"""What the kernel itself sends to whole groups. Of its others SIGALRM is a timer's, for one process."""
_OF_KEYS = (SIGINT, SIGQUIT)
_USUAL_ENDS = (SIGHUP, SIGINT, SIGQUIT)


class Reactions:
    """`deadline_ns` (monotonic) is when `tick` wants to be called next, None = never."""

    def __init__(
        self, loop: "Loop", child: "Child", terminal: "Terminal | None", signals: "SignalSource", started_ns: int
    ) -> None:
        self._loop = loop
        self._child = child
        self._terminal = terminal
        self._ignores_term = signals.ignored_sigterm
        self._canary: Canary | None = None
        self._canary_at_ns = started_ns + _CANARY_AFTER_NS if signals.tells_sender else None
        self._preload_at_ns: int | None = started_ns + _PRELOAD_AFTER_NS
        self._requests: Requests | None = None
        self._jobs: Jobs | None = None
        if terminal is not None:
            self.jobs()

    def jobs(self) -> "Jobs":
        """Job control: made when it is needed first, which in pipe mode is seldom."""
        if self._jobs is None:
            from sidecar.supervisor.jobs import Jobs

            self._jobs = Jobs(self._loop, self._child, self._terminal)
        return self._jobs

    @property
    def deadline_ns(self) -> int | None:
        if self._canary_at_ns is not None:
            return self._canary_at_ns
        if self._preload_at_ns is not None:
            return self._preload_at_ns
        return None if self._jobs is None else self._jobs.deadline_ns

    def tick(self, now_ns: int) -> None:
        if self._canary_at_ns is not None and now_ns >= self._canary_at_ns:
            self._canary_at_ns = None
            if self._child.status is None:
                self._make_canary()
        if self._preload_at_ns is not None and now_ns >= self._preload_at_ns:
            self._preload_at_ns = None
            _preload()
        if self._jobs is not None and self._jobs.deadline_ns is not None and now_ns >= self._jobs.deadline_ns:
            self._jobs.look(now_ns)

    def signals(self, batch: list[Received]) -> None:
        """What came at once. A stop that we made and are back from voids those read before it, and of stops and SIGCONT
        the later voids the earlier, as in the kernel."""
        self._child.continued = False
        before = self._times_stopped
        for received in _not_voided(batch):
            if received.number in _OF_KEYS and received.sender_pid == posix.getpid():
                self._came_to_the_group(received)  # the command has it from its own terminal: Keys
            elif received.number not in JOB_STOPS or self._times_stopped == before:
                self.signal(received)

    @property
    def _times_stopped(self) -> int:
        return 0 if self._jobs is None else self._jobs.times_stopped

    def signal(self, received: Received) -> None:
        number = received.number
        if number == SIGCHLD:
            if not self._loop.reap() and self._child.stopped_by is not None:
                self.jobs().child_changed()
            return
        for_group = self._came_to_the_group(received)
        if number == SIGTERM and not self._ignores_term:
            self._terminate(received, for_group=for_group)
            return
        if self._child.status is not None:
            if number in _USUAL_ENDS:
                self._loop.hurry()  # it would have ended the command, which is over: only its bytes are waited for
            return
        if number == SIGWINCH and self._terminal is not None and self._terminal.copy_size():
            return  # the kernel tells the command
        if number == SIGXCPU and received.code == SI_KERNEL:
            return  # it is about the time that we have used ourselves
        if number == SIGCONT:
            self._loop.was_continued()
        if self._is_void(number):
            return
        if number == SIGCONT and self._terminal is not None:
            self.jobs().continued()  # it continues the command when its terminal is ready for it
            return
        self._pass_on(number, for_group=for_group)
        if number in JOB_STOPS:
            self.jobs().told_to_stop(number)

    def _make_canary(self) -> None:
        try:
            from sidecar.supervisor.canary import Canary
        except ImportError:
            return  # an upgrade has removed us: signals to the group are then passed on once too often
        self._canary = self._child.canary = Canary()

    def _pass_on(self, number: int, *, for_group: bool) -> None:
        if not for_group:
            self._child.send(number)
        elif self._terminal is not None:
            # The agent's group is not the command's: what would have reached all of it bare shall do so here.
            for group in self._terminal.groups(self._child.pid):
                self._child.send_to_group(group, number)

    def requests(self, data: bytes, command_id: str) -> None:
        """The daemon said something: somebody asks for a stop (`sidecar cancel`)."""
        from sidecar.supervisor.requests import Requests, text_of

        if self._requests is None:
            self._requests = Requests(command_id)
        for request in self._requests.feed(data):
            if request.get("request") == "cancel" and not self._loop.ended_by_itself():
                self._loop.stop("cancelled", text_of(request, "askedBy") or CANCEL, text_of(request, "evidence"))

    def limit_met(self, evidence: str) -> None:
        """A verdict has held for as long as a rule of --on-verdict allows. `evidence` says which, and why."""
        if not self._loop.ended_by_itself():
            self._loop.stop("cancelled", VERDICT, evidence)

    def _came_to_the_group(self, received: Received) -> bool:
        """Whether it was sent to our whole process group, which in pipe mode is the command's too."""
        seen = self._canary is not None and self._canary.saw(received.number)
        return seen or (received.code == SI_KERNEL and received.number in _OF_TERMINALS)

    def _is_void(self, number: int) -> bool:
        """Whether SIGCONT came after this stop, or a stop after this SIGCONT: the command has had them in that order.

        The canary has lost the first of the two by then, so that it would be taken for one that was sent to us alone.
        """
        later = voided_by(number)  # each voids the other
        if not later:
            return False
        return not _signal.sigpending().isdisjoint(later) or (self._canary is not None and self._canary.holds(later))

    def _terminate(self, received: Received, *, for_group: bool) -> None:
        """SIGTERM came: the whole tree gets it once, and KILL when it comes again."""
        if self._loop.ended_by_itself(SIGTERM, or_by_any=for_group):
            return
        from sidecar.supervisor.stopping import sender_words

        evidence = sender_words("SIGTERM", received.sender_pid)
        for_group = for_group and self._terminal is None
        if not self._loop.stop("cancelled", SIGNAL, evidence, but_group=for_group) and not for_group:
            self._child.send(SIGTERM)


def _not_voided(batch: list[Received]) -> list[Received]:
    """Without each stop that SIGCONT came after, and each SIGCONT that a stop came after (signal(7))."""
    left: list[Received] = []
    for received in batch:
        voided = voided_by(received.number)
        if voided:
            left = [earlier for earlier in left if earlier.number not in voided]
        left.append(received)
    return left


def _preload() -> None:
    """Load what a beat or a stop may need in some hours, when an upgrade may have removed it."""
    try:
        from sidecar.core import curation  # noqa: F401
        from sidecar.supervisor import jobs, requests, silence, stopping, tree  # noqa: F401
    except Exception:  # noqa: BLE001 - it has already, or there is no memory or descriptor: the command goes on without
        return
