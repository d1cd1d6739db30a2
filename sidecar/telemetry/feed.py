"""Frames in, telemetry out: for a process without a daemon's registry."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sidecar.core import frame as wire
from sidecar.core.errors import FrameError, LifecycleError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sidecar.core.command import Command
    from sidecar.telemetry.pipeline import Telemetry


class Feed:
    """Keeps the commands that run, and tells `telemetry` what their frames say. One thread at a time."""

    def __init__(self, telemetry: Telemetry) -> None:
        self.commands: dict[str, Command] = {}
        self._telemetry = telemetry

    def take(self, line: bytes, now_ns: int) -> None:
        """One frame as it is on the wire, received at `now_ns` (monotonic). Raises FrameError, LifecycleError."""
        frame = wire.parse(line)
        if frame is None:
            return
        telemetry = self._telemetry
        command = self.commands.get(str(frame["commandId"]))
        if command is None:
            from sidecar.core.command import Command

            command = Command(frame, now_ns)
            if command.settled is None:
                self.commands[command.id] = command
                telemetry.command_started(command)
            else:
                telemetry.command_settled(command)
            return
        verdicts_before = command.verdict_count
        if not command.apply(frame, now_ns):
            return
        if frame["type"] == wire.PROGRESS:
            telemetry.heartbeat(command, frame)
        elif frame["type"] == wire.VERDICT and (command.verdict_count != verdicts_before or "limit" in frame):
            telemetry.verdict_changed(command, frame)
        elif frame["type"] == wire.SETTLED:
            del self.commands[command.id]
            telemetry.command_settled(command)

    def take_whole(self, lines: Iterable[bytes], now_ns: int) -> None:
        """All the frames of one command that is over; one that does not say so is lost."""
        known = set(self.commands)
        for line in lines:
            try:
                self.take(line, now_ns)
            except (FrameError, LifecycleError):
                continue
        for command_id in self.commands.keys() - known:
            command = self.commands.pop(command_id)
            command.lose(now_ns)
            self._telemetry.command_settled(command)
