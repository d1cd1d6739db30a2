"""A test aid: what supervisors say to a daemon, taken down frame by frame by a listener in its place."""

import json
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from supervised import until

Frame = dict[str, Any]


class FrameListener:
    """Listens at `path` (in `folder`, which it makes private) until it is closed."""

    def __init__(self, folder: Path) -> None:
        folder.chmod(0o700)
        self.path = str(folder / "frames.sock")
        self._frames: list[Frame] = []
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(self.path)
        self._socket.listen(64)
        self._connections: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def environ(self, environ: dict[str, str], **more: str) -> dict[str, str]:
        return {**environ, "SIDECAR_SOCKET": self.path, **more}

    @property
    def frames(self) -> list[Frame]:
        return list(self._frames)

    def of_type(self, kind: str) -> list[Frame]:
        return [frame for frame in self.frames if frame["type"] == kind]

    def until(self, kind: str, condition: Callable[[Frame], bool] = lambda _: True) -> Frame:
        """The first frame of that type that is so; waits for it."""
        found = until(lambda: [frame for frame in self.of_type(kind) if condition(frame)])
        return found[0]  # type: ignore[no-any-return]

    def settled(self) -> Frame:
        return self.until("command_settled")

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            self._connections.append(connection)
            threading.Thread(target=self._read, args=(connection,), daemon=True).start()

    def _read(self, connection: socket.socket) -> None:
        try:
            with connection.makefile("rb") as lines:
                for line in lines:
                    self._frames.append(json.loads(line))
        except (OSError, ValueError):
            return

    def __enter__(self) -> "FrameListener":
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()
        for connection in self._connections:
            connection.close()
