"""For asyncio: `arun` waits, `astart` gives a handle. Without threads: the loop watches the descriptors."""

import asyncio
import inspect
import os
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from types import TracebackType
from typing import Self, Unpack

from sidecar.library.options import Options, Words
from sidecar.library.progress import Progress
from sidecar.library.result import Result
from sidecar.library.session import DRAIN_S, KEPT_PROGRESS, Event, Output, Session, end_descriptor, look_s

OnProgress = Callable[[Progress], Awaitable[object] | object]
OnOutput = Callable[[str, bytes], object]


async def arun(
    command: Words,
    *,
    on_progress: OnProgress | None = None,
    on_output: OnOutput | None = None,
    **options: Unpack[Options],
) -> Result:
    """Run `command` under supervision and wait for its end.

    `on_progress`, which may be a coroutine function, is called with each heartbeat and each change of verdict,
    `on_output` with ("stdout" or "stderr", bytes) as they come. Where the task is cancelled, or one of them raises, the
    command is stopped first; it has ended when this is left. Raises UsageError for a wrong option.
    """
    async with astart(command, on_output=on_output, **options) as running:
        async for progress in running:
            if on_progress is not None:
                answer = on_progress(progress)
                if inspect.isawaitable(answer):
                    await answer
        return await running.wait()


def astart(command: Words, *, on_output: OnOutput | None = None, **options: Unpack[Options]) -> "AsyncCommand":
    """Start `command` under supervision, in the running loop. Raises UsageError for a wrong option."""
    loop = asyncio.get_running_loop()
    return AsyncCommand(loop, Session(command, options), options, on_output)


class AsyncCommand:
    """A command that runs.

    Iterating gives each heartbeat and change of verdict (of the last thousand) until the end. As a context manager it
    waits for the end; where its block raises, or is cancelled, the command is stopped first.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, session: Session, options: Options, on_output: OnOutput | None
    ) -> None:
        self._loop = loop
        self._session = session
        self._options = options
        self._on_output = on_output
        self._progress: deque[Progress] = deque(maxlen=KEPT_PROGRESS)
        self._news = asyncio.Event()
        self._result: Result | None = None
        self._error: BaseException | None = None
        self._ended = asyncio.Event()
        self._drained_s: float | None = None
        self._ender = end_descriptor(session.pid)
        session.before_close = loop.remove_reader
        for descriptor in session.descriptors:
            loop.add_reader(descriptor, self._ready, descriptor)
        if self._ender is not None:
            loop.add_reader(self._ender, self._look)
        self._timer = loop.call_later(look_s(self._ender), self._look_again)

    @property
    def pid(self) -> int:
        """The supervisor's: signals to it are the command's."""
        return self._session.pid

    @property
    def command_id(self) -> str | None:
        """As `sidecar ps` and telemetry have it; None until the supervisor has said it, a moment after the start."""
        return self._session.command_id

    async def __aiter__(self) -> AsyncIterator[Progress]:
        while True:
            while self._progress:
                yield self._progress.popleft()
            if self._ended.is_set():
                return
            self._news.clear()
            await self._news.wait()

    def cancel(self) -> None:
        """Stop the whole tree: TERM, and KILL after the grace; never waits.

        Asked again, half a second later or more: KILL at once.
        """
        self._session.cancel()

    async def wait(self) -> Result:
        """The end. Raises UsageError for a wrong option, and what `on_output` raised.

        To give up waiting (asyncio.timeout) leaves the command running.
        """
        await self._ended.wait()
        if self._error is not None:
            raise self._error
        assert self._result is not None
        return self._result

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        cancelled: asyncio.CancelledError | None = None
        if kind is not None:
            self.cancel()
        while not self._ended.is_set():
            try:
                await self._ended.wait()
            except asyncio.CancelledError as again:
                # The first one stops it, a further one kills it; it is left when it has ended.
                cancelled = again
                self.cancel()
        if cancelled is not None:
            raise cancelled
        if kind is None and self._error is not None:
            raise self._error

    def _ready(self, descriptor: int) -> None:
        for event in self._session.read(descriptor):
            self._take(event)
        if self._drained_s is not None:
            self._look()

    def _take(self, event: Event) -> None:
        if not isinstance(event, Output):
            self._progress.append(event)
            self._news.set()
        elif self._on_output is not None and self._error is None:
            try:
                self._on_output(event.stream, event.data)
            except BaseException as error:  # noqa: BLE001 - it is the caller's, who gets it from wait()
                self._error = error
                self._session.cancel()

    def _look_again(self) -> None:
        self._look()
        if not self._ended.is_set():
            self._timer = self._loop.call_later(look_s(self._ender), self._look_again)

    def _look(self) -> None:
        if self._ended.is_set():
            return
        if not self._session.has_ended():
            self._session.kill_if_overdue(self._options.get("kill_after_s"))
            return
        if self._drained_s is None:
            self._drained_s = time.monotonic() + DRAIN_S
            if self._ender is not None:
                self._loop.remove_reader(self._ender)
        if not self._session.descriptors or time.monotonic() >= self._drained_s:
            self._finish()

    def _finish(self) -> None:
        self._timer.cancel()
        if self._ender is not None:
            os.close(self._ender)
        try:
            self._result = self._session.finish()
        except BaseException as error:  # noqa: BLE001 - as above
            self._error = self._error or error
        self._ended.set()
        self._news.set()
