"""No command unaccounted for: the ledger's entries are taken up where frames never came, and removed when all is safe.

An entry is removed once the telemetry has put into the spool what it was told of the command's end: before that, the
death of this daemon would leave nothing. A daemon that is killed in between leaves an entry of which all is told; the
next one tells it again, with the same ids.
"""

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Final

from sidecar.daemon.ledger import Ledger
from sidecar.daemon.server import Server

log = logging.getLogger(__name__)

_SAVE_EVERY_S: Final = 0.25
_LOOK_EVERY_NS: Final = 1_000_000_000
_AFTER_FAILURE_S: Final = 2.0


class Accounting:
    """Belongs to the server's event loop, save for `_save`. `close` when the telemetry has ended."""

    def __init__(self, server: Server, *, clock_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self._server = server
        self._producers = server.producers
        self._ledger: Ledger = server.producers.ledger
        self._clock_ns = clock_ns
        self._looked_ns: int | None = None
        self._saving: deque[str] = deque()

    async def run(self) -> None:
        while True:
            self._look()
            pause_s = _SAVE_EVERY_S
            if not await self._save():
                pause_s = _AFTER_FAILURE_S
            await asyncio.sleep(pause_s)

    def close(self, *, saved: bool) -> None:
        """The telemetry has ended; `saved` where all of it was sent, or is in the spool on the disk."""
        if saved:
            self._ledger.remove(self._saving)
            self._ledger.remove(self._producers.settled)
        self._ledger.close()

    def _look(self) -> None:
        now_ns = self._clock_ns()
        if self._looked_ns is not None and now_ns - self._looked_ns < _LOOK_EVERY_NS:
            return
        self._looked_ns = now_ns
        for command_id, frames in self._ledger.orphans(self._server.registry.knows, now_ns):
            log.info("command %s: its frames never came; it is told of from the ledger", command_id)
            self._producers.take_up(command_id, frames)

    async def _save(self) -> bool:
        """Whether all that was told so far is safe. On a thread of its own: the disk may be slow."""
        settled = self._producers.settled
        while settled:
            self._saving.append(settled.popleft())
        loop = asyncio.get_running_loop()
        done = loop.create_future()

        def tell(saved: bool) -> None:
            if not done.done():
                done.set_result(saved)

        def save() -> None:
            saved = self._server.sink.save()
            try:
                loop.call_soon_threadsafe(tell, saved)
            except RuntimeError:
                pass  # the loop has ended meanwhile

        # Not the loop's executor, which would be waited for at the end, however long the disk takes.
        threading.Thread(target=save, name="sidecar-save", daemon=True).start()
        if not await done:
            return False
        self._ledger.remove(self._saving)
        self._saving.clear()
        return True
