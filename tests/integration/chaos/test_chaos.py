"""Chaos: short commands, and SIGKILL, SIGTERM, SIGSTOP to their supervisor, to them or to the daemon at any moment.

Whatever happens: what the agent sees could have been seen of the bare command; no process is left behind; no
supervisor is stuck; and each command is accounted for at an OTLP receiver, as settled or as lost, under one span id
however often it comes. Only of a supervisor that was killed before it had spawned there may be nothing to tell.

    pytest tests/integration/chaos --chaos 1000 --chaos-seed 7

The seed is printed; it decides what is done to which command, not how the machine schedules it.
"""

import os
import random
import signal
import subprocess
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest
from exporting import Exporting, exporting
from supervised import Installation, alive, on_linux, until

from sidecar.testing.otlp import OtlpReceiver

pytestmark = [on_linux, pytest.mark.timeout(0)]
KILL, TERM, STOP, CONT = signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP, signal.SIGCONT
AT_ONCE = 6
STUCK_S = 30.0
_QUIET_S, _PATIENCE_S = 8.0, 30.0
"""No more spans are expected when none came for this long; where one is due, it is waited for longer."""
MARK = "CHAOS_RUN"


@dataclass(frozen=True)
class Kind:
    """A command: its script, what it writes and how it ends when left alone, and when it gets SIGTERM."""

    script: str
    status: int = 0
    stdout: bytes = b""
    stderr: bytes = b""
    on_term: "tuple[int, bytes] | None" = None


KINDS = [
    Kind("echo a; sleep .1; echo b", 0, b"a\nb\n"),
    Kind("echo x; echo y >&2; exit 7", 7, b"x\n", b"y\n"),
    Kind("exec sleep .25"),
    Kind("head -c 200000 /dev/zero; sleep .05; head -c 50000 /dev/zero >&2; exit 3", 3, bytes(200000), bytes(50000)),
    Kind(
        "trap 'kill $!; echo got; exit 5' TERM; sleep .3 >/dev/null 2>&1 & wait $!; echo end",
        0, b"end\n", b"", (5, b"got\n"),
    ),
    Kind("sleep .3 & echo x", 0, b"x\n"),
    Kind("seq 2000 | tail -1; exec sleep .1", 0, b"2000\n"),
    Kind("setsid sleep .2 & wait; echo z", 0, b"z\n"),
    Kind(":"),
]  # fmt: skip


@dataclass
class Blow:
    """What is done to one command. `target`: supervisor, command or nobody."""

    target: str
    number: int
    after_s: float
    stopped_s: float


@dataclass
class Fate:
    """One command and what became of it."""

    name: str
    kind: Kind
    blow: Blow
    pid: int = 0
    started_s: float = 0.0
    ran_s: float | None = None
    """When the command itself ran: it says so by a file."""
    hit_s: float | None = None
    status: int | None = None
    stdout: bytes = b""
    stderr: bytes = b""
    ended_s: float = 0.0

    def as_bare(self) -> bool:
        """Whether an agent could have seen this of the bare command under the same blow."""
        if (self.status, self.stdout, self.stderr) == (self.kind.status, self.kind.stdout, self.kind.stderr):
            return True  # the blow came too late, or was none
        prefix = self.kind.stdout.startswith(self.stdout) and self.kind.stderr.startswith(self.stderr)
        if self.hit_s is None or self.blow.number == STOP:
            return False
        if self.blow.number == TERM and self.kind.on_term is not None:
            if (self.status, self.stdout) == self.kind.on_term:
                return True
            return self.status == -TERM and prefix  # before its handler was set
        return self.status == -self.blow.number and prefix


def test_chaos(sidecar: Installation, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    count = int(request.config.getoption("--chaos"))
    given = request.config.getoption("--chaos-seed")
    seed = random.SystemRandom().randrange(10**6) if given is None else int(given)
    print(f"\nchaos: --chaos {count} --chaos-seed {seed}", flush=True)
    dice = random.Random(seed)
    mark = f"{os.getpid()}-{seed}"
    fates = [Fate(f"chaos-{seed}-{number}", dice.choice(KINDS), _blow(dice)) for number in range(count)]
    strikes: list[tuple[int, int]] = []  # pid, signal
    with (
        OtlpReceiver() as receiver,
        exporting(sidecar, tmp_path, receiver.http_endpoint, "http/protobuf") as site,
    ):
        site.environ |= {MARK: mark, "SIDECAR_HEARTBEAT_INTERVAL": "100ms"}
        over = threading.Event()
        striker = threading.Thread(target=_strike_the_daemon, args=(site, random.Random(seed + 1), over, strikes))
        striker.start()
        try:
            with ThreadPoolExecutor(AT_ONCE) as pool:
                list(pool.map(lambda fate: _live(fate, site), fates))
        finally:
            over.set()
            striker.join()
        until(lambda: not any(alive(pid) for pid, number in strikes if number != STOP))
        # So there is a daemon, whatever was done to the last one: the next command starts it, save in the two seconds
        # after one that was killed as soon as it began.
        until(lambda: site.run("true").status == 0 and _daemons(site.socket))
        left = _until_gone(mark)
        stuck = [fate.name for fate in fates if fate.status is None]
        unlike = [fate for fate in fates if not fate.as_bare()]
        seen = _accounted(receiver, fates)
        waiting = _entries(site.socket)
    known = Counter(reason for told in seen.values() for _, reason in told)
    missing = [fate for fate in fates if fate.name not in seen]
    never_ran = [fate for fate in missing if _never_ran(fate)]
    struck = Counter(signal.Signals(number).name for _pid, number in strikes)
    unknown = f"unknown {len(missing)}, of them never run {len(never_ran)}"
    print(f"chaos: {dict(known)}; {unknown}; daemon struck {dict(struck)}")
    assert left == []
    assert stuck == []
    assert [_told(fate) for fate in unlike] == []
    assert [_told(fate) for fate in missing if fate not in never_ran] == []
    assert {name: told for name, told in seen.items() if len(told) > 1} == {}
    assert waiting == []


def _blow(dice: random.Random) -> Blow:
    target = dice.choice(("supervisor", "supervisor", "command", "nobody"))
    return Blow(target, dice.choice((KILL, TERM, STOP)), dice.uniform(0, 0.35), dice.uniform(0.02, 0.3))


def _live(fate: Fate, site: Exporting) -> None:
    words = site.installation.words("bash", "-c", f': >"$RAN"; {fate.kind.script}', flags=("--tool-call-id", fate.name))
    ran = os.path.join(os.path.dirname(site.socket), fate.name)
    with tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
        fate.started_s = time.monotonic()
        # Pipes, read by cat into files: whoever is left behind must not hold this test up by the end of file.
        child = subprocess.Popen(
            words, env={**site.environ, "RAN": ran}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip
        readers = [
            threading.Thread(target=_copy, args=(source, file))
            for source, file in ((child.stdout, stdout), (child.stderr, stderr))
        ]
        for reader in readers:
            reader.start()
        fate.pid = child.pid
        supervisor = os.pidfd_open(child.pid)
        strikers = [] if fate.blow.target == "nobody" else [threading.Thread(target=_strike, args=(fate, supervisor))]
        for striker in strikers:
            striker.start()
        try:
            fate.status = child.wait(STUCK_S)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, KILL)
            child.wait()
        fate.ended_s = time.monotonic()
        for thread in strikers:
            thread.join()
        os.close(supervisor)
        if os.path.exists(ran):
            fate.ran_s = time.monotonic() - (time.time() - os.stat(ran).st_mtime)
            os.unlink(ran)
        for reader in readers:
            reader.join(STUCK_S)
        for file, name in ((stdout, "stdout"), (stderr, "stderr")):
            file.seek(0)
            setattr(fate, name, file.read())


def _copy(source: "object", file: "object") -> None:
    with source:  # type: ignore[attr-defined]
        while chunk := os.read(source.fileno(), 1 << 16):  # type: ignore[attr-defined]
            file.write(chunk)  # type: ignore[attr-defined]


def _strike(fate: Fate, supervisor: int) -> None:
    """`supervisor` is a pidfd, so that no stranger is hit who got the number."""
    blow = fate.blow
    time.sleep(blow.after_s)
    target = supervisor if blow.target == "supervisor" else _command_of(fate.pid)
    if target is None:
        return
    try:
        signal.pidfd_send_signal(target, blow.number)
        fate.hit_s = time.monotonic()
        if blow.number == STOP:
            time.sleep(blow.stopped_s)
            signal.pidfd_send_signal(target, CONT)
    except ProcessLookupError:
        return
    finally:
        if target != supervisor:
            os.close(target)


def _command_of(supervisor_pid: int) -> int | None:
    """A pidfd of the supervisor's first child."""
    children = _children(supervisor_pid)
    return _held(children[0], lambda: children[0] in _children(supervisor_pid)) if children else None


def _children(pid: int) -> list[int]:
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            return [int(child) for child in file.read().split()]
    except OSError:
        return []


def _held(pid: int, still_so: Callable[[], bool]) -> int | None:
    """A pidfd of `pid`, if it is what it was thought to be once it cannot be another any more."""
    try:
        opened = os.pidfd_open(pid)
    except ProcessLookupError:
        return None
    if still_so():
        return opened
    os.close(opened)
    return None


def _strike_the_daemon(
    site: Exporting, dice: random.Random, over: threading.Event, strikes: list[tuple[int, int]]
) -> None:
    while not over.wait(dice.uniform(0.3, 2.0)):
        for pid in _daemons(site.socket):
            daemon = _held(pid, lambda pid=pid: pid in _daemons(site.socket))
            if daemon is None:
                continue
            number = dice.choice((KILL, TERM, STOP))
            try:
                signal.pidfd_send_signal(daemon, number)
                strikes.append((pid, number))
                if number == STOP:
                    over.wait(dice.uniform(0.05, 0.6))
                    signal.pidfd_send_signal(daemon, CONT)
            except ProcessLookupError:
                continue
            finally:
                os.close(daemon)


def _daemons(socket_path: str) -> list[int]:
    wanted = f"--socket\0{socket_path}\0".encode()
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/cmdline", "rb") as file:
                    if wanted in file.read():
                        found.append(int(name))
            except OSError:
                continue
    return found


def _until_gone(mark: str) -> list[str]:
    """Command lines of what is left of the commands and their supervisors once it had the time to end by itself."""
    deadline_s = time.monotonic() + 40
    while (left := _marked(mark)) and time.monotonic() < deadline_s:
        time.sleep(0.1)
    return left


def _marked(mark: str) -> list[str]:
    wanted = f"{MARK}={mark}".encode()
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/environ", "rb") as file:
                    if wanted not in file.read().split(b"\0"):
                        continue
                with open(f"/proc/{name}/cmdline", "rb") as file:
                    found.append(f"{name} {file.read().decode('utf-8', 'replace')}")
            except OSError:
                continue
    return found


def _accounted(receiver: OtlpReceiver, fates: list[Fate]) -> dict[str, set[tuple[str, str]]]:
    """Call id -> (span id, settle reason) of the commands' own spans; waits until no more can be expected."""
    names = {fate.name for fate in fates}
    due = {fate.name for fate in fates if not _never_ran(fate)}
    found: dict[str, set[tuple[str, str]]] = {}
    quiet_from_s = time.monotonic()
    while names - found.keys():
        if time.monotonic() > quiet_from_s + (_PATIENCE_S if due - found.keys() else _QUIET_S):
            break
        before = len(found)
        for span in receiver.spans:
            name = span.attributes.get("gen_ai.tool.call.id")
            if name in names and span.attributes.get("sidecar.span.role") == "command":
                found.setdefault(name, set()).add((span.span_id, span.attributes["sidecar.settle.reason"]))
        if len(found) > before:
            quiet_from_s = time.monotonic()
        time.sleep(0.25)
    return found


def _entries(socket_path: str) -> list[str]:
    """What is still in the ledger, once the daemon had the time to do away with it."""
    deadline_s = time.monotonic() + 40
    while (left := _in_ledger(socket_path)) and time.monotonic() < deadline_s:
        time.sleep(0.1)
    return left


def _in_ledger(socket_path: str) -> list[str]:
    return [name for name in os.listdir(f"{socket_path}.ledger") if name != "lock"]


def _never_ran(fate: Fate) -> bool:
    """Its supervisor was struck, and the first thing that the command does was not done."""
    return fate.blow.target == "supervisor" and fate.hit_s is not None and fate.ran_s is None


def _told(fate: Fate) -> str:
    """All that may explain it; times relative to its start."""
    return (
        f"{fate.name} {fate.kind.script!r}: {fate.blow} hit after "
        f"{None if fate.hit_s is None else round(fate.hit_s - fate.started_s, 3)} s: status {fate.status}, "
        f"{len(fate.stdout)} {fate.stdout[:20]!r}, {len(fate.stderr)} {fate.stderr[:80]!r}; "
        f"ran {fate.ran_s is not None}; lived {round(fate.ended_s - fate.started_s, 2)} s"
    )
