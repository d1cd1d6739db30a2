"""fork, hygiene, exec: the child gets what the agent gave, and nothing of ours.

The steps in the child, in order: the parent-death signal; a session of its own with a terminal (PTY mode
only); the relayed descriptors on 1 and 2; the dispositions that Python changed (SIGPIPE, SIGXFSZ) and the
agent's signal mask; exec. All descriptors of ours are close-on-exec. What fails is told to the parent
through a close-on-exec pipe, so that "spawned" means that exec succeeded.
"""

import _signal
import posix

from sidecar.supervisor import libc
from sidecar.supervisor.signals import SIGCHLD, SIGKILL, SIGPIPE, SIGXFSZ, SignalSource

_ENOENT, _EACCES, _ENOTDIR, _ENOEXEC, _EINVAL = 2, 13, 20, 8, 22
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
            raise SpawnError(errno, f"{self._program}: {_explain(errno)}")


def spawn(
    argv: list[str],
    environ: dict[str, str],
    descriptors: dict[int, int],
    signals: SignalSource,
    terminal: int | None,
) -> Spawning:
    """Start `argv`: fork, and let the child go on to exec. Raises SpawnError where there can be no child.

    `descriptors` maps a number in the command (0, 1, 2) to a descriptor of ours; `terminal` is the slave side
    that shall be its controlling terminal, with a session of its own.
    """
    paths = _candidates(argv[0], environ)
    report, reporter = posix.pipe()
    parent_pid = posix.getpid()
    try:
        pid = posix.fork()
    except OSError as error:
        posix.close(report)
        posix.close(reporter)
        raise SpawnError(error.errno or 0, f"cannot fork: {error.strerror}") from None
    if pid == 0:
        errno = _EINVAL
        try:
            _become(paths, argv, environ, descriptors, signals, terminal, parent_pid)
        except OSError as error:
            errno = error.errno or _EINVAL
        finally:
            posix.write(reporter, errno.to_bytes(4, "little"))
            posix._exit(127)
    posix.close(reporter)
    return Spawning(pid, report, argv[0])


def _become(
    paths: list[str],
    argv: list[str],
    environ: dict[str, str],
    descriptors: dict[int, int],
    signals: SignalSource,
    terminal: int | None,
    parent_pid: int,
) -> None:
    libc.die_with_parent(SIGKILL)
    if posix.getppid() != parent_pid:
        posix._exit(128 + SIGKILL)
    if terminal is not None:
        posix.setsid()
        _take_terminal(terminal)
    for number, descriptor in descriptors.items():
        if number == descriptor:
            posix.set_inheritable(descriptor, True)
        else:
            posix.dup2(descriptor, number)
    _signal.signal(SIGPIPE, _signal.SIG_DFL)
    _signal.signal(SIGXFSZ, _signal.SIG_DFL)
    if signals.ignored_sigchld:
        _signal.signal(SIGCHLD, _signal.SIG_IGN)
    _signal.pthread_sigmask(_signal.SIG_SETMASK, signals.agent_mask)
    _exec(paths, argv, environ)


def _take_terminal(terminal: int) -> None:
    import fcntl
    import termios

    fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)


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


def _explain(errno: int) -> str:
    if errno == _ENOENT:
        return "command not found"
    if errno == _EACCES:
        return "not executable (permission denied)"
    return posix.strerror(errno)
