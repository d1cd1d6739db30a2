"""Frames, a recording sink and a server on a thread, for the tests of the daemon."""

import asyncio
import contextlib
import json
import os
import socket
import threading
from collections.abc import Callable
from typing import Any, Self

from sidecar import rendezvous
from sidecar.daemon import client
from sidecar.daemon.connection import Limits
from sidecar.daemon.server import Server
from sidecar.daemon.sink import NullSink

Frame = dict[str, Any]
WAIT_S = 60.0


def started(command_id: str = "c", seq: int = 0, **extra: object) -> Frame:
    return {
        "v": 1,
        "type": "command_started",
        "commandId": command_id,
        "seq": seq,
        "traceId": "a" * 32,
        "spanId": "b" * 16,
        "traceFlags": "01",
        "supervisorPid": 10,
        "pid": 11,
        "program": "make",
        "heartbeatIntervalMs": 10_000,
        "io": "pipe",
        "startUnixMs": 0,
        "startMonotonicMs": 0,
        **extra,
    }


def beat(command_id: str = "c", seq: int = 1, **extra: object) -> Frame:
    payload = {"type": "shell_progress", "elapsedMs": seq * 10_000}
    return {
        "v": 1,
        "type": "shell_progress",
        "commandId": command_id,
        "seq": seq,
        "shellProgress": payload,
        **extra,
    }


def activity(command_id: str = "c", seq: int = 1, **extra: object) -> Frame:
    counts = {"elapsedMs": seq * 1000, "lastOutputAgeMs": 0, "totalLines": seq, "totalBytes": seq * 10}
    return {"v": 1, "type": "output_activity", "commandId": command_id, "seq": seq, **counts, **extra}


def verdict(command_id: str = "c", seq: int = 1, name: str = "busy", **extra: object) -> Frame:
    return {
        "v": 1,
        "type": "verdict",
        "commandId": command_id,
        "seq": seq,
        "elapsedMs": seq,
        "verdict": name,
        **extra,
    }


def settled(command_id: str = "c", seq: int = 9, reason: str = "exited", beats: int = 0, **extra: object) -> Frame:
    return {
        "v": 1,
        "type": "command_settled",
        "commandId": command_id,
        "seq": seq,
        "reason": reason,
        "elapsedMs": 90,
        "totalBytes": 0,
        "totalLines": 0,
        "heartbeatCount": beats,
        "longestSilenceMs": 0,
        "descendantsLeft": 0,
        **extra,
    }


class RecordingSink(NullSink):
    """What it was told, as (what, command id) or (what, command id, reason)."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, ...]] = []
        self.provider: Any = None

    def command_started(self, command: Any) -> None:
        self.calls.append(("started", command.id))

    def heartbeat(self, command: Any, frame: Any) -> None:
        self.calls.append(("heartbeat", command.id))

    def verdict_changed(self, command: Any, frame: Any) -> None:
        self.calls.append(("verdict", command.id))

    def command_settled(self, command: Any) -> None:
        self.calls.append(("settled", command.id, command.lifecycle.reason))

    def observe(self, provider: Any) -> None:
        self.provider = provider

    def status(self) -> dict[str, Any]:
        return {"recorded": len(self.calls)}


class Daemon:
    """A real server on a real socket, its loop on a thread. A context manager."""

    def __init__(
        self, folder: Any, sink: Any = None, before: Callable[[str], None] | None = None, **limits: Any
    ) -> None:
        os.chmod(folder, 0o700)
        self.path = os.path.join(folder, "s.sock")
        self.sink = sink or RecordingSink()
        self.server: Server
        self._limits = Limits(**{"grace_s": 0.2, **limits})
        self._before = before
        self._loop: asyncio.AbstractEventLoop
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._main()))

    async def _main(self) -> None:
        listener = socket.socket(fileno=rendezvous.bind_and_listen(self.path).detach())
        if self._before is not None:
            self._before(self.path)
        self._loop = asyncio.get_running_loop()
        self.server = Server(listener, self.path, self.sink, limits=self._limits)
        self.server.start()
        self._ready.set()
        await self.server.stop_requested.wait()
        await self.server.stop(WAIT_S)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(WAIT_S)
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        # RuntimeError: it has just ended by itself.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self.server.stop_requested.set)
        self._thread.join(WAIT_S)
        assert not self._thread.is_alive()

    def producer(self, *frames: Frame) -> "Producer":
        return Producer(self.path, *frames)

    def subscribe(self, **filter: object) -> client.Subscription:
        subscription = client.subscribe(self.path, filter)
        self.list()  # a control request behind it: the subscription has been taken in
        return subscription

    def list(self) -> list[Frame]:
        return list(client.request(self.path, "list"))

    def status(self) -> Frame:
        return client.status(self.path)


class Producer:
    """A client that writes lines."""

    def __init__(self, path: str, *frames: Frame) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(WAIT_S)
        self.socket.connect(path)
        self.send(*frames)

    def send(self, *frames: Frame) -> None:
        self.raw(b"".join(json.dumps(frame).encode() + b"\n" for frame in frames))

    def raw(self, data: bytes) -> None:
        if data:  # to send nothing fails too where the daemon has hung up already
            self.socket.sendall(data)

    def close(self) -> None:
        self.socket.close()

    def is_cut_off(self) -> bool:
        """Wait for the daemon to close this connection."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionResetError:
            return True


def take(subscription: client.Subscription, count: int) -> list[Frame]:
    """The next `count` records; fails where they do not come."""
    records = []
    for _ in range(count):
        record = subscription.next_within(WAIT_S)
        assert record is not None, f"only {records}"
        records.append(record)
    return records


def kinds(records: list[Frame]) -> list[str]:
    return [record.get("type", "native") for record in records]
