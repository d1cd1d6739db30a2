"""A test aid: what subscribers are told of one supervised command, and what `sidecar ps --json` says of it."""

import contextlib
import json
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from supervised import WAIT_S, Installation

from sidecar.daemon import client

Record = dict[str, Any]


class Watched:
    """One running command: `process` is its supervisor, `frames` all that a subscriber was told of it so far."""

    def __init__(
        self, sidecar: Installation, process: "subprocess.Popen[bytes]", subscription: client.Subscription, call_id: str
    ) -> None:
        self.process = process
        self.frames: list[Record] = []
        self.call_id = call_id
        self._sidecar = sidecar
        self._subscription = subscription

    def until(self, wanted: Callable[[Record], bool], within_s: float = WAIT_S) -> Record:
        """The next frame that is wanted. Fails the test without one."""
        deadline_s = time.monotonic() + within_s
        while (record := self._subscription.next_within(max(0.0, deadline_s - time.monotonic()))) is not None:
            self.frames.append(record)
            if wanted(record):
                return record
        pytest.fail(f"no such frame within {within_s} s; there were {self.frames}")

    def verdict(self, *names: str, within_s: float = WAIT_S) -> Record:
        """The next verdict frame; with `names` the next that is one of them."""
        return self.until(lambda r: r.get("type") == "verdict" and (not names or r["verdict"] in names), within_s)

    def beat(self, within_s: float = WAIT_S) -> Record:
        """`_meta.sidecar` of the next heartbeat."""
        found: Record = self.until(lambda r: "_meta" in r, within_s)["_meta"]["sidecar"]
        return found

    def listed(self) -> Record:
        """The command's entry in `sidecar ps --json`."""
        words = [str(self._sidecar.script), "ps", "--json"]
        done = subprocess.run(words, env=self._sidecar.environ, capture_output=True, check=True, timeout=WAIT_S)
        return next(entry for entry in json.loads(done.stdout) if entry.get("toolCallId") == self.call_id)

    def silences(self) -> list[Any]:
        """As the web page gets them: core.silences."""
        answers = client.request(self._sidecar.socket, "list", silences=True)
        found: list[Any] = next(each["silences"] for each in answers if each.get("toolCallId") == self.call_id)
        return found


@contextlib.contextmanager
def watched(
    sidecar: Installation, *command: str, flags: tuple[str, ...] = (), env: dict[str, str] | None = None, **options: Any
) -> Iterator[Watched]:
    """Run a command and subscribe to what is told of it, from before its start."""
    call_id = uuid.uuid4().hex
    environ = {**sidecar.environ, **(env or {})}
    with (
        client.subscribe(environ["SIDECAR_SOCKET"], {"toolCallId": call_id}) as subscription,
        sidecar.started(*command, flags=("--tool-call-id", call_id, *flags), env=environ, **options) as process,
    ):
        yield Watched(sidecar, process, subscription, call_id)
