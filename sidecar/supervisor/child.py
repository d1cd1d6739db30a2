"""The direct child and what belongs to it: reaping, signalling, stopping the whole tree."""

import os

from sidecar.supervisor import tree
from sidecar.supervisor.signals import SIGCONT, SIGKILL, SIGTERM, signal_name

TYPE_CHECKING = False  # typing.TYPE_CHECKING, without the 7 ms of importing typing
if TYPE_CHECKING:
    from sidecar.core.frame import Json

_MS_PER_S = 1000


class Child:
    """The command's direct child. `status` is its wait status once it was reaped (waitpid(2)), else None."""

    def __init__(self, pid: int, proc: str = "/proc") -> None:
        self.pid = pid
        self.status: int | None = None
        self.stopped_by: int | None = None
        self._usage: object = None
        self._proc = proc

    def reap(self) -> bool:
        """Reap everything that ended (as a subreaper we also get orphans). True = the direct child was among it."""
        before = self.status
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG | os.WUNTRACED)
            except ChildProcessError:
                break
            if pid == 0:
                break
            if pid != self.pid:
                continue
            if os.WIFSTOPPED(status):
                self.stopped_by = os.WSTOPSIG(status)
            else:
                self.status, self._usage = status, usage
        return before is None and self.status is not None

    def send(self, number: int) -> None:
        """A signal to the direct child, if it is still there."""
        if self.status is None:
            tree.signal_all([self.pid], number)

    def others(self) -> list[int]:
        """Living members of the tree without the direct child."""
        return [pid for pid in tree.descendants(os.getpid(), self._proc) if pid != self.pid]

    def terminate(self) -> None:
        """TERM to the whole tree; CONT behind it, since a stopped process would not see it."""
        everyone = self._everyone()
        tree.signal_all(everyone, SIGTERM)
        tree.signal_all(everyone, SIGCONT)

    def kill(self) -> None:
        """KILL to whatever is left, again until nobody new was born meanwhile (at most ten rounds)."""
        for _ in range(10):
            everyone = self._everyone()
            if not tree.signal_all(everyone, SIGKILL) or set(self._everyone()) <= set(everyone):
                return

    def _everyone(self) -> list[int]:
        direct = [self.pid] if self.status is None else []
        return direct + self.others()

    def end_facts(self) -> "dict[str, Json]":
        """exitCode or signal, and the resource usage of the child and what it had waited for (getrusage(2))."""
        facts: dict[str, Json] = {}
        if self.status is not None:
            if os.WIFSIGNALED(self.status):
                facts["signal"] = signal_name(os.WTERMSIG(self.status))
            else:
                facts["exitCode"] = os.WEXITSTATUS(self.status)
        usage = self._usage
        if usage is not None:
            scale = 1 if os.uname().sysname == "Darwin" else 1024
            facts["maxRssBytes"] = int(usage.ru_maxrss) * scale  # type: ignore[attr-defined]  # struct_rusage
            facts["cpuUserMs"] = int(usage.ru_utime * _MS_PER_S)  # type: ignore[attr-defined]  # struct_rusage
            facts["cpuSystemMs"] = int(usage.ru_stime * _MS_PER_S)  # type: ignore[attr-defined]  # struct_rusage
        return facts
