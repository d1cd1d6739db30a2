"""A command's frames, on the descriptor that --frames-fd names too: for whoever started the supervisor.

The same lines that go to the daemon, without `output_activity`, which is between the two. They are written without
waiting; a reader that does not keep up misses whole frames, never parts of one, and the last frame is given a moment.
"""

import posix
import time

from sidecar.core import frame_line as wire
from sidecar.core.errors import FrameError
from sidecar.supervisor.sink import Sink

TYPE_CHECKING = False  # typing.TYPE_CHECKING, without the 7 ms of importing typing
if TYPE_CHECKING:
    from sidecar.supervisor.notes import Notes
    from sidecar.supervisor.reports import Frame

_MAX_UNSENT_BYTES = 64 * 1024
_LAST_FRAME_S = 0.05


def keep_from_command(descriptor: int, notes: "Notes") -> bool:
    """The command does not get the descriptor. False where it is not open, or where nothing can be written to it."""
    import fcntl

    try:
        posix.set_inheritable(descriptor, False)
        if fcntl.fcntl(descriptor, fcntl.F_GETFL) & posix.O_ACCMODE != posix.O_RDONLY:
            return True
        why = "it is open for reading only"
    except OSError as error:
        why = str(error.strerror)
    notes.write(f"no frames to --frames-fd {descriptor}: {why}")
    return False


class FrameCopy:
    """Takes frames; never raises, and never blocks save in `close`."""

    def __init__(self, descriptor: int, notes: "Notes") -> None:
        self._notes = notes
        self._unsent = bytearray()
        self._sink: Sink | None = None
        try:
            self._sink = Sink(descriptor)
        except OSError as error:
            self._give_up(str(error.strerror))

    def put(self, frame: "Frame") -> None:
        if self._sink is None or frame["type"] == wire.ACTIVITY:
            return
        try:
            line = wire.encode(frame)
        except FrameError as error:
            self._notes.write(f"frame not copied: {error}")
            return
        if len(self._unsent) + len(line) <= _MAX_UNSENT_BYTES or frame["type"] == wire.SETTLED:
            self._unsent += line
        self._flush()

    def close(self) -> None:
        """The last frame was put: wait a moment for room."""
        deadline_s = time.monotonic() + _LAST_FRAME_S
        while self._unsent and self._sink is not None and time.monotonic() < deadline_s:
            time.sleep(0.001)
            self._flush()

    def _flush(self) -> None:
        if self._sink is None:
            return
        try:
            while self._unsent:
                taken = self._sink.write(bytes(self._unsent))
                if not taken:
                    return
                del self._unsent[:taken]
        except OSError as error:
            self._give_up(str(error.strerror))

    def _give_up(self, why: str) -> None:
        self._notes.write(f"no frames to --frames-fd: {why}")
        self._sink = None
        self._unsent.clear()
