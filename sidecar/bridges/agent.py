"""The agent's process behind a bridge: started, signalled and ended as the client would have done it without us."""

import os
import signal
import subprocess
import uuid
from collections.abc import Mapping, Sequence

from sidecar.bridges.heirs import Heirs
from sidecar.supervisor import libc
from sidecar.supervisor.signals import JOB_STOPS, SI_KERNEL, SIGCHLD, Received, SignalSource
from sidecar.supervisor.spawn import SpawnError

BRIDGE_ID = "SIDECAR_BRIDGE_ID"


class Pipe:
    """Our non-blocking end of a pipe, as a flow writes to it."""

    pollable = True

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def write(self, data: bytes | memoryview) -> int:
        try:
            return os.write(self.descriptor, data)
        except (BlockingIOError, InterruptedError):
            return 0


class Agent:
    """`stdin` and `stdout` are our ends of its pipes, non-blocking; its stderr is ours. Raises SpawnError.

    `shares_stdin`: its stdin is ours, too, and `stdin` is -1.
    """

    def __init__(
        self, argv: Sequence[str], environ: Mapping[str, str], signals: SignalSource, *, shares_stdin: bool = False
    ) -> None:
        self.bridge_id = uuid.uuid4().hex
        self._heirs = Heirs()
        environ = {**environ, BRIDGE_ID: self.bridge_id}
        # Around the agent somebody may be supervised already; what the agent runs is to be told of by itself.
        environ.pop("SIDECAR_ACTIVE", None)
        mask = signals.agent_mask

        def as_given() -> None:
            libc.die_with_parent(signal.SIGKILL)
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)

        try:
            self._process = subprocess.Popen(  # noqa: S603 - the user's own words
                list(argv),
                stdin=None if shares_stdin else subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=environ,
                preexec_fn=as_given,  # safe: there is no other thread
                close_fds=False,
                bufsize=0,
            )
        except OSError as error:
            raise SpawnError(error.errno or 0, f"{argv[0]}: {error.strerror}") from None
        assert self._process.stdout is not None
        self.stdin = -1 if self._process.stdin is None else self._process.stdin.fileno()
        self.stdout = self._process.stdout.fileno()
        for descriptor in {self.stdin, self.stdout} - {-1}:
            os.set_blocking(descriptor, False)

    @property
    def pid(self) -> int:
        return self._process.pid

    def has_ended(self) -> bool:
        returncode = self._process.poll()
        if returncode is None:
            return False
        self._heirs.after(returncode)
        return True

    @property
    def ending(self) -> tuple[int | None, int | None]:
        """(exit code, None) or (None, signal number), once it has ended."""
        code = self._process.returncode
        return (code, None) if code >= 0 else (None, -code)

    def close_stdin(self) -> None:
        """The client has nothing more to say."""
        assert self._process.stdin is not None
        self._process.stdin.close()

    def close_stdout(self) -> None:
        """The client does not listen any more: the agent gets SIGPIPE, as without us."""
        assert self._process.stdout is not None
        self._process.stdout.close()

    def signal(self, received: Received) -> None:
        """What came to us is for the agent; what the terminal sent to the whole group it has already."""
        if received.number == SIGCHLD:
            return
        if received.code != SI_KERNEL:
            self._heirs.before(received.number, self.pid)
            self._process.send_signal(received.number)
        if received.number in JOB_STOPS:
            os.kill(os.getpid(), signal.SIGSTOP)
