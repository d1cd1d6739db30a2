"""One scenario, started as an agent would start it, and everything that the agent can observe of it.

`observe(scenario, environ, wrapped=...)` runs it once in a session and a folder of its own and gives an
`Observation`; the suite compares that of the bare command with that of the wrapped one.
"""

import fcntl
import json
import os
import pty
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import termios
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

WRAPPER = ("sidecar", "run", "--")
WORLD = Path(__file__).with_name("world.py")
LONGEST_S = 40.0
_MARK = "DIFFERENTIAL_RUN"


@dataclass(frozen=True)
class Right:
    """What must be seen where the bare command is itself the hang, or cannot be compared."""

    status: int = 0
    output: bytes = b""
    survivors: tuple[str, ...] = ()
    within_s: float = 15.0


@dataclass(frozen=True)
class Scenario:
    """One row of the suite.

    script     given to `bash -c`; with `$W` in it that shell is the agent's and wraps what it likes, else the whole
               is the command
    streams    how the agent holds stdout and stderr: a key of STREAMS
    stdin      null, closed, socket (open, nothing comes), endless (a pipe, nothing comes); else the bytes in a pipe
    prepare    run in the child before the exec: what the agent gives on with its command
    lent       descriptors passed on purpose: number -> function that opens one
    right      the expectation, instead of a bare run
    racy       to be repeated
    slack_s    by how much the wrapped one may take longer on a loaded machine; one that hangs takes much longer
    world      the command looks at its own world (`$PROBE` runs that), and that is compared
    act        what the agent does meanwhile: called with the started process and the scenario's folder
    """

    name: str
    script: str
    streams: str = "pipes"
    stdin: "str | bytes" = "null"
    prepare: Callable[[], None] | None = None
    lent: dict[int, Callable[[Path], int]] = field(default_factory=dict)
    right: Right | None = None
    racy: bool = False
    world: bool = False
    act: "Callable[[subprocess.Popen[bytes], Path], None] | None" = None
    edit: Callable[[bytes], bytes] = bytes
    slack_s: float = 10.0
    wrapper: tuple[str, ...] = WRAPPER
    skip: Callable[[], str | None] = lambda: None


@dataclass
class Observation:
    """What one run showed. `streams`: bytes by name, and where a file's position is at the end. `status` as
    subprocess has it. `survivors`: the command lines of what lives on, without processes of ours."""

    status: int
    streams: dict[str, bytes]
    survivors: list[str]
    world: dict[str, Any] | None
    exit_s: float
    end_s: float
    left_of_ours: list[str]

    def facts(self) -> dict[str, Any]:
        """All that must be equal to the byte."""
        return {
            "status": self.status,
            "streams": self.streams,
            "survivors": self.survivors,
            "world": self.world,
        }


class Agent:
    """The agent's side of a command's three descriptors."""

    def __init__(self, scenario: Scenario, folder: Path) -> None:
        self.folder = folder
        self.collected: dict[str, bytearray] = {}
        self.mine: list[int] = []
        self.theirs: dict[int, int] = {}
        self.terminal: int | None = None
        self._threads: list[threading.Thread] = []
        self._files: dict[str, int] = {}
        STREAMS[scenario.streams](self)
        if 0 not in self.theirs:
            self._give_stdin(scenario.stdin)

    def collect(self, name: str, descriptor: int) -> None:
        """Read until the end of file, on a thread."""
        data = self.collected[name] = bytearray()
        self.mine.append(descriptor)

        def read() -> None:
            while True:
                try:
                    chunk = os.read(descriptor, 1 << 16)
                except OSError:  # EIO: the terminal's last user has gone
                    return
                if not chunk:
                    return
                data.extend(chunk)

        self._threads.append(threading.Thread(target=read, daemon=True))

    def watch_file(self, name: str, descriptor: int) -> None:
        self._files[name] = descriptor
        self.mine.append(descriptor)

    def _give_stdin(self, stdin: "str | bytes") -> None:
        if isinstance(stdin, bytes):
            reader, writer = os.pipe()
            os.write(writer, stdin)
            os.close(writer)
            self.theirs[0] = reader
        elif stdin == "null":
            self.theirs[0] = os.open(os.devnull, os.O_RDONLY)
        elif stdin == "socket":
            ours, theirs = socket.socketpair()
            self.mine.append(ours.detach())
            self.theirs[0] = theirs.detach()
        elif stdin == "endless":
            self.theirs[0], writer = os.pipe()
            self.mine.append(writer)
        elif stdin != "closed":
            raise ValueError(stdin)

    def started(self) -> None:
        for descriptor in set(self.theirs.values()) - set(self._files.values()):
            os.close(descriptor)
        for thread in self._threads:
            thread.start()

    def at_end(self, within_s: float) -> bool:
        """Whether every stream came to its end of file."""
        deadline_s = time.monotonic() + within_s
        for thread in self._threads:
            thread.join(max(0.0, deadline_s - time.monotonic()))
        return not any(thread.is_alive() for thread in self._threads)

    def seen(self, edit: Callable[[bytes], bytes]) -> dict[str, bytes]:
        seen = {name: edit(bytes(data)) for name, data in self.collected.items()}
        for name, descriptor in self._files.items():
            seen[name] = edit((self.folder / name).read_bytes())
            seen[f"{name} position"] = str(os.lseek(descriptor, 0, os.SEEK_CUR)).encode()
        return seen

    def close(self) -> None:
        for descriptor in self.mine:
            os.close(descriptor)


def _pipes(agent: Agent) -> None:
    for number, name in ((1, "stdout"), (2, "stderr")):
        reader, agent.theirs[number] = os.pipe()
        agent.collect(name, reader)


def _joined(agent: Agent) -> None:
    reader, writer = os.pipe()
    agent.theirs |= {1: writer, 2: writer}
    agent.collect("both", reader)


def _file(agent: Agent, flags: int = 0) -> None:
    descriptor = os.open(agent.folder / "output", os.O_RDWR | os.O_CREAT | flags, 0o600)
    os.write(descriptor, b"before\n")
    agent.theirs |= {1: descriptor, 2: descriptor}
    agent.watch_file("output", descriptor)


def _append(agent: Agent) -> None:
    _file(agent, os.O_APPEND)


def _files(agent: Agent) -> None:
    for number, name in ((1, "stdout"), (2, "stderr")):
        descriptor = os.open(agent.folder / name, os.O_WRONLY | os.O_CREAT, 0o600)
        agent.theirs[number] = descriptor
        agent.watch_file(name, descriptor)


def _sockets(agent: Agent) -> None:
    for number, name in ((1, "stdout"), (2, "stderr")):
        ours, theirs = socket.socketpair()
        agent.theirs[number] = theirs.detach()
        agent.collect(name, ours.detach())


def _tcp(agent: Agent) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        for number, name in ((1, "stdout"), (2, "stderr")):
            theirs = socket.create_connection(listener.getsockname())
            agent.theirs[number] = theirs.detach()
            agent.collect(name, listener.accept()[0].detach())


def _one_socket(agent: Agent) -> None:
    ours, theirs = socket.socketpair()
    descriptor = theirs.detach()
    agent.theirs |= {1: descriptor, 2: descriptor}
    agent.collect("both", ours.detach())


def _null(agent: Agent) -> None:
    descriptor = os.open(os.devnull, os.O_WRONLY)
    agent.theirs |= {1: descriptor, 2: descriptor}


def _closed(agent: Agent) -> None:
    """Both closed."""


def _full(agent: Agent) -> None:
    agent.theirs[1] = os.open("/dev/full", os.O_WRONLY)
    reader, agent.theirs[2] = os.pipe()
    agent.collect("stderr", reader)


def _file_and_pipe(agent: Agent) -> None:
    descriptor = os.open(agent.folder / "stdout", os.O_WRONLY | os.O_CREAT, 0o600)
    agent.theirs[1] = descriptor
    agent.watch_file("stdout", descriptor)
    reader, agent.theirs[2] = os.pipe()
    agent.collect("stderr", reader)


def _terminal(agent: Agent) -> None:
    master, slave = pty.openpty()
    termios.tcsetwinsize(master, (47, 203))
    agent.terminal = slave
    agent.theirs |= {0: slave, 1: slave, 2: slave}
    agent.collect("terminal", master)


def _nonblocking(agent: Agent) -> None:
    _pipes(agent)
    for number in (1, 2):
        os.set_blocking(agent.theirs[number], False)


STREAMS: dict[str, Callable[[Agent], None]] = {
    "pipes": _pipes,
    "joined": _joined,
    "file": _file,
    "append": _append,
    "files": _files,
    "sockets": _sockets,
    "one socket": _one_socket,
    "tcp": _tcp,
    "null": _null,
    "closed": _closed,
    "full": _full,
    "file and pipe": _file_and_pipe,
    "terminal": _terminal,
    "nonblocking": _nonblocking,
}


def observe(scenario: Scenario, environ: dict[str, str], *, wrapped: bool) -> Observation:
    """Run `scenario` once."""
    folder = Path(tempfile.mkdtemp(prefix="differential."))
    mark = uuid.uuid4().hex
    try:
        return _observe(scenario, environ, folder, mark, wrapped=wrapped)
    finally:
        for pid in marked(mark):
            _kill(pid)
        shutil.rmtree(folder, ignore_errors=True)


def _observe(scenario: Scenario, environ: dict[str, str], folder: Path, mark: str, *, wrapped: bool) -> Observation:
    wrapper = scenario.wrapper if wrapped else ()
    own = re.search(r"\$\{?W\b", scenario.script) is not None
    world = folder / "world.json"
    variables = {
        **environ,
        _MARK: mark,
        "W": " ".join(wrapper),
        "PROBE": f"{sys.executable} -IS {WORLD} {world}",
        "F": str(folder),
    }
    words = [*(() if own else wrapper), "bash", "-c", scenario.script]
    program = shutil.which(words[0], path=environ["PATH"])
    assert program, words[0]
    agent = Agent(scenario, folder)
    lent = {number: opener(folder) for number, opener in scenario.lent.items()}
    (folder / "cwd").mkdir()

    def become() -> None:
        _arrange({**agent.theirs, **lent}, terminal=agent.terminal is not None)
        if scenario.prepare:
            scenario.prepare()

    started_s = time.monotonic()
    child = subprocess.Popen(
        words, executable=program,
        env=variables, cwd=folder / "cwd", start_new_session=True, close_fds=False, preexec_fn=become,
    )  # fmt: skip
    try:
        agent.started()
        for descriptor in lent.values():
            os.close(descriptor)
        if scenario.act:
            scenario.act(child, folder)
        status = child.wait(LONGEST_S)
        exit_s = time.monotonic() - started_s
        agent.at_end(LONGEST_S - exit_s)
        end_s = time.monotonic() - started_s
    finally:
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
    survivors, ours = _left(mark)
    found = json.loads(world.read_text()) if scenario.world else None
    if found is not None:
        _relative(found, child.pid, {str(folder): "FOLDER", mark: "MARK"})
    streams = agent.seen(scenario.edit)
    agent.close()
    return Observation(status, streams, survivors, found, exit_s, end_s, ours)


def _arrange(descriptors: dict[int, int], *, terminal: bool) -> None:
    """In the child: exactly these descriptors, as an agent that opens its own with O_CLOEXEC leaves them."""
    high = {number: fcntl.fcntl(descriptor, fcntl.F_DUPFD, 200) for number, descriptor in descriptors.items()}
    for number in range(3):
        if number not in high:
            os.close(number)
    for number, descriptor in high.items():
        os.dup2(descriptor, number)
        os.close(descriptor)
    for number in range(3, 256):
        if number not in high:
            try:
                os.set_inheritable(number, False)
            except OSError:
                continue
    if terminal:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def _left(mark: str) -> tuple[list[str], list[str]]:
    """(command lines of survivors, of processes of ours that live without any survivor)."""
    survivors, ours = _settled(mark)
    if survivors:
        return survivors, []
    deadline_s = time.monotonic() + 5
    while ours and time.monotonic() < deadline_s:
        time.sleep(0.02)
        _, ours = _sorted(mark)
    return survivors, ours


def _settled(mark: str) -> tuple[list[str], list[str]]:
    """Once it has not changed for three looks: one that was just forked is about to become another program."""
    same, before = 0, None
    while same < 3:
        now = _sorted(mark)
        same = same + 1 if now == before else 0
        before = now
        time.sleep(0.02)
    return now


def _sorted(mark: str) -> tuple[list[str], list[str]]:
    survivors, ours = [], []
    for pid in marked(mark):
        words = _words(pid)
        if words:
            (ours if "bin/sidecar" in words else survivors).append(words)
    return sorted(survivors), sorted(ours)


def marked(mark: str) -> list[int]:
    """The pids of everything that bears the scenario's mark in its environment, zombies excepted."""
    wanted = f"{_MARK}={mark}".encode()
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/environ", "rb") as file:
                    if wanted in file.read():
                        found.append(int(name))
            except OSError:
                continue
    return found


def _words(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read().replace(b"\0", b" ").decode("utf-8", "replace").strip()
    except OSError:
        return ""


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except OSError:
        pass


def _relative(world: dict[str, Any], started_pid: int, names: dict[str, str]) -> None:
    """What is another number in each run, told by what it is.

    With a terminal the command leads a session of its own, as a command does that is started with a terminal.
    """
    own_pid = world.pop("pid")
    for key in ("group", "session"):
        leader = own_pid if world["foreground"] is True else started_pid
        world[key] = {leader: "the leader's"}.get(world[key], world[key])
    for key in ("environ", "descriptors", "folder"):
        text = json.dumps(world[key])
        for old, new in names.items():
            text = text.replace(old, new)
        world[key] = json.loads(text)
