"""Chaos: short commands, and SIGKILL, SIGTERM, SIGSTOP to their supervisor, to them or to the daemon at any moment.

Whatever happens: what the agent sees could have been seen of the bare command; no process is left behind; no
supervisor is stuck; and each command is accounted for at an OTLP receiver, as settled or as lost.

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
from supervised import Installation, on_linux

from sidecar.testing.otlp import OtlpReceiver

pytestmark = [on_linux, pytest.mark.timeout(0)]
KILL, TERM, STOP, CONT = signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP, signal.SIGCONT
AT_ONCE = 6
STUCK_S = 30.0
_QUIET_S = 8.0
"""No more spans are expected when none came for this long."""
MARK = "CHAOS_RUN"


_NOT_YET_ANNOUNCED_S = 0.15
_NOT_YET_SPOOLED_S = 0.6
_START_GUARD_S = 2.1
_LOST_AFTER_S = 1.0
_DAEMON_AWAY_S = 3.0


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


@dataclass(frozen=True)
class Strike:
    """A blow to the daemon. `born_s`: when it was started, None for one that had come up."""

    at_s: float
    number: int
    born_s: float | None

    def took_along(self, ended_s: float) -> bool:
        """Whether what this daemon had been told of a command that ended then may have died with it.

        One that serves has it in memory for a moment, before its spool. One that is still loading has it unread in its
        socket, and dies of SIGTERM too; and for two seconds nobody starts another, lest a daemon that cannot come up be
        started for ever.
        """
        if self.number == STOP:
            return False
        if self.born_s is None:
            return self.number == KILL and self.at_s - _NOT_YET_SPOOLED_S <= ended_s <= self.at_s + 0.1
        return self.born_s - 0.1 <= ended_s <= max(self.at_s + 0.1, self.born_s + _START_GUARD_S)


def test_chaos(sidecar: Installation, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    count = int(request.config.getoption("--chaos"))
    seed = int(request.config.getoption("--chaos-seed") or random.SystemRandom().randrange(10**6))
    print(f"\nchaos: --chaos {count} --chaos-seed {seed}", flush=True)
    dice = random.Random(seed)
    mark = f"{os.getpid()}-{seed}"
    fates = [Fate(f"chaos-{seed}-{number}", dice.choice(KINDS), _blow(dice)) for number in range(count)]
    strikes: list[Strike] = []
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
        assert site.run("true").status == 0  # and so there is a daemon, whatever was done to the last one
        left = _until_gone(mark)
        stuck = [fate.name for fate in fates if fate.status is None]
        unlike = [fate for fate in fates if not fate.as_bare()]
        seen = _accounted(receiver, fates)
    known = Counter(seen[fate.name] for fate in fates if fate.name in seen)
    missing = [fate for fate in fates if fate.name not in seen]
    excused = [fate for fate in missing if _may_be_unknown(fate, strikes)]
    struck = Counter(signal.Signals(strike.number).name for strike in strikes)
    print(f"chaos: {dict(known)}; unknown {len(missing)}, of them excused {len(excused)}; daemon struck {dict(struck)}")
    assert left == []
    assert stuck == []
    assert [_told(fate, strikes) for fate in unlike] == []
    assert [_told(fate, strikes) for fate in missing if fate not in excused] == []


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


def _strike_the_daemon(site: Exporting, dice: random.Random, over: threading.Event, strikes: list[Strike]) -> None:
    while not over.wait(dice.uniform(0.3, 2.0)):
        for pid in _daemons(site.socket):
            daemon = _held(pid, lambda pid=pid: pid in _daemons(site.socket))
            if daemon is None:
                continue
            number = dice.choice((KILL, TERM, STOP))
            born_s = _loading_since_s(site.socket)
            try:
                signal.pidfd_send_signal(daemon, number)
                strikes.append(Strike(time.monotonic(), number, born_s))
                if number == STOP:
                    over.wait(dice.uniform(0.05, 0.6))
                    signal.pidfd_send_signal(daemon, CONT)
            except ProcessLookupError:
                continue
            finally:
                os.close(daemon)


def _loading_since_s(socket_path: str) -> float | None:
    """A supervisor notes the start beside the socket; the daemon takes the note away when it has come up."""
    status = os.stat(os.path.join(os.path.dirname(socket_path), "daemon.lock"))
    return time.monotonic() - (time.time() - status.st_mtime) if status.st_size else None


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
    deadline_s = time.monotonic() + 15
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


def _accounted(receiver: OtlpReceiver, fates: list[Fate]) -> dict[str, str]:
    """Call id -> settle reason, from the commands' own spans; waits until no more can be expected."""
    names = {fate.name for fate in fates}
    found: dict[str, str] = {}
    quiet_from_s = time.monotonic()
    while names - found.keys() and time.monotonic() < quiet_from_s + _QUIET_S:
        before = len(found)
        for span in receiver.spans:
            name = span.attributes.get("gen_ai.tool.call.id")
            if name in names and span.attributes.get("sidecar.span.role") == "command":
                found[name] = span.attributes["sidecar.settle.reason"]
        if len(found) > before:
            quiet_from_s = time.monotonic()
        time.sleep(0.25)
    return found


def _may_be_unknown(fate: Fate, strikes: list[Strike]) -> bool:
    """Who knew of it was killed before it could tell: the daemon, or its supervisor before it had announced the
    command, or while there was no daemon to see its connection end."""
    if any(strike.took_along(fate.ended_s) for strike in strikes):
        return True
    if fate.blow.target != "supervisor" or fate.hit_s is None or fate.blow.number == STOP:
        return False
    if fate.ran_s is None or fate.hit_s - fate.ran_s < _NOT_YET_ANNOUNCED_S:
        return True
    # A supervisor that has gone may turn up again: the daemon waits for a moment, and then calls its command lost.
    return fate.blow.number == KILL and any(
        strike.took_along(fate.ended_s + _LOST_AFTER_S)
        or (strike.number != STOP and -_LOST_AFTER_S <= fate.hit_s - strike.at_s <= _DAEMON_AWAY_S)
        for strike in strikes
    )


def _told(fate: Fate, strikes: list[Strike]) -> str:
    """All that may explain it; times relative to its end."""
    near = [
        (signal.Signals(strike.number).name, round(strike.at_s - fate.ended_s, 2),
         None if strike.born_s is None else round(strike.born_s - fate.ended_s, 2))
        for strike in strikes if abs(strike.at_s - fate.ended_s) < 6
    ]  # fmt: skip
    return (
        f"{fate.name} {fate.kind.script!r}: {fate.blow} hit after "
        f"{None if fate.hit_s is None else round(fate.hit_s - fate.started_s, 3)} s: status {fate.status}, "
        f"{len(fate.stdout)} {fate.stdout[:20]!r}, {len(fate.stderr)} {fate.stderr[:80]!r}; "
        f"lived {round(fate.ended_s - fate.started_s, 2)} s; the daemon was struck {near}"
    )
