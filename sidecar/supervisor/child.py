"""The direct child and what belongs to it: reaping, signalling, stopping the whole tree."""

import posix
import time

from sidecar.supervisor.signals import SIGCONT, SIGKILL, SIGTERM, signal_name

TYPE_CHECKING = False  # typing.TYPE_CHECKING, without the 7 ms of importing typing
if TYPE_CHECKING:
    from sidecar.core.frame_line import Json
    from sidecar.supervisor.canary import Canary

_MS_PER_S = 1000
_USAGE_FROM_NS = 50_000_000
"""A command of less is not asked for its resource usage: wait4 imports `resource`, 0.2 ms."""


class Child:
    """The command's direct child. `status` is its wait status once it was reaped (waitpid(2)), else None.

    `has_more` is False once the kernel says that we have no child at all, so no descendant either. `continued`:
    it was, since this was last set to False. `canary` and
    `companions` (pids) are processes of ours that are none of the tree.
    """

    def __init__(self, pid: int, proc: str = "/proc") -> None:
        self.pid = pid
        self.status: int | None = None
        self.stopped_by: int | None = None
        self.has_more = True
        self.canary: Canary | None = None
        self.companions: tuple[int, ...] = ()
        self.continued = False
        self._usage: object = None
        self._started_ns = time.monotonic_ns()
        self._proc = proc

    def reap(self) -> bool:
        """Reap everything that ended (as a subreaper we also get orphans). True = the direct child was among it."""
        before = self.status
        while True:
            try:
                pid, status, usage = self._wait()
            except ChildProcessError:
                self.has_more = False
                break
            if pid == 0:
                break
            if pid != self.pid:
                continue
            if posix.WIFSTOPPED(status):
                self.stopped_by = posix.WSTOPSIG(status)
            elif posix.WIFCONTINUED(status):
                self.stopped_by = None
                self.continued = True
            else:
                self.status, self._usage = status, usage
        return before is None and self.status is not None

    def _wait(self) -> "tuple[int, int, object]":
        flags = posix.WNOHANG | posix.WUNTRACED | posix.WCONTINUED
        if time.monotonic_ns() - self._started_ns < _USAGE_FROM_NS:
            return (*posix.waitpid(-1, flags), None)
        return posix.wait4(-1, flags)

    def goes_on(self) -> bool:
        """Whether it was continued, or has ended, since it was last reaped as stopped. Nothing is reaped."""
        try:
            changed = posix.waitid(
                posix.P_PID,
                self.pid,
                posix.WEXITED | posix.WSTOPPED | posix.WCONTINUED | posix.WNOHANG | posix.WNOWAIT,
            )
        except OSError:
            return True
        return changed is not None and changed.si_code != posix.CLD_STOPPED

    def send(self, number: int) -> None:
        """A signal to the direct child, if it is still there."""
        if self.status is None:
            try:
                posix.kill(self.pid, number)
            except OSError:
                return

    def send_to_group(self, group: int, number: int) -> None:
        """A signal to a process group of the command's session, while the command is there."""
        if self.status is None:
            try:
                posix.killpg(group, number)
            except OSError:
                return

    def others(self) -> list[int]:
        """Living members of the tree without the direct child."""
        from sidecar.supervisor import tree

        ours = self.not_of_the_tree
        return [pid for pid in tree.descendants(posix.getpid(), self._proc) if pid != self.pid and pid not in ours]

    @property
    def not_of_the_tree(self) -> set[int]:
        """Descendants of ours that are helpers of ours, and no part of the command."""
        return {*self.companions, *(() if self.canary is None else (self.canary.pid,))}

    def terminate(self, *, but_group: bool) -> int:
        """TERM to the whole tree; CONT behind it, since a stopped process would not see it.

        `but_group`: our own process group has had its TERM. Returns how many processes have got it.
        """
        from sidecar.supervisor import tree

        everyone = self._everyone()
        outside = tree.outside_group(everyone) if but_group else everyone
        reached = tree.signal_all(outside, SIGTERM) + len(everyone) - len(outside)
        tree.signal_all(everyone, SIGCONT)
        return reached

    def kill(self) -> int:
        """KILL to whatever is left, again until nobody new was born meanwhile (at most ten rounds).

        Returns to how many processes it went.
        """
        from sidecar.supervisor import tree

        killed: set[int] = set()
        for _ in range(10):
            new = [pid for pid in self._everyone() if pid not in killed]
            if not tree.signal_all(new, SIGKILL):
                break
            killed.update(new)
        return len(killed)

    def survivors(self) -> list[str]:
        """What of the tree is still there, in words."""
        from sidecar.supervisor import tree

        return [tree.in_words(pid, self._proc) for pid in self._everyone()]

    def _everyone(self) -> list[int]:
        direct = [self.pid] if self.status is None else []
        return direct + self.others()

    def end_facts(self) -> "dict[str, Json]":
        """exitCode or signal, and the resource usage of the child and what it had waited for (getrusage(2))."""
        facts: dict[str, Json] = {}
        if self.status is not None:
            if posix.WIFSIGNALED(self.status):
                facts["signal"] = signal_name(posix.WTERMSIG(self.status))
            else:
                facts["exitCode"] = posix.WEXITSTATUS(self.status)
        usage = self._usage
        if usage is not None:
            scale = 1 if posix.uname().sysname == "Darwin" else 1024
            facts["maxRssBytes"] = int(usage.ru_maxrss) * scale  # type: ignore[attr-defined]  # struct_rusage
            facts["cpuUserMs"] = int(usage.ru_utime * _MS_PER_S)  # type: ignore[attr-defined]  # struct_rusage
            facts["cpuSystemMs"] = int(usage.ru_stime * _MS_PER_S)  # type: ignore[attr-defined]  # struct_rusage
        return facts
