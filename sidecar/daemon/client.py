"""The other end of the daemon's socket, for `sidecar ps`, `sidecar watch` and everything else that asks.

Blocking, standard library only. Every answer is a dict, one per line of the daemon:

    request(path, "list")     {"type": "command", ...} per running command, then {"type": "end", "count"}
    request(path, "status")   {"type": "status", "pid", "version", "socket", "uptimeMs", "commands", ...}
    request(path, "stop")     {"type": "stopping", "pid", "startedTicks"}
    cancel(path, id, ...)     {"type": "cancelling", "commandId", ...}, then the command_settled record
    subscribe(path, filter)   {"type": "snapshot", "commands": N}, N command_started records with
                              "snapshot": true, then records as they happen; docs/wire.md lists them

A `command` line has commandId, program, pid, supervisorPid, elapsedMs, hasOutput, silent, totalBytes,
totalLines, heartbeatCount, heartbeatIntervalMs, traceId, io, and where they are known toolName, toolCallId, sessionId,
timeoutMs, verdict, lastOutputAgeMs (absent = no output yet, as everywhere on the wire). heartbeatDelayMs is there only
where a heartbeat is overdue for 5 s or longer: all that is said of the command is then of when it was heard last.
"""

import errno
import os
import select
import time
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from sidecar import rendezvous
from sidecar.core import frame as wire
from sidecar.core.errors import DaemonSilent, DaemonUnavailable, FrameError, NoDaemon
from sidecar.daemon import stuck

if TYPE_CHECKING:
    from _socket import socket
    from collections.abc import Iterator, Mapping

    Record = dict[str, Any]

DEFAULT_TIMEOUT_S: Final = 10.0
_SHUT_RDWR: Final = 2
_READ_BYTES: Final = 65536
# The daemon keeps to MAX_FRAME_BYTES; a peer that sends no newline at all must not fill our memory either.
_MAX_LINE_BYTES: Final = 1 << 20
_LONGEST_WAIT_S: Final = 86_400.0
"""At once: poll(2) counts milliseconds in an int, which is 25 days."""


def request(path: str, name: str, *, timeout_s: float = DEFAULT_TIMEOUT_S, **further: object) -> "Iterator[Record]":
    """Ask the daemon on `path` for "list", "status", "stop" or "web". The request is sent at once; iterate for the
    answers. `further` keys go into the request: `silences=True` for "list".

    `timeout_s` bounds the wait for each answer (a daemon that was only just started needs a second for its
    first). Raises NoDaemon: nobody listens; DaemonSilent: it does not answer; else DaemonUnavailable, for an error that
    it answers with, say.
    """
    answers = Subscription(_connect(path, timeout_s), path)
    try:
        answers.send({"request": name, **further}, timeout_s)
    except BaseException:
        answers.close()
        raise
    return _answers(answers, path, timeout_s)


def _answers(answers: "Subscription", path: str, timeout_s: float) -> "Iterator[Record]":
    with answers:
        while (answer := answers.next_within(timeout_s)) is not None:
            if answer.get("type") == "error":
                raise DaemonUnavailable(f"the daemon on {path} answered: {answer.get('message')}")
            yield answer
            if answer.get("type") in ("end", "status", "stopping", "web"):
                return
        raise answers.unanswered(timeout_s)


def status(path: str, *, timeout_s: float = DEFAULT_TIMEOUT_S) -> "Record":
    """The one answer to "status". Raises DaemonUnavailable."""
    for answer in request(path, "status", timeout_s=timeout_s):
        return answer
    raise DaemonUnavailable(f"the daemon on {path} gave no status")  # pragma: no cover - request raises first


def flush(path: str, *, everything: bool = False, timeout_s: float = DEFAULT_TIMEOUT_S) -> int:
    """Have the daemon send what waits in the spool, now; returns its pid. Does not wait. Raises DaemonUnavailable."""
    with Subscription(_connect(path, timeout_s), path) as answers:
        answers.send({"request": "flush", "all": everything}, timeout_s)
        answer = answers.next_within(timeout_s)
        if answer is None:
            raise answers.unanswered(timeout_s)
    if answer.get("type") != "flushing":
        raise DaemonUnavailable(f"the daemon on {path} answered: {answer.get('message')}")
    return int(answer["pid"])


def subscribe(
    path: str, filter: "Mapping[str, object] | None" = None, *, timeout_s: float = DEFAULT_TIMEOUT_S
) -> "Subscription":
    """Subscribe to the frames of the daemon on `path`.

    `filter` may have toolCallId, sessionId (each record must match all that are given), format and what that needs
    (docs/wire.md). The result iterates over dicts until the daemon ends or `close()` is called. `timeout_s` bounds
    connecting only. Raises DaemonUnavailable.
    """
    wanted = dict(filter or {})
    subscription = Subscription(_connect(path, timeout_s), path)
    try:
        subscription.send({"subscribe": wanted}, timeout_s)
    except BaseException:
        subscription.close()
        raise
    return subscription


def cancel(path: str, command_id: str, evidence: str, *, timeout_s: float = DEFAULT_TIMEOUT_S) -> "Subscription":
    """Ask for the end of a running command; `command_id` may be the beginning of an id that is the only one.

    The first record is {"type": "cancelling", ...} or {"type": "error", "message"}; behind the former comes the
    command_settled record, whenever that is. Raises DaemonUnavailable.
    """
    answers = Subscription(_connect(path, timeout_s), path)
    try:
        answers.send({"request": "cancel", "commandId": command_id, "evidence": evidence}, timeout_s)
    except BaseException:
        answers.close()
        raise
    return answers


class Subscription:
    """Lines of the daemon, as dicts. An iterator and a context manager.

    `ended` is true once the daemon has closed, and nothing is left to read. A {"type": "lagged"} or
    {"type": "error"} record is yielded like any other; the daemon closes after it.
    """

    def __init__(self, connection: "socket", path: str) -> None:
        self._connection = connection
        self._path = path
        self._buffer = bytearray()
        self._closed = False
        self.ended = False

    def fileno(self) -> int:
        """For select: readable means next_within(0) may have something. Buffered lines do not show there."""
        return self._connection.fileno()

    def send(self, message: "Mapping[str, Any]", timeout_s: float) -> None:
        self._connection.settimeout(timeout_s)
        try:
            self._connection.sendall(wire.encode(message))
        except OSError as error:
            raise DaemonUnavailable(f"the daemon on {self._path} does not listen: {_reason(error)}") from None

    def next_within(self, timeout_s: float | None) -> "Record | None":
        """The next record, or None: nothing within `timeout_s` (None = wait for ever), or `ended`."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while not self.ended:
            end = self._buffer.find(b"\n")
            if end >= 0:
                line = bytes(self._buffer[:end])
                del self._buffer[: end + 1]
                return self._parsed(line)
            if len(self._buffer) > _MAX_LINE_BYTES:
                raise DaemonUnavailable(f"the daemon on {self._path} sends no lines")
            left_s = _LONGEST_WAIT_S if deadline is None else max(0.0, deadline - time.monotonic())
            if not self._read(min(left_s, _LONGEST_WAIT_S)) and deadline is not None and time.monotonic() >= deadline:
                break
        return None

    def _read(self, timeout_s: float) -> bool:
        """Wait for bytes, take them in. False: none came within the time, or the end."""
        try:
            if self._closed:
                raise OSError(errno.EBADF, "closed")
            # Not settimeout: a timeout of 0 would make the socket non-blocking and None-able at once.
            if not _wait_readable(self._connection, timeout_s):
                return False
            data = self._connection.recv(_READ_BYTES)
        except (OSError, ValueError):  # ValueError: another thread closed it just now, its fileno() is -1
            data = b""
        self._buffer += data
        self.ended = not data
        return bool(data)

    def _parsed(self, line: bytes) -> "Record":
        try:
            record: Record = wire.load_object(line)
        except FrameError as error:
            raise DaemonUnavailable(f"the daemon on {self._path} sent no frame: {error}") from None
        return record

    def unanswered(self, timeout_s: float) -> DaemonUnavailable:
        """What to raise when nothing has come in so long, or before the end."""
        if self.ended:
            return DaemonUnavailable(f"the daemon on {self._path} went away before it had answered")
        fact = f"the daemon on {self._path} did not answer within {timeout_s:g} s"
        return DaemonSilent(fact, None if self._closed else stuck.daemon_behind(self._connection))

    def close(self) -> None:
        """End it. Safe to call twice, and from another thread: an iteration that waits then stops."""
        if self._closed:
            return
        self._closed = True
        try:
            self._connection.shutdown(_SHUT_RDWR)
        except OSError:
            pass
        self._connection.close()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> "Record":
        record = self.next_within(None)
        if record is None:
            raise StopIteration
        return record

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _connect(path: str, timeout_s: float) -> "socket":
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            # Non-blocking: connect(2) to a full backlog would else wait without any bound.
            return rendezvous.connect(path, nonblocking=True)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise DaemonSilent(f"the daemon on {path} is too busy to answer") from None
            time.sleep(0.02)
        except (FileNotFoundError, ConnectionRefusedError, NotADirectoryError):
            raise NoDaemon(f"no daemon is running on {path}") from None
        except OSError as error:
            raise DaemonUnavailable(f"cannot connect to {path}: {_reason(error)}") from None


def _wait_readable(connection: "socket", timeout_s: float) -> bool:
    # poll, not select: descriptors over 1023 are ordinary in a busy gateway.
    poller = select.poll()
    poller.register(connection.fileno(), select.POLLIN)
    return bool(poller.poll(int(timeout_s * 1000 + 0.999)))


def _reason(error: OSError) -> str:
    return os.strerror(error.errno) if error.errno else str(error)
