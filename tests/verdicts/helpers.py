"""What is around a command: peers, holders of locks; and how anything that they or it say is awaited."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.verdicts import procfs

PATIENCE_S = 90.0
"""How long any event may take on a loaded machine. A scenario that takes longer has failed to be staged."""

POLL_S = 0.02


class StagingError(Exception):
    """A scenario did not come to its state, so that nothing can be said about its verdict."""


class Speaker:
    """A process whose standard output we read in a thread, and whose words can be awaited."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.said = ""
        self.ended = False

    def append(self, text: str) -> None:
        with self.changed:
            self.said += text
            self.changed.notify_all()

    def end(self) -> None:
        with self.changed:
            self.ended = True
            self.changed.notify_all()

    def await_text(self, text: str, what: str) -> str:
        with self.changed:
            self.changed.wait_for(lambda: text in self.said or self.ended, PATIENCE_S)
            if text not in self.said:
                raise StagingError(f"{what} did not say {text!r}: {self.said[-400:]!r}")
            return self.said


class Helper(Speaker):
    """Something around the command: a peer, a holder of a lock. Ends when the stage closes its standard input, or is
    killed."""

    def __init__(self, argv: list[str], **options: Any) -> None:
        super().__init__()
        self.process = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **options
        )
        self.name = f"helper {argv[:6]}"
        threading.Thread(target=self._read, daemon=True).start()

    @property
    def pid(self) -> int:
        return self.process.pid

    def _read(self) -> None:
        assert self.process.stdout
        while chunk := os.read(self.process.stdout.fileno(), 65536):
            self.append(chunk.decode("latin-1"))
        self.end()

    def expect(self, text: str) -> str:
        """Await `text` in what it says; all it said."""
        return self.await_text(text, self.name)

    def number(self, word: str) -> int:
        """The number behind `word` at the start of one of its lines."""
        said = self.expect(word + " ")
        while True:
            line = next(line for line in said.splitlines(keepends=True) if line.startswith(word + " "))
            if line.endswith("\n"):
                return int(line.split()[1])
            said = self.expect("\n")

    def tell(self, text: str) -> None:
        assert self.process.stdin
        self.process.stdin.write(text.encode())
        self.process.stdin.flush()

    def stop(self) -> None:
        """SIGSTOP, and await that it has stopped."""
        os.kill(self.pid, signal.SIGSTOP)
        await_that(lambda: procfs.state(self.pid) == "T", f"{self.name} does not stop")

    def close(self) -> None:
        with contextlib.suppress(OSError):
            os.kill(self.pid, signal.SIGCONT)
        with contextlib.suppress(OSError):
            assert self.process.stdin
            self.process.stdin.close()
        try:
            self.process.wait(1 if self.said else 0.2)
        except subprocess.TimeoutExpired:
            procfs.kill_tree([self.pid])
            self.process.wait(PATIENCE_S)


@dataclass(frozen=True)
class Peer:
    """The other side of a connection; it says `accepted` and `data` as they happen."""

    helper: Helper
    host: str
    port: int

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}/"

    def expect(self, text: str) -> str:
        return self.helper.expect(text)


def await_that(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > deadline:
            raise StagingError(what)
        time.sleep(POLL_S)
