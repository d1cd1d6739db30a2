"""A network of our own: a client's and a server's namespace, and a cable. Any of the server's addresses can go silent.

    client 10.77.0.1 ---veth--- server 10.77.1.1, 10.77.1.2, ...

Addresses are resolved by fixed neighbour entries, so that an address that is gone, or was never there, is silence and
no "host unreachable". No packet filter is needed.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import time
from types import TracebackType

_CLIENT = "10.77.0.1"


class Network:
    """Context manager; needs root."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._holders: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Network:
        self._holders = [subprocess.Popen(["unshare", "--net", "sleep", "infinity"]) for _ in range(2)]
        client, server = self._holders
        for holder in self._holders:
            self._await_namespace(holder.pid)
        self.client, self.server = (f"/proc/{holder.pid}/ns/net" for holder in self._holders)
        _run(
            "ip",
            "link",
            "add",
            "cable",
            "netns",
            str(client.pid),
            "type",
            "veth",
            "peer",
            "cable",
            "netns",
            str(server.pid),
        )
        for namespace in (self.client, self.server):
            _inside(namespace, "ip", "link", "set", "lo", "up")
            _inside(namespace, "ip", "link", "set", "cable", "up")
        _inside(self.client, "ip", "addr", "add", f"{_CLIENT}/32", "dev", "cable")
        _inside(self.client, "ip", "route", "add", "10.77.1.0/24", "dev", "cable")
        _inside(self.server, "ip", "route", "add", f"{_CLIENT}/32", "dev", "cable")
        self._server_mac = _link_address(self.server)
        _inside(
            self.server,
            "ip",
            "neigh",
            "replace",
            _CLIENT,
            "lladdr",
            _link_address(self.client),
            "dev",
            "cable",
            "nud",
            "permanent",
        )
        return self

    def __exit__(self, *exc: type[BaseException] | BaseException | TracebackType | None) -> None:
        for holder in self._holders:
            holder.kill()
            holder.wait()

    def silent_address(self) -> str:
        """A new address at which nothing answers."""
        address = f"10.77.1.{next(self._numbers)}"
        _inside(
            self.client,
            "ip",
            "neigh",
            "replace",
            address,
            "lladdr",
            self._server_mac,
            "dev",
            "cable",
            "nud",
            "permanent",
        )
        return address

    def address(self) -> str:
        """A new address of the server's."""
        address = self.silent_address()
        _inside(self.server, "ip", "addr", "add", f"{address}/32", "dev", "cable")
        return address

    def cut(self, address: str) -> None:
        """From now on nothing answers at this address; whoever sends there is told nothing."""
        _inside(self.server, "ip", "addr", "del", f"{address}/32", "dev", "cable")

    @staticmethod
    def _await_namespace(pid: int) -> None:
        own, deadline = os.readlink("/proc/self/ns/net"), time.monotonic() + 60
        while os.readlink(f"/proc/{pid}/ns/net") == own:
            assert time.monotonic() < deadline, "no network namespace"
            time.sleep(0.01)


def _link_address(namespace: str) -> str:
    words = _inside(namespace, "ip", "-o", "link", "show", "cable").split()
    return words[words.index("link/ether") + 1]


def _inside(namespace: str, *argv: str) -> str:
    return _run("nsenter", f"--net={namespace}", *argv)


def _run(*argv: str) -> str:
    done = subprocess.run(argv, capture_output=True, text=True)
    assert done.returncode == 0, (argv, done.stderr)
    return done.stdout
