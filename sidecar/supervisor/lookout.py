"""A pair of looks at a time, beside the loop: on a thread of this process.

It has to be this process, because where Yama's ptrace_scope is 1 only an ancestor may read what a process waits for
(Documentation/admin-guide/LSM/Yama.rst); and a thread, because a look takes a second, and on a bad day longer. The
thread never decides anything: its result is taken in the loop, which is woken through a descriptor. Signals are blocked
in it, as they were in the thread that made it. When we leave it is not waited for.
"""

import _thread
import posix
import sys

TYPE_CHECKING = False  # typing.TYPE_CHECKING, without the 7 ms of importing typing
if TYPE_CHECKING:
    from sidecar.core.finding import Verdict
    from sidecar.supervisor.pair import Watch

_SWITCH_S = 0.0005
"""How long the thread may hold the interpreter when the loop wants it: a tenth of Python's default."""


class Asked:
    """What a pair is to be: so long between its looks, so many samples; and what only the supervisor knows.

    `exit_status`: of the direct child, once it has exited. `stopped_by`: the signal that it is stopped by, which /proc
    forgets when we are told of it. `is_blocked`: the agent does not take the output.
    """

    __slots__ = ("excluded", "exit_status", "is_blocked", "samples", "seconds", "stopped_by")

    def __init__(
        self,
        seconds: float,
        samples: int,
        excluded: "frozenset[int]",
        *,
        exit_status: int | None,
        stopped_by: int | None,
        is_blocked: bool,
    ) -> None:
        self.seconds = seconds
        self.samples = samples
        self.excluded = excluded
        self.exit_status = exit_status
        self.stopped_by = stopped_by
        self.is_blocked = is_blocked


class _AbandonedError(Exception):
    """The pair is wanted no more."""


class Lookout:
    """One pair in flight at most; `busy_since_ns` is when it began, None while there is none.

    Poll `descriptor`; when it is readable call `take`. Raises OSError where no pipe is to be had.
    """

    def __init__(self, pid: int, terminal: int | None) -> None:
        self.descriptor, self._writer = posix.pipe()
        posix.set_blocking(self.descriptor, False)
        posix.set_blocking(self._writer, False)
        self.busy_since_ns: int | None = None
        self.failure: str | None = None
        """Why the last pair came to nothing, if it failed."""
        self._pid = pid
        self._supervisor_pid = posix.getpid()
        self._terminal = terminal
        self._watch: Watch | None = None
        self._verdict: Verdict | None = None
        self._abandon = _thread.allocate_lock()
        sys.setswitchinterval(_SWITCH_S)

    def begin(self, asked: Asked, now_ns: int) -> bool:
        """False: there can be no thread (`failure` says why)."""
        self._abandon = abandon = _thread.allocate_lock()
        abandon.acquire()
        self._verdict = self.failure = None
        try:
            _thread.start_new_thread(self._run, (asked, abandon))
        except RuntimeError as error:
            self.failure = str(error)
            return False
        self.busy_since_ns = now_ns
        return True

    def abandon(self) -> None:
        """End the pair in flight as soon as can be; `take` will give None for it."""
        if self.busy_since_ns is not None and self._abandon.locked():
            self._abandon.release()

    def take(self) -> "Verdict | None":
        """What the pair found, that has ended; None: nothing."""
        try:
            posix.read(self.descriptor, 64)
        except OSError:
            return None
        self.busy_since_ns = None
        return self._verdict

    def _run(self, asked: Asked, abandon: "_thread.LockType") -> None:
        def wait(seconds: float) -> None:
            if abandon.acquire(timeout=seconds):
                raise _AbandonedError

        try:
            from sidecar.supervisor.pair import Watch

            if self._watch is None:
                self._watch = Watch(self._pid, self._supervisor_pid, self._terminal)
            self._verdict = self._watch.pair(asked, wait)
        except _AbandonedError:
            pass
        except BaseException as error:  # noqa: BLE001 - a process may look like anything; its supervisor never pays for it
            self.failure = f"{type(error).__name__}: {error}"
        finally:
            posix.write(self._writer, b"\0")
