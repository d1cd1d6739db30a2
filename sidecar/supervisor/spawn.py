"""fork, hygiene, exec: the child gets what the agent gave, and nothing of ours.

The steps in the child, in order: the parent-death signal; a session of its own with a terminal (PTY mode
only); the relayed descriptors on 1 and 2; the dispositions that Python changed (SIGPIPE, SIGXFSZ) and the
agent's signal mask; its interval timers; exec. All descriptors of ours are close-on-exec. What fails is told to the
parent through a close-on-exec pipe, so that "spawned" means that exec succeeded.

Where there can be no child at all (no free descriptor, RLIMIT_NPROC), `become` makes this very process the command.
"""

import _signal
import posix
import sys

from sidecar.supervisor import libc
from sidecar.supervisor.signals import SIGCHLD, SIGKILL, SIGPIPE, SIGXFSZ, SignalSource

TYPE_CHECKING = False  # typing.TYPE_CHECKING, without the 7 ms of importing typing
if TYPE_CHECKING:
    from collections.abc import Iterable

    from sidecar.supervisor.terminal import Terminal

_ENOENT, _EACCES, _ENOTDIR, _ENOEXEC, _EINVAL = 2, 13, 20, 8, 22
_SHELLS = ("bash", "dash", "sh", "ksh", "mksh", "zsh", "busybox")
_STAT_SIGIGNORE = 30
"""Where /proc/PID/stat has the ignored signals, counted from the state: field 33 of proc(5) is the 31st of those."""
_TIMERS = (_signal.ITIMER_REAL, _signal.ITIMER_VIRTUAL, _signal.ITIMER_PROF)
_DEFAULT_PATH = "/bin:/usr/bin"  # what execvp(3) searches without PATH


class SpawnError(Exception):
    """The command could not be started. `errno` says why; the message is for a user."""

    def __init__(self, errno: int, message: str) -> None:
        super().__init__(message)
        self.errno = errno

    @property
    def exit_code(self) -> int:
        """127 not found, 126 whatever else kept it from running."""
        return {_ENOENT: 127, _ENOTDIR: 127}.get(self.errno, 126)


class NoChild(Exception):  # noqa: N818 - a state of the machine, and no mistake of anybody
    """There can be no child: no descriptors, no processes. The message says which."""


class Spawning:
    """A command between fork and exec. `pid` is its pid; `confirm` tells whether exec succeeded."""

    __slots__ = ("_program", "_report", "pid")

    def __init__(self, pid: int, report: int, program: str) -> None:
        self.pid = pid
        self._report = report
        self._program = program

    def confirm(self) -> None:
        """Wait for the exec. Raises SpawnError where it failed; the child is reaped then."""
        failure = b""
        while chunk := posix.read(self._report, 4):
            failure += chunk
        posix.close(self._report)
        if failure:
            posix.waitpid(self.pid, 0)
            errno = int.from_bytes(failure[:4], "little")
            raise SpawnError(errno, _explain(self._program, errno))


def spawn(
    argv: list[str],
    environ: dict[str, str],
    descriptors: dict[int, int],
    signals: SignalSource,
    terminal: "Terminal | None",
) -> Spawning:
    """Start `argv`: fork, and let the child go on to exec. Raises NoChild where that cannot be.

    `descriptors` maps a number in the command (0, 1, 2) to a descriptor of ours; `terminal` shall be its
    controlling terminal, with a session of its own. It has the agent's keys from here on, whether it runs or not.
    """
    paths = _candidates(argv[0], environ)
    ignored = given_ignored()
    if terminal is not None and paths:
        terminal.take_keys()  # before the command can change its terminal's settings: this copies the agent's
    timers = given_timers()
    parent_pid = posix.getpid()
    try:
        report, reporter = posix.pipe()
    except OSError as error:
        raise NoChild(f"no descriptor is free: {error.strerror}") from None
    try:
        pid = posix.fork()
    except OSError as error:
        posix.close(report)
        posix.close(reporter)
        raise NoChild(f"cannot fork: {error.strerror}") from None
    if pid == 0:
        errno = _EINVAL
        try:
            _become(paths, argv, environ, descriptors, signals, terminal, parent_pid, ignored, timers)
        except OSError as error:
            errno = error.errno or _EINVAL
        finally:
            posix.write(reporter, errno.to_bytes(4, "little"))
            posix._exit(127)
    posix.close(reporter)
    for which, _, _ in timers:
        _signal.setitimer(which, 0)
    return Spawning(pid, report, argv[0])


def _become(
    paths: list[str],
    argv: list[str],
    environ: dict[str, str],
    descriptors: dict[int, int],
    signals: SignalSource,
    terminal: "Terminal | None",
    parent_pid: int,
    ignored: "Iterable[int]",
    timers: "Iterable[tuple[int, float, float]]",
) -> None:
    libc.die_with_parent(SIGKILL)
    if posix.getppid() != parent_pid:
        posix._exit(128 + SIGKILL)
    if terminal is not None:
        terminal.enter()
    for number, descriptor in descriptors.items():
        if number == descriptor:
            posix.set_inheritable(descriptor, True)
        else:
            posix.dup2(descriptor, number)
    if signals.ignored_sigchld:
        _signal.signal(SIGCHLD, _signal.SIG_IGN)
    give_back_dispositions(ignored)
    for which, after_s, interval_s in timers:
        _signal.setitimer(which, after_s, interval_s)
    _signal.pthread_sigmask(_signal.SIG_SETMASK, signals.agent_mask)
    _exec(paths, argv, environ)


def become(argv: list[str], environ: dict[str, str], agent_mask: "Iterable[int]") -> None:
    """Become the command, unsupervised, over what the agent gave. Returns only by raising SpawnError."""
    libc.set_subreaper(False)
    give_back_dispositions(given_ignored())
    _signal.pthread_sigmask(_signal.SIG_SETMASK, agent_mask)
    try:
        _exec(_candidates(argv[0], environ), argv, environ)
    except OSError as error:
        raise SpawnError(error.errno or _EINVAL, _explain(argv[0], error.errno or _EINVAL)) from None


def given_timers() -> list[tuple[int, float, float]]:
    """The interval timers that run: (which, seconds left, interval in seconds).

    They outlive an exec and no fork (setitimer(2)), as in `alarm 10; exec ...`, the oldest of all timeouts.
    """
    timers = [(which, *_signal.getitimer(which)) for which in _TIMERS]
    return [timer for timer in timers if timer[1]]


def give_back_dispositions(ignored: "Iterable[int]") -> None:
    """Undo what Python did to its own signals before anybody could look: SIGPIPE and SIGXFSZ."""
    for number in (SIGPIPE, SIGXFSZ):
        _signal.signal(number, _signal.SIG_IGN if number in ignored else _signal.SIG_DFL)


def given_ignored() -> list[int]:
    """Which of SIGPIPE and SIGXFSZ we were given ignored.

    Python ignores both when it starts. So what there was is read before: by the script's shell, or by `start_guard`.
    Where neither ran (another interpreter by now, a path that is too long, no /proc) only our parent can tell, if it is
    a shell: those hand what they ignore (`trap '' PIPE`, or a service manager's doing) to all their children. Any other
    parent says nothing: Python, Node and Rust ignore SIGPIPE themselves, and not for their children.
    """
    told = sys._xoptions.get("sidecar_ignored")
    if isinstance(told, str) and told.isdigit():
        return _in_mask(int(told))
    parent_pid = posix.getppid()
    try:
        ignored = _in_mask(ignored_mask(parent_pid))
        if ignored and posix.readlink(f"/proc/{parent_pid}/exe").rpartition("/")[2] in _SHELLS:
            return ignored
    except (OSError, ValueError, IndexError):
        pass
    return []


def ignored_mask(pid: int) -> int:
    """The signals that a process ignores, as a mask (proc(5)). Raises OSError, ValueError, IndexError."""
    descriptor = posix.open(f"/proc/{pid}/stat", posix.O_RDONLY | posix.O_CLOEXEC)
    try:
        fields = posix.read(descriptor, 4096).rpartition(b")")[2].split()
    finally:
        posix.close(descriptor)
    return int(fields[_STAT_SIGIGNORE])


def _in_mask(mask: int) -> list[int]:
    return [number for number in (SIGPIPE, SIGXFSZ) if mask & 1 << (number - 1)]


def _candidates(program: str, environ: dict[str, str]) -> list[str]:
    """Where execvp(3) would look, without what is plainly not there: a failing exec in the child costs more."""
    if "/" in program:
        return [program]
    paths = []
    for folder in environ.get("PATH", _DEFAULT_PATH).split(":") if program else ():
        path = f"{folder or '.'}/{program}"
        try:
            posix.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except (OSError, ValueError):
            pass  # whatever it is, exec shall say
        paths.append(path)
    return paths


def _exec(paths: list[str], argv: list[str], environ: dict[str, str]) -> None:
    """execvpe(3) over `paths`. Raises OSError."""
    failure: OSError = FileNotFoundError(_ENOENT, "")
    for path in paths:
        try:
            _exec_file(path, argv, environ)
        except OSError as error:
            # A file that may not be executed is remembered, and the search goes on, as in execvp(3).
            if error.errno == _EACCES:
                failure = error
            elif error.errno not in (_ENOENT, _ENOTDIR) or len(paths) == 1:
                raise
    raise failure


def _exec_file(path: str, argv: list[str], environ: dict[str, str]) -> None:
    try:
        posix.execve(path, argv, environ)
    except OSError as error:
        if error.errno != _ENOEXEC:
            raise
        # A script without #!: execvp(3) and every shell give it to sh.
        posix.execve("/bin/sh", ["/bin/sh", path, *argv[1:]], environ)


def _explain(program: str, errno: int) -> str:
    """One line, whatever the name is made of: a whole script, or what moves a terminal's cursor."""
    from sidecar.core.values import printable

    reasons = {_ENOENT: "command not found", _EACCES: "not executable (permission denied)"}
    return f"{printable(program)}: {reasons.get(errno) or posix.strerror(errno)}"
