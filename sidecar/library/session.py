"""One command under its supervisor, as both kinds of caller drive it: descriptors to read, and what came of them.

Nothing here waits. `blocking` and `asynchronous` watch `descriptors`, call `read` when one is ready, and `finish` when
the supervisor has ended.
"""

import contextlib
import os
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from typing import IO, Any, Literal, NamedTuple

from sidecar.core import frame as wire
from sidecar.core.errors import FrameError, UsageError
from sidecar.library.captured import Captured
from sidecar.library.options import Options, Words, command_environment, supervisor_words
from sidecar.library.progress import Progress, Seen, progress_of
from sidecar.library.result import Result, result_of

_READ_BYTES = 65536
_OWN_MISTAKE = 125
DRAIN_S = 1.0
"""How long to read on after the supervisor's end: it has read all there was, save where it could not be one."""
KEPT_PROGRESS = 1000
"""Of more that nobody has taken, the oldest go."""
LAST_RESORT_S = 15.0
"""A supervisor that is asked to stop ends within --kill-after and the 2 s that it gives to what cannot die. After so
much longer it is killed, and the command with it."""


class Output(NamedTuple):
    stream: Literal["stdout", "stderr"]
    data: bytes


Event = Output | Progress


class Session:
    """Started at once. Raises UsageError: a wrong option, or nothing can be started there."""

    def __init__(self, command: Words, options: Options) -> None:
        frames, theirs = os.pipe()
        try:
            words = supervisor_words(command, options, theirs)
            self._process = _start(words, options, theirs)
        except BaseException:
            os.close(frames)
            raise
        finally:
            os.close(theirs)
        self._started_ns = self._last_output_ns = time.monotonic_ns()
        limit_bytes = options.get("max_output_bytes")
        self._captured = {"stdout": Captured(limit_bytes), "stderr": Captured(limit_bytes)}
        self._lines = 0
        self._files: dict[int, tuple[str, IO[bytes]]] = {}
        for name, file in (("stdout", self._process.stdout), ("stderr", self._process.stderr)):
            if file is not None:
                self._add(name, file)
        self._add("frames", os.fdopen(frames, "rb", buffering=0))
        self._partial = b""
        self._started: Mapping[str, Any] | None = None
        self._settled: Mapping[str, Any] | None = None
        self._verdict: Progress | None = None
        self._cancelled_ns: int | None = None
        self._status_is_lost = False
        self.before_close: Callable[[int], object] = lambda descriptor: None
        """Called with a descriptor that is about to be closed, for whoever watches it."""

    @property
    def pid(self) -> int:
        """The supervisor's."""
        return self._process.pid

    @property
    def command_id(self) -> str | None:
        """None until the supervisor has said it, a moment after the start."""
        identity = self._started or self._settled
        return None if identity is None else identity["commandId"]

    @property
    def descriptors(self) -> tuple[int, ...]:
        """Those that are to be read still."""
        return tuple(self._files)

    def read(self, descriptor: int) -> list[Event]:
        """What is there now. At the end of its file the descriptor is closed, and no longer among `descriptors`."""
        name, _file = self._files[descriptor]
        try:
            data = os.read(descriptor, _READ_BYTES)
        except BlockingIOError:
            return []
        except OSError:
            data = b""
        if not data:
            self._close(descriptor)
            return []
        if name == "frames":
            return self._take_frames(data)
        self._last_output_ns = time.monotonic_ns()
        self._lines += data.count(b"\n")
        self._verdict = None
        self._captured[name].add(data)
        return [Output("stdout" if name == "stdout" else "stderr", data)]

    def has_ended(self) -> bool:
        """Whether the supervisor has; it is reaped then."""
        if self._process.returncode is None and hasattr(os, "waitid"):
            try:
                os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                # SIGCHLD is ignored here, or somebody waits for any child: subprocess would say that it exited with 0.
                self._status_is_lost = True
        return self._process.poll() is not None

    def cancel(self) -> None:
        """Stop the whole tree: TERM, and KILL after the grace; asked again later, KILL at once."""
        if self._cancelled_ns is None:
            self._cancelled_ns = time.monotonic_ns()
        self._signal(signal.SIGTERM)
        self._signal(signal.SIGCONT)  # one that was suspended could not do as it is asked

    def kill_if_overdue(self, kill_after_s: float | None) -> None:
        """The last resort, for a supervisor that does not end though it was asked to."""
        if self._cancelled_ns is None:
            return
        patience_s = LAST_RESORT_S + (5.0 if kill_after_s is None else kill_after_s)
        if time.monotonic_ns() - self._cancelled_ns > patience_s * 1e9:
            self.kill()

    def kill(self) -> None:
        """End the supervisor; the kernel ends the command with it."""
        self._signal(signal.SIGKILL)

    def finish(self) -> Result:
        """The supervisor has ended: the result. Raises UsageError where it would not start for an option's sake."""
        for descriptor in self.descriptors:
            self._close(descriptor)
        status = None if self._status_is_lost else self._process.wait()
        if status in (_OWN_MISTAKE, None) and self._started is None and self._settled is None:
            said = self._captured["stderr" if self._process.stderr else "stdout"].bytes().decode("utf-8", "replace")
            if said.startswith("sidecar: "):
                raise UsageError(said.removeprefix("sidecar: ").strip())
        elapsed_s = (time.monotonic_ns() - self._started_ns) / 1e9
        return result_of(
            status,
            self._started,
            self._settled,
            self._verdict,
            self._captured["stdout"],
            self._captured["stderr"],
            elapsed_s,
            cancelled=self._cancelled_ns is not None,
        )

    def _add(self, name: str, file: IO[bytes]) -> None:
        os.set_blocking(file.fileno(), False)
        self._files[file.fileno()] = (name, file)

    def _close(self, descriptor: int) -> None:
        self.before_close(descriptor)
        _name, file = self._files.pop(descriptor)
        file.close()

    def _take_frames(self, data: bytes) -> list[Event]:
        *lines, self._partial = (self._partial + data).split(b"\n")
        told: list[Event] = []
        for line in lines:
            with contextlib.suppress(FrameError):  # of a newer supervisor, say: its command goes on all the same
                frame = wire.parse(line)
                if frame is not None:
                    told += self._take(frame)
        return told

    def _take(self, frame: Mapping[str, Any]) -> list[Event]:
        if frame["type"] == wire.STARTED:
            self._started = frame
        elif frame["type"] == wire.SETTLED:
            self._settled = frame
        elif frame["type"] in (wire.PROGRESS, wire.VERDICT):
            progress = progress_of(frame, self._started or {}, self._seen())
            if progress.verdict is not None:
                self._verdict = progress
            return [progress]
        return []

    def _seen(self) -> Seen:
        total_bytes = sum(stream.total_bytes for stream in self._captured.values())
        return Seen((time.monotonic_ns() - self._last_output_ns) / 1e9, total_bytes, self._lines)

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(number)


def _start(words: list[str], options: Options, frames_fd: int) -> "subprocess.Popen[bytes]":
    given = options.get("input")
    with tempfile.TemporaryFile() if given is not None else open(os.devnull, "rb") as stdin:
        if given is not None:
            stdin.write(given)
            stdin.seek(0)
        try:
            return subprocess.Popen(  # noqa: S603 - to run the user's command is what this is for
                words,
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT if options.get("merge_stderr") else subprocess.PIPE,
                bufsize=0,
                cwd=options.get("cwd"),
                env=command_environment(options),
                pass_fds=(frames_fd,),
            )
        except (OSError, ValueError, TypeError) as error:  # ValueError: a NUL byte; TypeError: a word that is a number
            raise UsageError(f"the command cannot be started: {error}") from None


def look_s(ender: int | None) -> float:
    """How often to look whether the supervisor has ended: seldom, where `end_descriptor` tells of it."""
    return 0.02 if ender is None else 0.5


def end_descriptor(pid: int) -> int | None:
    """Becomes readable when the process ends (pidfd_open(2)); None where the platform has no such thing."""
    if not hasattr(os, "pidfd_open"):
        return None
    try:
        return os.pidfd_open(pid)
    except OSError:
        return None


def wait_readable(descriptors: tuple[int, ...], timeout_s: float) -> list[int]:
    """Those of `descriptors` that can be read, or are at their end, within the time."""
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    return [descriptor for descriptor, _ in poll.poll(timeout_s * 1000)]
