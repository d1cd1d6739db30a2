"""Stands for the supervisor: starts one command as its child, takes its output, and looks at it when told.

A process of its own for each scenario, started by the stage (which stands for the agent), so that parents, pipes,
sessions and users are as in production. It reads orders from its standard input and writes events to its standard
output, both JSON lines:

    {"start": {"argv", "terminal", "stdin": null or a descriptor, "env", "cwd", "drain"}}   -> {"pid": N}
    {"type": TEXT}            keys for the terminal
    {"flow": "off"|"on"}      stop and start the terminal's output, as ^S and ^Q do
    {"look": [LEVEL...], "interval_s": S}   -> {"verdicts": {LEVEL: {...}}}
                                            -> {"output": TEXT} whenever there is some
"""

from __future__ import annotations

import ctypes
import fcntl
import importlib
import json
import os
import pkgutil
import pty
import signal
import subprocess
import sys
import termios
import threading
from typing import Any

import collectors
import sidecar.core
from tests.verdicts.engine import Engine

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_CHILD_SUBREAPER = 1, 4, 36
_CLONE_NEWNET, _CLONE_NEWNS, _MS_BIND, _MS_REC, _MS_PRIVATE = 0x40000000, 0x20000, 4096, 16384, 1 << 18
_libc = ctypes.CDLL(None, use_errno=True)
_say_lock = threading.Lock()


def say(**event: Any) -> None:
    with _say_lock:
        sys.stdout.write(json.dumps(event) + "\n")
        sys.stdout.flush()


def call(function: str, *arguments: Any) -> None:
    if getattr(_libc, function)(*arguments) != 0:
        raise OSError(ctypes.get_errno(), f"{function}: {os.strerror(ctypes.get_errno())}")


def enter(place: dict[str, Any]) -> None:
    """Go where the command shall run: network namespace, resolver, user."""
    os.setsid()
    if place.get("network"):
        with open(place["network"]) as namespace:
            call("setns", namespace.fileno(), _CLONE_NEWNET)
    if place.get("resolver"):
        call("unshare", _CLONE_NEWNS)
        call("mount", None, b"/", None, _MS_REC | _MS_PRIVATE, None)
        call("mount", place["resolver"].encode(), b"/etc/resolv.conf", None, _MS_BIND, None)
    if place.get("uid"):
        os.setgroups([])
        os.setresgid(place["gid"], place["gid"], place["gid"])
        os.setresuid(place["uid"], place["uid"], place["uid"])
        # Changing the user makes a process unreadable to that very user, as an exec would undo (prctl(2)).
        call("prctl", _PR_SET_DUMPABLE, 1, 0, 0, 0)
    call("prctl", _PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


class Host:
    def __init__(self) -> None:
        self.command: subprocess.Popen[bytes] | None = None
        self.master: int | None = None
        self.slave: int | None = None
        self.output: int = -1
        self.engine: Engine | None = None

    def start(self, order: dict[str, Any]) -> None:
        stdin = order["stdin"] if order["stdin"] is not None else subprocess.DEVNULL
        if order["terminal"]:
            self.master, self.slave = pty.openpty()
            self.output, sink, stdin = self.master, self.slave, self.slave
        else:
            self.output, sink = os.pipe()
        terminal = self.slave

        def become() -> None:
            _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            if terminal is not None:
                os.setsid()
                fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)

        self.command = subprocess.Popen(
            order["argv"], stdin=stdin, stdout=sink, stderr=sink, env=order["env"], cwd=order["cwd"], preexec_fn=become
        )
        if not order["terminal"]:
            os.close(sink)
        if order["stdin"] is not None:
            os.close(order["stdin"])
        self.engine = Engine(self.command.pid, self.slave, order["drain"])
        threading.Thread(target=self._reap, daemon=True).start()
        if order["drain"]:
            threading.Thread(target=self._drain, daemon=True).start()
        say(pid=self.command.pid)

    def _reap(self) -> None:
        assert self.command
        while True:
            try:
                pid, status = os.waitpid(-1, 0)
            except ChildProcessError:
                say(alone=True)
                return
            if pid == self.command.pid and self.engine:
                self.engine.exit_status = status
                say(exited=True)

    def _drain(self) -> None:
        while True:
            try:
                chunk = os.read(self.output, 65536)
            except OSError:
                return
            if not chunk:
                return
            say(output=chunk.decode("latin-1"))

    def obey(self, order: dict[str, Any]) -> None:
        if "start" in order:
            self.start(order["start"])
        elif "type" in order:
            assert self.master is not None
            os.write(self.master, order["type"].encode())
        elif "flow" in order:
            assert self.slave is not None
            termios.tcflow(self.slave, termios.TCOOFF if order["flow"] == "off" else termios.TCOON)
        elif "look" in order:
            assert self.engine
            say(verdicts=self.engine.look(order["look"], order["interval_s"]))


def load_everything() -> None:
    """Import what the engine may import later: the user that we become may not be able to read our files."""
    for package in (collectors, sidecar.core):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)


def main() -> None:
    load_everything()
    enter(json.loads(sys.argv[1]))
    host = Host()
    for line in sys.stdin:
        try:
            host.obey(json.loads(line))
        except Exception as error:  # noqa: BLE001  # the stage shall hear of it, whatever it is
            say(error=f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    main()
