"""Where a command's frames go: to the daemon, or inline where that was asked for or no daemon can be had."""

import time

from sidecar.core import frame_line as wire
from sidecar.core.errors import FrameError
from sidecar.places import socket_path
from sidecar.supervisor.notes import Notes

TYPE_CHECKING = False  # typing.TYPE_CHECKING, without the 7 ms of importing typing
if TYPE_CHECKING:
    from sidecar.supervisor.frames_fd import FrameCopy
    from sidecar.supervisor.ledger import Entry
    from sidecar.supervisor.link import Link
    from sidecar.supervisor.options import RunOptions
    from sidecar.supervisor.reports import Frame
    from sidecar.supervisor.run import InlineFactory, InlineSink

_INLINE_BUDGET_S = 1.0
_MAX_BEFORE = 64
_HANDOVER_NS = 50_000_000
"""How long the exit may be held by a daemon that does not take the last frame."""


class Delivery:
    """Takes frames; never raises, never blocks (`close` at most for the stated budgets).

    `entry` is the command's in the ledger, for a daemon that does not live to do its part.
    """

    def __init__(
        self,
        options: "RunOptions",
        environ: dict[str, str],
        inline_factory: "InlineFactory",
        entry: "Entry | None" = None,
    ) -> None:
        self._entry = entry
        self._options = options
        self._environ = environ
        self._inline_factory = inline_factory
        self._notes = Notes(options.log)
        self._inline: InlineSink | None = None
        self._before: list[Frame] = []
        self._copy = None if options.frames_fd is None else self._make_copy(options.frames_fd)
        self.link: Link | None = None
        if options.inline:
            self._go_inline()
        else:
            self._make_link()

    def send(self, frame: "Frame") -> None:
        try:
            if self._copy is not None:
                self._copy.put(frame)
            self._send(frame)
        except Exception as error:  # noqa: BLE001 - a package that is upgraded meanwhile has no module to load any more
            self._notes.write(f"frame not sent: {error!r}")

    def _send(self, frame: "Frame") -> None:
        line = None
        if self._entry is not None and frame["type"] in (wire.STARTED, wire.SETTLED):
            # Before a daemon can have it, and do away with the entry.
            line = self._enter(self._entry, frame)
        if self._inline is not None:
            self._inline.put(frame)
            return
        if self.link is None:
            self._fall_back(frame)
            return
        self.link.send(frame, time.monotonic_ns(), line)
        if self.link.unavailable:
            self._fall_back(frame)
        elif not self.link.ever_connected:
            self._keep(frame)

    def _enter(self, entry: "Entry", frame: "Frame") -> bytes | None:
        """The line that was entered."""
        try:
            line = wire.encode(frame)
        except FrameError as error:
            self._notes.write(f"frame not entered: {error}")
            return None
        if frame.get("reason") == "spawn_failed":
            entry.replace(line)
        else:
            entry.add(line)
        return line

    def close(self) -> None:
        """The last frame was sent: hand over what is unsent, within a budget, and let go."""
        if self._copy is not None:
            self._copy.close()
        if self._inline is not None:
            self._let_go_of_entry(is_safe=self._inline.close(_INLINE_BUDGET_S))
            return
        if self.link is not None:
            self._hand_over(self.link)
        if self.link is None or not self.link.ever_connected:
            self._leave()

    def _hand_over(self, link: "Link") -> None:
        deadline_ns = time.monotonic_ns() + _HANDOVER_NS
        while not link.settled_delivered:
            now_ns = time.monotonic_ns()
            if now_ns >= deadline_ns:
                self._notes.write("the last frames could not be handed to a daemon")
                break
            if link.descriptor is None:
                # `send` has just tried; once more, since another supervisor may be starting the daemon.
                link.connect(now_ns)
                deadline_ns = 0 if link.descriptor is None else deadline_ns
            else:
                link.flush(now_ns)
            if deadline_ns and not link.settled_delivered:
                time.sleep(0.002)
        link.close()

    def _make_copy(self, descriptor: int) -> "FrameCopy":
        from sidecar.supervisor.frames_fd import FrameCopy

        return FrameCopy(descriptor, self._notes)

    def _make_link(self) -> None:
        from sidecar.supervisor.link import Link

        try:
            path = socket_path(self._environ, self._options.socket)
        except OSError:
            return  # a relative path, and the working folder is gone
        names = self._options.daemon_environment

        def start() -> None:
            from sidecar.supervisor.activate import ensure_listening

            ensure_listening(path, self._environ, names, time.time())

        self.link = Link(path, start, self._notes)
        self.link.connect(time.monotonic_ns())

    def _fall_back(self, frame: "Frame") -> None:
        """No daemon is to be had. The heavy telemetry is loaded only once a command is silent for an interval:
        one that ends before never pays for it, and leaves its frames to whoever exports next."""
        self._keep(frame)
        if frame["type"] == wire.PROGRESS:
            self._notes.write("no daemon can be had: telemetry goes inline")
            self._go_inline()
            for earlier in self._before:
                if self._inline is not None:
                    self._inline.put(earlier)
            if self.link is not None:
                self.link.close()
                self.link = None

    def _keep(self, frame: "Frame") -> None:
        # Of the notes on output only the last says something; so this stays short until the first beat, by which we
        # have gone inline, or are connected.
        if self._before and frame["type"] == self._before[-1]["type"] == wire.ACTIVITY:
            self._before.pop()
        if len(self._before) < _MAX_BEFORE or frame["type"] == wire.SETTLED:
            self._before.append(frame)

    def _leave(self) -> None:
        """The command is over, and no daemon could be had for a moment of it: its frames go beside the spool."""
        left = False
        if self._options.spool_max_bytes and self._environ.get("OTEL_SDK_DISABLED", "").strip().lower() != "true":
            try:
                from sidecar.telemetry.leftovers import leave
                from sidecar.telemetry.spool_place import default_path

                path = self._options.spool or default_path(self._environ)
                left = path is not None and leave(path, [wire.encode(frame) for frame in self._before])
            except Exception as error:  # noqa: BLE001 - as above: no module any more, or a frame that is none
                self._notes.write(f"frames not left: {error!r}")
        self._let_go_of_entry(is_safe=left)
        what = "left to the next one" if left else "not recorded"
        self._notes.write(f"no daemon can be had, and the command is over: it is {what}")

    def _let_go_of_entry(self, *, is_safe: bool) -> None:
        """What is not safe elsewhere waits for a daemon."""
        if self._entry is None:
            return
        if is_safe:
            self._entry.remove()
        else:
            self._entry.remove_if_crowded()

    def _go_inline(self) -> None:
        try:
            self._inline = self._inline_factory()
        except Exception as error:  # noqa: BLE001 - telemetry may fail in every way it likes
            self._notes.write(f"no inline telemetry: {error!r}")
            self._inline = _Nowhere()


class _Nowhere:
    def put(self, frame: "Frame") -> None:
        """Telemetry could not be loaded: there is nobody to tell."""

    def close(self, budget_s: float) -> bool:
        """Nobody has anything."""
        return False
