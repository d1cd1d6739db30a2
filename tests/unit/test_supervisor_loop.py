"""The loop over real pipes and the real poll: what ends it, and what must not hold it up."""

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from daemon_support import verdict
from test_supervisor_link import Daemon, RecordedNotes
from test_supervisor_rules import FakeChild, FakeDelivery, options

from sidecar.core import frame as wire
from sidecar.core.output import OutputStats
from sidecar.core.trace_context import begin_span
from sidecar.supervisor.delivery import Delivery
from sidecar.supervisor.link import Link
from sidecar.supervisor.loop import Loop
from sidecar.supervisor.relay import Channel
from sidecar.supervisor.reports import Reports
from sidecar.supervisor.signals import SI_KERNEL, SIGCHLD, SIGTERM, Received
from sidecar.supervisor.sink import Sink
from sidecar.testing.clock import FakeClock

MS = 1_000_000


class PipedSignals:
    """Signals as the test says them, from any thread."""

    tells_sender = False
    ignored_sigterm = False

    def __init__(self) -> None:
        self.descriptor, self._writer = os.pipe()
        os.set_blocking(self.descriptor, False)

    def say(self, number: int) -> None:
        os.write(self._writer, bytes([number]))

    def read(self) -> list[Received]:
        try:
            return [Received(number, 0, 1) for number in os.read(self.descriptor, 64)]
        except BlockingIOError:
            return []

    def close(self) -> None:
        os.close(self.descriptor)
        os.close(self._writer)


class Scene:
    """A loop between two pipes: `command` is the command's end of the one, `agent` the agent's of the other."""

    def __init__(self, interval_ns: int = 0, timeout_ns: int | None = None) -> None:
        source, self.command = os.pipe()
        self.agent, self.agent_stdout = os.pipe()
        self.signals = PipedSignals()
        self.child = FakeChild()
        started_ns = time.monotonic_ns()
        self.stats = OutputStats(started_ns)
        chosen = options(interval_ns, timeout_ns, "call_1")
        context = begin_span(None, None, bytes(range(24)))
        reports = Reports(chosen, context, io="pipe", started_ns=started_ns, unix_ms=1)
        self.delivery = FakeDelivery(FakeClock())
        self.sink = Sink(self.agent_stdout)
        self.channel = Channel(source, self.sink, self.stats, 1, terminal=False)
        self.loop = Loop(
            chosen,
            self.child,  # type: ignore[arg-type]
            [self.channel],
            self.signals,  # type: ignore[arg-type]
            self.stats,
            reports,
            self.delivery,  # type: ignore[arg-type]
            None,
            None,
        )

    def exit(self) -> None:
        self.child.ended = True
        self.signals.say(SIGCHLD)

    def close(self) -> None:
        self.channel.close()
        self.signals.close()
        for descriptor in {self.command, self.agent, self.agent_stdout, self.sink.descriptor}:
            try:
                os.close(descriptor)
            except OSError:
                continue


@pytest.fixture
def scene() -> Iterator[Scene]:
    made = Scene()
    yield made
    made.close()


def test_the_end_of_file_and_the_exit_end_it(scene: Scene) -> None:
    os.write(scene.command, b"hello\n")
    os.close(scene.command)
    scene.exit()
    scene.loop.run()
    assert os.read(scene.agent, 100) == b"hello\n"
    assert not scene.channel.open


def test_nobody_asks_a_short_command_why_it_is_silent(scene: Scene) -> None:
    os.write(scene.command, b"hello\n")
    os.close(scene.command)
    scene.exit()
    scene.loop.run()
    assert scene.loop.silence._silence is None


def test_a_command_that_is_being_stopped_is_asked_nothing(scene: Scene) -> None:
    """Also not by what is made only now, since the command's job was stopped meanwhile."""
    scene.loop.stop("cancelled", "signal")
    scene.loop.silence.suspended("SIGTSTP", time.monotonic_ns())
    assert scene.loop.silence._silence is not None
    assert scene.loop.silence.deadline_ns is None
    assert scene.delivery.sent == []


def test_a_background_process_that_holds_the_pipe_and_is_silent_does_not_hold_the_exit(scene: Scene) -> None:
    os.write(scene.command, b"hello\n")
    scene.exit()
    scene.loop.run()
    assert os.read(scene.agent, 100) == b"hello\n"
    assert scene.channel.open, "for the drainer"


def test_a_background_process_that_writes_for_ever_does_not_hold_the_exit(scene: Scene) -> None:
    over, begun = threading.Event(), threading.Event()

    def write_for_ever() -> None:
        os.set_blocking(scene.command, False)
        while not over.is_set():
            try:
                os.write(scene.command, b"y\n" * 100)
                begun.set()
            except BlockingIOError:
                over.wait(0.001)

    def read_for_ever() -> None:
        while os.read(scene.agent, 65536):
            pass

    threads = [threading.Thread(target=write_for_ever), threading.Thread(target=read_for_ever)]
    for thread in threads:
        thread.start()
    begun.wait()
    scene.exit()
    scene.loop.run()
    over.set()
    os.close(scene.agent_stdout)
    os.close(scene.sink.descriptor)
    for thread in threads:
        thread.join()
    assert scene.stats.total_bytes > 0


def test_what_a_slow_reader_has_not_taken_yet_still_arrives_after_the_exit(scene: Scene) -> None:
    # What fits between the two ends without a reader: both pipes.
    data = os.urandom(2 * 65536)
    taken = bytearray()

    def write_and_exit() -> None:
        sent = 0
        while sent < len(data):
            sent += os.write(scene.command, data[sent : sent + 50_000])
        scene.exit()

    def read_late() -> None:
        scene.child.exit_was_seen.wait()
        while len(taken) < len(data):
            taken.extend(os.read(scene.agent, 7001))

    class WatchedChild(FakeChild):
        exit_was_seen = threading.Event()

        def reap(self) -> bool:
            ended = super().reap()
            if ended:
                self.exit_was_seen.set()
            return ended

    scene.child = scene.loop._child = WatchedChild()  # type: ignore[assignment]
    threads = [threading.Thread(target=write_and_exit), threading.Thread(target=read_late)]
    for thread in threads:
        thread.start()
    scene.loop.run()
    for thread in threads:
        thread.join()
    assert bytes(taken) == data


def test_a_reader_that_left_is_heard_of_while_the_command_is_silent(scene: Scene) -> None:
    os.close(scene.agent)
    thread = threading.Thread(target=scene.loop.run)
    thread.start()
    # The loop closes its end; only then does our write fail.
    while True:
        try:
            os.write(scene.command, b"x")
        except BrokenPipeError:
            break
    scene.exit()
    thread.join()
    assert not scene.channel.open


def test_a_command_that_ignores_term_is_killed_and_nobody_hears_a_beat_of_it() -> None:
    scene = Scene(interval_ns=20 * MS)
    scene.signals.say(SIGTERM)
    killed = threading.Event()
    kill = scene.child.kill

    def kill_and_exit() -> int:
        killed.set()
        scene.exit()
        return kill()

    scene.child.kill = kill_and_exit  # type: ignore[method-assign]
    scene.loop.run()
    assert killed.is_set()
    assert scene.child.told == ["terminate", "kill"]
    assert scene.loop.lifecycle.reason == "cancelled"
    assert [frame for frame in scene.delivery.sent if frame[1]["type"] == wire.PROGRESS] == []
    scene.close()


def test_silence_beats_until_the_timeout_and_not_beyond() -> None:
    scene = Scene(interval_ns=20 * MS, timeout_ns=150 * MS)
    terminate = scene.child.terminate

    def terminate_and_exit(*, but_group: bool = False) -> int:
        scene.exit()
        return terminate(but_group=but_group)

    scene.child.terminate = terminate_and_exit  # type: ignore[method-assign]
    scene.loop.run()
    assert scene.loop.lifecycle.reason == "timeout"
    beats = [frame for _, frame in scene.delivery.sent if frame["type"] == wire.PROGRESS]
    # One each 20 ms, and one more where the turn of the timeout itself comes late.
    assert 1 <= len(beats) <= 8
    assert len(beats) == scene.loop.heartbeat.count
    scene.close()


def test_a_deadline_of_a_year_is_waited_for() -> None:
    """poll(2) takes at most 24 days, and more would have ended us, and the command with us."""
    scene = Scene(timeout_ns=366 * 24 * 3600 * 1000 * MS)
    os.close(scene.command)
    scene.exit()
    scene.loop.run()
    assert scene.loop.lifecycle.reason is None
    scene.close()


def test_a_package_that_is_upgraded_meanwhile_costs_the_command_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is loaded only at the first beat is not there any more."""

    class Uninstalled:
        unavailable = False
        ever_connected = True

        def send(self, frame: object, now_ns: int) -> None:
            raise ModuleNotFoundError("No module named 'sidecar.core.curation'")

    monkeypatch.setitem(sys.modules, "sidecar.supervisor.activate", None)
    delivery = Delivery(options(0, None, None), {"SIDECAR_SOCKET": f"{tmp_path}/no/s.sock"}, Uninstalled)  # type: ignore[arg-type]
    assert delivery.link is not None
    assert delivery.link.retry_ns is not None
    delivery.link = Uninstalled()  # type: ignore[assignment]
    delivery.send({"type": wire.PROGRESS})


def test_a_note_that_a_frozen_daemon_missed_comes_when_it_reads_again(scene: Scene, tmp_path: Path) -> None:
    path = str(tmp_path / "s.sock")
    daemon = Daemon(path)
    link = Link(path, lambda: None, RecordedNotes())  # type: ignore[arg-type]
    link.connect(0)
    daemon.accept()
    seq = 0
    while not link.unsent:  # it is frozen
        link.send(verdict(seq=(seq := seq + 1)), 0)
    scene.delivery.link = link  # type: ignore[assignment]
    scene.delivery.send = lambda frame: link.send(frame, time.monotonic_ns())  # type: ignore[method-assign]
    os.write(scene.command, b"hello\n")
    running = threading.Thread(target=scene.loop.run)
    running.start()
    try:
        while not link._owes_note:
            time.sleep(0.01)
        while (frame := daemon.frames(1)[0])["type"] == "verdict":
            pass
        assert (frame["type"], frame["totalBytes"]) == ("output_activity", 6)
    finally:
        os.close(scene.command)
        scene.exit()
        running.join()
        link.close()
        daemon.die()


class HoldingCanary:
    """Saw nothing of what is asked for; `held` is what came to the group since."""

    def __init__(self, held: int) -> None:
        self._held = held

    def saw(self, _number: int) -> bool:
        return False

    def holds(self, numbers: tuple[int, ...]) -> bool:
        return self._held in numbers


@pytest.mark.parametrize(("came", "since"), [("SIGCONT", "SIGTSTP"), ("SIGTSTP", "SIGCONT"), ("SIGCONT", "SIGTTIN")])
@pytest.mark.parametrize("known_by", ["us", "the canary"])
def test_a_stop_and_a_cont_that_cross_are_not_passed_on(scene: Scene, came: str, since: str, known_by: str) -> None:
    """The command has had both from the kernel, in their order: the first, passed on now, would undo the second."""
    first, second = getattr(signal, came), getattr(signal, since)
    scene.loop.reactions._canary = HoldingCanary(second if known_by == "the canary" else 0)  # type: ignore[assignment]
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, [second])
    try:
        if known_by == "us":
            signal.pthread_kill(threading.get_ident(), second)
        scene.loop.reactions.signal(Received(first, 0, 1))
    finally:
        before = signal.signal(second, signal.SIG_IGN)  # forgets the one that is pending
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        signal.signal(second, before)
    assert scene.child.told == []
    scene.loop.reactions._canary = HoldingCanary(0)  # type: ignore[assignment]
    scene.loop.reactions.signal(Received(signal.SIGCONT, 0, 1))
    assert scene.child.told == [signal.SIGCONT]


class SeeingCanary(HoldingCanary):
    def saw(self, number: int) -> bool:
        return number == self._held


def test_a_signal_to_the_group_is_passed_on_until_there_is_a_canary(scene: Scene) -> None:
    """In the first 20 ms nothing tells it from one to our pid, which must not be lost: docs/supervision.md."""
    reactions = scene.loop.reactions
    reactions.signal(Received(signal.SIGUSR1, 0, 1))
    assert scene.child.told == [signal.SIGUSR1]
    reactions._canary = SeeingCanary(signal.SIGUSR1)  # type: ignore[assignment]
    reactions.signal(Received(signal.SIGUSR1, 0, 1))
    reactions.signal(Received(signal.SIGUSR2, 0, 1))
    assert scene.child.told == [signal.SIGUSR1, signal.SIGUSR2]


@pytest.mark.parametrize(
    ("name", "passed"),
    [("SIGINT", False), ("SIGHUP", False), ("SIGWINCH", False), ("SIGALRM", True), ("SIGXCPU", False)],
)
def test_of_the_kernels_own_signals_a_terminals_are_the_groups(scene: Scene, name: str, passed: bool) -> None:
    scene.loop.reactions.signal(Received(getattr(signal, name), SI_KERNEL, 0))
    assert bool(scene.child.told) == passed
