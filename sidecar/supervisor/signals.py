"""Signals to the supervisor, as events of its one loop.

They are blocked before the spawn, so that none is lost, and read from a signalfd, which also tells who sent
them. Elsewhere (macOS) handlers that do nothing and a wake-up pipe give the number only.

`_signal` instead of `signal`: the latter makes enums of every constant, 3 ms.
"""

import _signal
import posix

from sidecar.supervisor import libc

SIGHUP, SIGINT, SIGQUIT, SIGKILL, SIGPIPE, SIGTERM = 1, 2, 3, 9, 13, 15
SIGCHLD, SIGCONT, SIGSTOP = int(_signal.SIGCHLD), int(_signal.SIGCONT), int(_signal.SIGSTOP)
SIGTSTP, SIGTTIN, SIGTTOU = int(_signal.SIGTSTP), int(_signal.SIGTTIN), int(_signal.SIGTTOU)
SIGWINCH, SIGXCPU, SIGXFSZ = int(_signal.SIGWINCH), int(_signal.SIGXCPU), int(_signal.SIGXFSZ)
JOB_STOPS = (SIGTSTP, SIGTTIN, SIGTTOU)
"""The stops of job control, which a process may handle; SIGSTOP is not one of them."""
SI_KERNEL = 0x80
"""si_code of a signal that the kernel itself made (sigaction(2))."""

# Never blocked: they cannot be, or they mean that we ourselves are broken and must die of them.
_UNTOUCHED = {SIGKILL, SIGSTOP, SIGPIPE} | {
    int(getattr(_signal, name))
    for name in ("SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL", "SIGABRT", "SIGTRAP", "SIGSYS", "SIGXFSZ")
}
HANDLED = {number for number in map(int, _signal.valid_signals()) if number not in _UNTOUCHED}


def voided_by(number: int) -> tuple[int, ...]:
    """The pending signals that the kernel drops when `number` comes: SIGCONT the stops, a stop SIGCONT (signal(7))."""
    return JOB_STOPS if number == SIGCONT else (SIGCONT,) if number in JOB_STOPS else ()


class Received:
    """One signal: its number, si_code and the sender's pid (both None where the platform cannot say)."""

    __slots__ = ("code", "number", "sender_pid")

    def __init__(self, number: int, code: int | None, sender_pid: int | None) -> None:
        self.number = number
        self.code = code
        self.sender_pid = sender_pid


class SignalSource:
    """Blocks the signals at once; `descriptor` becomes readable when some came, `read()` takes them.

    `agent_mask` is the mask that the agent gave and `ignored_sigchld` whether it had SIGCHLD ignored: the
    child gets both back. With SIGTERM ignored (`ignored_sigterm`) it is no request to us to stop the command. Raises
    OSError, the mask as it was, where no descriptor is free.
    """

    def __init__(self) -> None:
        # An ignored SIGCHLD would make the kernel reap our children before we can.
        self.ignored_sigchld = _signal.getsignal(SIGCHLD) == _signal.SIG_IGN
        if self.ignored_sigchld:
            _signal.signal(SIGCHLD, _signal.SIG_DFL)
        self.ignored_sigterm = _signal.getsignal(SIGTERM) == _signal.SIG_IGN
        self.agent_mask = {int(number) for number in _signal.pthread_sigmask(_signal.SIG_BLOCK, HANDLED)}
        self.tells_sender = True  # Linux
        self.descriptor = libc.signalfd(HANDLED)
        if self.descriptor < 0:
            self._use_wakeup_pipe()

    def read(self) -> list[Received]:
        """All signals that came since the last call; never blocks."""
        received: list[Received] = []
        while True:
            try:
                data = posix.read(self.descriptor, 128 * 16 if self.tells_sender else 64)
            except BlockingIOError:
                return received
            if not self.tells_sender:
                received += [Received(number, None, None) for number in data]
                continue
            for start in range(0, len(data), 128):  # sizeof(struct signalfd_siginfo)
                record = data[start : start + 16]
                number, code, pid = (int.from_bytes(record[at : at + 4], "little", signed=at == 8) for at in (0, 8, 12))
                received.append(Received(number, code, pid))

    def _use_wakeup_pipe(self) -> None:
        self.tells_sender = False
        try:
            self.descriptor, writer = posix.pipe()
        except OSError:
            _signal.pthread_sigmask(_signal.SIG_SETMASK, self.agent_mask)
            raise
        posix.set_blocking(self.descriptor, False)
        posix.set_blocking(writer, False)
        _signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        for number in HANDLED:
            if _signal.getsignal(number) != _signal.SIG_IGN:
                try:
                    _signal.signal(number, _do_nothing)
                except OSError:
                    continue
        _signal.pthread_sigmask(_signal.SIG_SETMASK, self.agent_mask)


def _do_nothing(_number: int, _frame: object) -> None:
    """The wake-up pipe carries the number; a handler must exist for it to be written."""


def signal_name(number: int) -> str:
    """`SIGKILL` for 9; `SIGRTMIN+3` style for real-time signals."""
    for name in dir(_signal):
        if name.startswith("SIG") and name[3] != "_" and int(getattr(_signal, name)) == number:
            return name
    return f"SIGRTMIN+{number - int(_signal.SIGRTMIN)}"
