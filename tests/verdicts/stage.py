"""Puts one scenario on: starts its command under a host, awaits the events that say it has got there, and clears up
by pid.

The stage is the agent: it holds the other ends of the command's pipes. Everything it starts is known by pid, and ends
with it.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from tests.verdicts import procfs
from tests.verdicts.helpers import PATIENCE_S, POLL_S, Helper, Peer, Speaker, StagingError, await_that

if TYPE_CHECKING:
    from tests.verdicts.theatre import Theatre

_CLOCK_TICK_S = 1 / os.sysconf("SC_CLK_TCK")


class Stage(Speaker):
    """One scenario's stage. `said` is the command's output so far; `pid` the command's; `scratch` a folder anybody
    may write."""

    def __init__(self, theatre: Theatre, name: str, unprivileged: bool) -> None:
        super().__init__()
        self.theatre = theatre
        self.name = name
        self.unprivileged = unprivileged
        self.pid = 0
        self.command_exited = threading.Event()
        self._events: dict[str, Any] = {}
        self._host: subprocess.Popen[str] | None = None
        self._stdin: int | None = None
        self._cleanup = contextlib.ExitStack()
        self.scratch = theatre.folder(name, theatre.nobody if unprivileged else None)

    # -- before the command

    def program(self, name: str) -> str:
        """The path of one of our programs (a script, or a compiled one), readable by anybody."""
        return self.theatre.program(name)

    def python(self, code_or_program: str, *arguments: object) -> list[str]:
        """A command line for the system's Python: a program of ours, by its name, or code."""
        interpreter = self.theatre.python
        if code_or_program.endswith(".py"):
            return [interpreter, "-u", self.program(code_or_program), *map(str, arguments)]
        return [interpreter, "-u", "-c", code_or_program, *map(str, arguments)]

    def helper(self, *argv: object, inside: str | None = None) -> Helper:
        """Start something around the command, as ourselves. `inside`: the path of a network namespace."""
        words = [str(word) for word in argv]
        if inside:
            words = ["nsenter", f"--net={inside}", *words]
        helper = Helper(words, cwd=self.scratch, start_new_session=True)
        self.later(helper.close)
        return helper

    def peer(self, mode: str, host: str = "127.0.0.1", inside: str | None = None) -> Peer:
        """A server that behaves as `mode` of programs/peer.py says."""
        helper = self.helper(*self.python("peer.py", mode, host), inside=inside)
        return Peer(helper, host, helper.number("port"))

    def remote_peer(self, mode: str) -> Peer:
        """The same in the server's network namespace, at an address of its own. Needs root."""
        network = self.theatre.network
        return self.peer(mode, network.address(), network.server)

    def later(self, undo: Callable[[], object]) -> None:
        """Call `undo` when the scenario is over: before its command is killed, last one first."""
        self._cleanup.callback(undo)

    # -- the command

    def run(
        self,
        *argv: object,
        terminal: bool = False,
        stdin: str = "null",
        drain: bool = True,
        network: str | None = None,
        resolver: str | None = None,
        env: dict[str, str] | None = None,
    ) -> None:
        """Start the command. `stdin`: null, or pipe (we hold its other end; see `tell`). `drain` False = nobody takes
        its output.

        `network` is the path of a network namespace, `resolver` of the resolv.conf it shall see.
        """
        user = self.theatre.nobody if self.unprivileged else None
        place = {"network": network, "resolver": resolver, **({} if user is None else {"uid": user[0], "gid": user[1]})}
        inherited: int | None = None
        if stdin == "pipe":
            inherited, self._stdin = os.pipe()
        self._host = subprocess.Popen(
            [sys.executable, "-P", "-m", f"{__package__}.host", json.dumps(place)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=None,
            text=True,
            pass_fds=() if inherited is None else (inherited,),
            env=self.theatre.host_environment,
        )
        threading.Thread(target=self._listen, daemon=True).start()
        if inherited is not None:
            os.close(inherited)
        environment = {**self.theatre.environment(self.scratch), **(env or {})}
        words = [str(word) for word in argv]
        self._order(
            start={
                "argv": words,
                "terminal": terminal,
                "stdin": inherited,
                "env": environment,
                "cwd": str(self.scratch),
                "drain": drain,
            }
        )
        self.pid = int(self._await_event("pid", f"starting {words[:4]}"))

    def type(self, keys: str) -> None:
        """Keys for the command's terminal."""
        self._order(type=keys)

    def flow(self, state: str) -> None:
        """`off`: stop the terminal's output, as ^S does."""
        self._order(flow=state)

    def tell(self, text: str) -> None:
        """Write to the command's standard input."""
        assert self._stdin is not None
        os.write(self._stdin, text.encode())

    # -- the events

    def expect(self, text: str) -> str:
        """Await `text` in the command's output."""
        return self.await_text(text, f"the command of {self.name}")

    def until(self, condition: Callable[[], object], what: str) -> None:
        await_that(condition, f"{self.name}: {what}")

    def member(self, name: str) -> int:
        """Await a process of that name (comm) in the command's tree; its pid."""
        found: list[int] = []

        def seen() -> bool:
            found[:] = [pid for pid in self.tree() if procfs.name(pid) == name]
            return bool(found)

        self.until(seen, f"no {name} in the tree")
        return found[0]

    def state(self) -> str | None:
        """The state letter of the command's first process."""
        return procfs.state(self.pid)

    def command_line(self) -> str:
        """The words of the command's first process."""
        with open(f"/proc/{self.pid}/cmdline", encoding="utf-8", errors="replace") as file:
            return file.read().replace("\0", " ")

    def stopped(self, pid: int | None = None) -> None:
        """Await that the process (the command's) is in state T."""
        self.until(lambda: procfs.state(pid or self.pid) in ("T", "t"), "does not stop")

    def rest(self, for_s: float = 0.3) -> None:
        """Await that the whole tree has gone to sleep: nobody is runnable, nobody used CPU, nobody came or went, for
        `for_s`."""
        since, before = time.monotonic(), None

        def resting() -> bool:
            nonlocal since, before
            now = procfs.activity(self.tree())
            if now != before or now.running:
                since, before = time.monotonic(), now
            return time.monotonic() - since >= for_s

        self.until(resting, "the tree does not come to rest")

    def busy(self, cpu_s: float = 0.1) -> None:
        """Await that the tree has used so much CPU time more."""
        start = procfs.cpu_ticks(self.tree())
        self.until(
            lambda: (procfs.cpu_ticks(self.tree()) - start) * _CLOCK_TICK_S >= cpu_s, "the tree does not compute"
        )

    def connecting(self, port: int, seconds: float = 16.0) -> None:
        """Await a connection of ours that is in SYN_SENT towards that port, and has had no answer for long."""
        self._await_socket(lambda link: link.state == "SYN_SENT" and link.retransmits >= 1, port)
        if seconds:
            since = time.monotonic()
            self.until(lambda: time.monotonic() - since > seconds, "time stands still")

    def retransmits(self, port: int, count: int) -> None:
        """Await that so many retransmits to that port were not answered."""
        self._await_socket(lambda link: link.retransmits >= count, port)

    def probes(self, port: int, count: int) -> None:
        """Await that so many keep-alive probes to that port were not answered."""
        self._await_socket(lambda link: link.probes >= count, port)

    def _await_socket(self, condition: Callable[[procfs.Link], bool], port: int) -> None:
        self.until(
            lambda: any(condition(link) for link in procfs.links(self.pid, port)), f"no such connection to {port}"
        )

    def expect_backend(self, query: str, event: str) -> None:
        """Await that the database's server runs that query and waits for that event."""
        self.until(lambda: self.theatre.postgresql.waits(query, event), f"the database does not wait in {query}")

    def tree(self) -> list[int]:
        """The pids of the command's tree: descendants of the host."""
        return procfs.descendants(self._host.pid) if self._host else []

    # -- looking

    def look(self, levels: list[str], interval_s: float = 1.0) -> dict[str, dict[str, Any]]:
        """The verdict at each level of what may be read."""
        self._order(look=levels, interval_s=interval_s)
        found: dict[str, dict[str, Any]] = self._await_event("verdicts", "looking")
        return found

    # -- the host

    def _order(self, **order: Any) -> None:
        assert self._host
        assert self._host.stdin
        self._host.stdin.write(json.dumps(order) + "\n")
        self._host.stdin.flush()

    def _listen(self) -> None:
        assert self._host
        assert self._host.stdout
        for line in self._host.stdout:
            event = json.loads(line)
            if "output" in event:
                self.append(event["output"])
            elif "exited" in event:
                self.command_exited.set()
            else:
                with self.changed:
                    self._events.update(event)
                    self.changed.notify_all()
        self.end()

    def _await_event(self, name: str, what: str) -> Any:
        with self.changed:
            self.changed.wait_for(lambda: name in self._events or "error" in self._events or self.ended, PATIENCE_S)
            if name not in self._events:
                raise StagingError(f"{self.name}, {what}: {self._events.get('error', 'no answer from the host')}")
            return self._events.pop(name)

    # -- the end

    def close(self) -> None:
        try:
            self._cleanup.close()
        finally:
            self._end_host()

    def _end_host(self) -> None:
        if self._host is None:
            return
        procfs.kill_tree(self.tree())
        deadline = time.monotonic() + PATIENCE_S
        while self.tree() and time.monotonic() < deadline:
            time.sleep(POLL_S)
        left = self.tree()
        self._host.kill()
        self._host.wait()
        if self._stdin is not None:
            os.close(self._stdin)
        if left:
            raise StagingError(f"{self.name}: these did not die: {left}")


@contextlib.contextmanager
def staged(theatre: Theatre, name: str, staging: Callable[[Stage], None], unprivileged: bool) -> Iterator[Stage]:
    """A scenario in its state, for as long as the context lasts. Raises StagingError where it does not get there."""
    stage = Stage(theatre, name, unprivileged)
    try:
        staging(stage)
        yield stage
    finally:
        stage.close()
