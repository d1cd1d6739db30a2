"""Writing to the agent's streams without ever blocking, and without changing them.

The agent's open file must keep its flags (O_NONBLOCK is shared by everybody who has it), yet a write to a
full pipe or terminal must not hold up the loop. Four ways, by what the descriptor is:

- a socket: send with MSG_DONTWAIT;
- a pipe or a terminal: opened anew through /proc/self/fd, which makes an open file of our own, non-blocking;
- a regular file: a plain write, which never waits for a reader;
- else (no /proc, a pipe of another user): at most PIPE_BUF bytes after poll said there is room, which
  pipe(7) promises not to block.
"""

import _signal
import posix

from sidecar.supervisor.signals import SIGTTOU

_S_IFMT, _S_IFSOCK, _S_IFIFO, _S_IFCHR, _S_IFREG = 0o170000, 0o140000, 0o010000, 0o020000, 0o100000
_MSG_DONTWAIT_NOSIGNAL = 0x4040
_PIPE_BUF_BYTES = 4096


class Sink:
    """Where the bytes of one stream go. `descriptor` is what to poll for room and for the reader's end.

    `of_pipe`: the command writes into a pipe, and we to its terminal: with `stty tostop` the kernel then stops our
    group by SIGTTOU when we do that from the background, as it would have for the command's own write.
    """

    def __init__(self, agent_descriptor: int, *, of_pipe: bool = True) -> None:
        self._agent_descriptor = agent_descriptor
        self.descriptor = agent_descriptor
        self.pollable = True
        self.is_pipe = False
        self._can_be_stopped = False
        self._limit: int | None = None
        self._socket: object | None = None
        kind = posix.fstat(agent_descriptor).st_mode & _S_IFMT
        if kind == _S_IFREG:
            self.pollable = False
        elif kind == _S_IFSOCK:
            self._open_socket(agent_descriptor)
        elif kind == _S_IFIFO or (kind == _S_IFCHR and posix.isatty(agent_descriptor)):
            self._reopen(agent_descriptor)
            self._can_be_stopped = of_pipe and not self.is_pipe and kind == _S_IFCHR

    def write(self, data: "bytes | memoryview") -> int:
        """Bytes taken, 0 when there is no room now. Raises BrokenPipeError and other OSError: the reader is gone."""
        try:
            if self._socket is not None:
                return int(self._socket.send(data, _MSG_DONTWAIT_NOSIGNAL))  # type: ignore[attr-defined]  # _socket.socket, imported lazily
            if self._can_be_stopped and self._would_be_stopped():
                return self._write_or_stop(data)
            if self._limit is None:
                return posix.write(self.descriptor, data)
            return posix.write(self.descriptor, data[: self._limit]) if self._has_room() else 0
        except (BlockingIOError, InterruptedError):
            return 0

    def _would_be_stopped(self) -> bool:
        """Whether we are behind on a terminal that only those in front may write to."""
        try:
            if posix.tcgetpgrp(self.descriptor) == posix.getpgrp():
                return False
        except OSError:
            return False  # not our session's
        import termios

        try:
            return bool(termios.tcgetattr(self.descriptor)[3] & termios.TOSTOP)
        except termios.error:
            return False

    def _write_or_stop(self, data: "bytes | memoryview") -> int:
        mask = _signal.pthread_sigmask(_signal.SIG_UNBLOCK, (SIGTTOU,))
        try:
            return posix.write(self.descriptor, data if self._limit is None else data[: self._limit])
        finally:
            _signal.pthread_sigmask(_signal.SIG_SETMASK, mask)

    def close(self) -> None:
        """Our part of the stream ends: its descriptor then is /dev/null, so that no file of ours takes its number."""
        null = posix.open("/dev/null", posix.O_WRONLY | posix.O_CLOEXEC)
        posix.dup2(null, self._agent_descriptor)
        posix.close(null)
        if self._socket is not None:
            self._socket.close()  # type: ignore[attr-defined]  # as above
        elif self.descriptor != self._agent_descriptor:
            posix.close(self.descriptor)

    def _has_room(self) -> bool:
        """Also when the reader is gone: the write then says so."""
        import select

        poll = select.poll()
        poll.register(self.descriptor, select.POLLOUT)
        return bool(poll.poll(0))

    def _open_socket(self, descriptor: int) -> None:
        from _socket import socket

        try:
            self._socket = socket(fileno=posix.dup(descriptor))
        except OSError:
            self._limit = _PIPE_BUF_BYTES

    def _reopen(self, descriptor: int) -> None:
        try:
            self.descriptor = posix.open(
                f"/proc/self/fd/{descriptor}", posix.O_WRONLY | posix.O_NONBLOCK | posix.O_NOCTTY | posix.O_CLOEXEC
            )
            self.is_pipe = not posix.isatty(descriptor)
        except OSError:
            self._limit = _PIPE_BUF_BYTES
