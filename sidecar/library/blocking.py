"""For synchronous code: `run` waits, `start` gives a handle."""

import contextlib
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Self, Unpack

from sidecar.core.errors import UsageError
from sidecar.library.options import Options, Words
from sidecar.library.progress import Progress
from sidecar.library.result import Result
from sidecar.library.session import (
    DRAIN_S,
    KEPT_PROGRESS,
    Event,
    Output,
    Session,
    end_descriptor,
    look_s,
    wait_readable,
)

OnProgress = Callable[[Progress], object]
OnOutput = Callable[[str, bytes], object]


def run(
    command: Words,
    *,
    on_progress: OnProgress | None = None,
    on_output: OnOutput | None = None,
    **options: Unpack[Options],
) -> Result:
    """Run `command` under supervision and wait for its end.

    `on_progress` is called with each heartbeat and each change of verdict, `on_output` with ("stdout" or "stderr",
    bytes) as they come; both in the caller's thread, and a slow one slows the command, as a slow reader does. Where one
    of them raises, or Ctrl-C comes, the command is stopped, and then the exception goes on. Raises UsageError for a
    wrong option.
    """
    session = Session(command, options)
    try:
        _pump(session, options, lambda event: _tell(event, on_progress, on_output))
    except BaseException:
        _stop(session, options)
        raise
    return session.finish()


def start(command: Words, *, on_output: OnOutput | None = None, **options: Unpack[Options]) -> "Command":
    """Start `command` under supervision. Raises UsageError for a wrong option."""
    return Command(Session(command, options), options, on_output)


class Command:
    """A command that runs. A thread reads its output meanwhile, and calls `on_output`.

    Iterating gives each heartbeat and change of verdict (of the last thousand) until the end. As a context manager it
    waits for the end; where its block raises, the command is stopped.
    """

    def __init__(self, session: Session, options: Options, on_output: OnOutput | None) -> None:
        self._session = session
        self._options = options
        self._on_output = on_output
        self._changed = threading.Condition()
        self._progress: deque[Progress] = deque(maxlen=KEPT_PROGRESS)
        self._result: Result | None = None
        self._error: BaseException | None = None
        self._ended = False
        self._thread = threading.Thread(target=self._follow, name=f"sidecar-{session.pid}", daemon=True)
        self._thread.start()

    @property
    def pid(self) -> int:
        """The supervisor's: signals to it are the command's."""
        return self._session.pid

    @property
    def command_id(self) -> str | None:
        """As `sidecar ps` and telemetry have it; None until the supervisor has said it, a moment after the start."""
        return self._session.command_id

    def __iter__(self) -> Iterator[Progress]:
        while True:
            with self._changed:
                while not self._progress and not self._ended:
                    self._changed.wait()
                if not self._progress:
                    return
                progress = self._progress.popleft()
            yield progress

    def cancel(self) -> None:
        """Stop the whole tree: TERM, and KILL after the grace; never waits. From any thread.

        Asked again, half a second later or more: KILL at once.
        """
        self._session.cancel()

    def wait(self, timeout_s: float | None = None) -> Result:
        """The end. Raises TimeoutError when it has not come by then (the command runs on), UsageError for a wrong
        option, and what `on_output` raised."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._ended, timeout_s):
                raise TimeoutError(f"the command still runs after {timeout_s} s")
        if self._error is not None:
            raise self._error
        assert self._result is not None
        return self._result

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.wait()
            return
        self.cancel()
        with self._changed:
            self._changed.wait_for(lambda: self._ended)

    def _follow(self) -> None:
        try:
            try:
                _pump(self._session, self._options, self._take)
            except BaseException as error:  # noqa: BLE001 - what on_output raised is the caller's, who gets it from wait()
                self._error = error
                _stop(self._session, self._options)
                return
            self._result = self._session.finish()
        except BaseException as error:  # noqa: BLE001 - as above
            self._error = error
        finally:
            with self._changed:
                self._ended = True
                self._changed.notify_all()

    def _take(self, event: Event) -> None:
        if isinstance(event, Output):
            if self._on_output is not None:
                self._on_output(event.stream, event.data)
            return
        with self._changed:
            self._progress.append(event)
            self._changed.notify_all()


def _tell(event: Event, on_progress: OnProgress | None, on_output: OnOutput | None) -> None:
    if isinstance(event, Output):
        if on_output is not None:
            on_output(event.stream, event.data)
    elif on_progress is not None:
        on_progress(event)


def _stop(session: Session, options: Options) -> None:
    """Until it has ended, also where Ctrl-C comes a second time: that one kills what the first one has asked to end."""
    while True:
        session.cancel()
        try:
            _pump(session, options, lambda event: None)
        except KeyboardInterrupt:
            continue
        with contextlib.suppress(UsageError):
            session.finish()
        return


def _pump(session: Session, options: Options, tell: Callable[[Event], None]) -> None:
    """Read until the supervisor has ended, and all that it had read with it."""
    ended = end_descriptor(session.pid)
    try:
        while not session.has_ended():
            watched = session.descriptors if ended is None else (*session.descriptors, ended)
            _read(session, watched, look_s(ended), tell)
            session.kill_if_overdue(options.get("kill_after_s"))
        deadline_s = time.monotonic() + DRAIN_S
        while session.descriptors and (left_s := deadline_s - time.monotonic()) > 0:
            _read(session, session.descriptors, left_s, tell)
    finally:
        if ended is not None:
            os.close(ended)


def _read(session: Session, watched: tuple[int, ...], timeout_s: float, tell: Callable[[Event], None]) -> None:
    for descriptor in wait_readable(watched, timeout_s):
        if descriptor in session.descriptors:
            for event in session.read(descriptor):
                tell(event)
