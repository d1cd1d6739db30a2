"""Looking at a silent command: CPU of a pair of looks with its verdict, the states sampled between included."""

import os
import resource
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from benchmarks.installation import Installation

FEW_MS, MANY_MS, HOUR_S = 5.0, 30.0, 2.0
SOCKETS_FACTOR = 1.5
INTERVAL_S = 10
_PAIRS = 7
_BETWEEN_S = 0.1


def few(_: Installation) -> dict[str, float | str]:
    """Ten processes: a shell, and pipelines of sleepers and readers."""
    with _command("for i in 1 2 3; do (sleep 600 | cat) & done; wait", 10) as pid:
        return _row("look-few", "CPU ms of two looks and a verdict, 10 processes", _cost_ms(pid), FEW_MS)


def many(_: Installation) -> dict[str, float | str]:
    """Two hundred of them."""
    with _command("i=0; while [ $i -lt 66 ]; do (sleep 600 | cat) & i=$((i+1)); done; wait", 199) as pid:
        return _row("look-many", "CPU ms of two looks and a verdict, 199 processes", _cost_ms(pid), MANY_MS)


def sockets(_: Installation) -> dict[str, float | str]:
    """A thousand connections of others, and nobody waits on one: times of the cost without them."""
    with _command("sleep 600; true", 2) as pid, ExitStack() as opened:
        without_ms = _cost_ms(pid)
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 4096)), hard))
        server = opened.enter_context(socket.create_server(("127.0.0.1", 0), backlog=1024))
        for _ in range(500):
            opened.enter_context(socket.create_connection(server.getsockname()))
            opened.enter_context(server.accept()[0])
        factor = _cost_ms(pid) / without_ms
    return {
        "name": "look-net",
        "what": "times the cost of a look, with 1,000 sockets of others open",
        "ratio": round(factor, 2),
        "limit": f"<= {SOCKETS_FACTOR:g}",
        "ok": factor <= SOCKETS_FACTOR,
        "detail": f"{without_ms:.2f} ms without",
    }


def hour(_: Installation) -> dict[str, float | str]:
    """A silent client of a server: an hour of heartbeats every ten seconds, each with its pair of looks."""
    server = "s=socket.create_server(('127.0.0.1',0))"
    program = f"import socket; {server}; c=socket.create_connection(s.getsockname()); c.recv(1)"
    with _command(f'python3 -c "{program}"; true', 2) as pid:
        total_s = _cost_ms(pid) / 1000 * 3600 / INTERVAL_S
    return _row("look-hour", f"CPU s of the looks in an hour of silence, every {INTERVAL_S} s", total_s, HOUR_S)


def _row(name: str, what: str, figure: float, limit: float) -> dict[str, float | str]:
    return {
        "name": name,
        "what": what,
        "ratio": round(figure, 2),
        "limit": f"<= {limit:g}",
        "ok": figure <= limit,
        "detail": f"median of {_PAIRS} pairs",
    }


def _cost_ms(pid: int) -> float:
    from collectors import Looker, observe
    from sidecar.core.verdict import judge

    looker, costs = Looker(pid), []
    for _ in range(_PAIRS):
        started_s = time.thread_time()
        judge(*observe(looker, seconds=_BETWEEN_S))
        costs.append((time.thread_time() - started_s) * 1000)
    return sorted(costs)[_PAIRS // 2]


@contextmanager
def _command(script: str, processes: int) -> Iterator[int]:
    """The pid of a shell that runs it, once its tree has that many processes that sleep."""
    from collectors import Kernel
    from collectors.processes import Tree

    command = subprocess.Popen(["/bin/sh", "-c", script], start_new_session=True, stdout=subprocess.DEVNULL)
    try:
        end_s = time.monotonic() + 30
        while time.monotonic() < end_s:
            tree = Tree(Kernel())
            tree.walk([command.pid])
            states = [process.state for process in tree.processes.values()]
            if len(states) >= processes and set(states) == {"S"}:
                break
            time.sleep(0.05)
        yield command.pid
    finally:
        os.killpg(command.pid, signal.SIGKILL)
        command.wait()
