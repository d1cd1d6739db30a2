"""The link to the daemon, against a real listening socket: order, replay, bounds, and no daemon at all."""

import json
import os
import select
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from daemon_support import activity, beat, settled, started, verdict

from sidecar import rendezvous
from sidecar.core.errors import DaemonUnavailable
from sidecar.supervisor import link as link_module
from sidecar.supervisor.link import Link

Frame = dict[str, Any]
S = 1_000_000_000
WAIT_S = 60.0


class RecordedNotes:
    def __init__(self) -> None:
        self.lines: list[str] = []

    def write(self, text: str) -> None:
        self.lines.append(text)


class Daemon:
    """Listens at `path`; `accept` waits for the next connection, `frames` for so many lines of it."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.listener = rendezvous.bind_and_listen(path)
        self.connection: socket.socket | None = None
        self._rest = b""

    def accept(self) -> None:
        self.listener.setblocking(True)
        raw, _ = socket.socket(fileno=os.dup(self.listener.fileno())).accept()
        raw.settimeout(WAIT_S)
        if self.connection is not None:
            self.connection.close()
        self.connection, self._rest = raw, b""

    def frames(self, count: int) -> list[Frame]:
        if self.connection is None:
            self.accept()
        assert self.connection is not None
        lines: list[bytes] = []
        while len(lines) < count:
            line, newline, rest = self._rest.partition(b"\n")
            if newline:
                lines.append(line)
                self._rest = rest
                continue
            chunk = self.connection.recv(65536)
            assert chunk, "the connection ended"
            self._rest += chunk
        return [json.loads(line) for line in lines]

    def has_more(self) -> bool:
        assert self.connection is not None
        return bool(self._rest) or bool(select.select([self.connection], [], [], 0)[0])

    def hang_up(self) -> None:
        if self.connection is not None:
            self.connection.close()
            self.connection = None
        self._rest = b""

    def die(self) -> None:
        self.hang_up()
        self.listener.close()
        if Path(self.path).exists():
            Path(self.path).unlink()


class Scene:
    """A link and a start_daemon that counts its calls and does what `on_start` says."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.notes = RecordedNotes()
        self.starts = 0
        self.error: Exception | None = DaemonUnavailable("there is none")
        self.daemons: list[Daemon] = []
        self.link = Link(path, self._start, self.notes)  # type: ignore[arg-type]

    def _start(self) -> None:
        self.starts += 1
        if self.error is not None:
            raise self.error
        self.daemon()

    def daemon(self) -> Daemon:
        made = Daemon(self.path)
        self.daemons.append(made)
        return made


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    made = Scene(str(tmp_path / "s.sock"))
    yield made
    made.link.close()
    for daemon in made.daemons:
        daemon.die()


def seqs(frames: list[Frame]) -> list[tuple[int, bool]]:
    return [(frame["seq"], frame.get("replay", False)) for frame in frames]


def test_frames_arrive_in_order_as_they_were(scene: Scene) -> None:
    daemon = scene.daemon()
    scene.link.connect(0)
    sent = [started(), activity(seq=1), beat(seq=2), verdict(seq=3), settled(seq=4)]
    for frame in sent:
        scene.link.send(frame, 0)
    assert daemon.frames(5) == sent
    assert scene.link.settled_delivered
    assert not scene.link.unsent
    assert scene.starts == 0
    assert scene.notes.lines == []


def test_a_daemon_that_does_not_read_finds_no_heap_of_notes(scene: Scene) -> None:
    """The next one says all that an earlier one did; beats and verdicts wait for it as ever."""
    daemon = scene.daemon()
    scene.link.connect(0)
    seq = 0
    while not scene.link.unsent:
        scene.link.send(verdict(seq=(seq := seq + 1)), 0)
    kept = len(scene.link._out)
    for later in range(1, 100):
        scene.link.send(activity(seq=seq + later), 0)
    assert len(scene.link._out) == kept
    assert not scene.link.has_missed_output
    daemon.accept()
    scene.link.send(beat(seq=seq + 100), 0)
    while scene.link.unsent:
        daemon.frames(1)
        scene.link.flush(0)
    while daemon.frames(1)[0]["type"] == "verdict":
        pass  # then it was the beat
    assert scene.link.wants_to_write, "to hear that there is room for the note that is owed"
    scene.link.service(0)
    assert (scene.link.has_missed_output, scene.link.wants_to_write) == (True, False)
    scene.link.send(activity(seq=seq + 101), 0)
    assert [frame["type"] for frame in daemon.frames(1)] == ["output_activity"]


def test_what_the_daemon_says_is_given_back(scene: Scene) -> None:
    daemon = scene.daemon()
    scene.link.connect(0)
    daemon.accept()
    assert daemon.connection is not None
    assert scene.link.service(0) == b""
    daemon.connection.sendall(b'{"stop":true}\n')
    assert scene.link.service(0) == b'{"stop":true}\n'
    assert scene.link.descriptor is not None


def test_a_new_daemon_is_told_what_the_old_one_had_marked_as_replay(scene: Scene) -> None:
    old = scene.daemon()
    scene.link.connect(0)
    for frame in (started(), beat(seq=1, heartbeatCount=1), activity(seq=2), beat(seq=3, heartbeatCount=2)):
        scene.link.send(frame, 0)
    assert seqs(old.frames(4)) == [(0, False), (1, False), (2, False), (3, False)]
    old.die()
    scene.link.service(0)
    assert scene.link.descriptor is None
    assert scene.link.retry_ns is not None
    # What comes while there is no daemon is kept, and was delivered to nobody.
    scene.link.send(beat(seq=4, heartbeatCount=3), scene.link.retry_ns - 1)
    assert scene.starts == 0
    new = scene.daemon()
    scene.link.connect(scene.link.retry_ns)
    assert scene.link.retry_ns is None
    scene.link.send(settled(seq=5, beats=3), S)
    replayed = new.frames(5)
    assert seqs(replayed) == [(0, True), (1, True), (3, True), (4, False), (5, False)]
    assert [frame["heartbeatCount"] for frame in replayed[1:]] == [1, 2, 3, 3]
    assert scene.link.settled_delivered
    assert not new.has_more()


def test_a_new_daemon_is_owed_a_note(scene: Scene) -> None:
    daemon = scene.daemon()
    scene.link.connect(0)
    scene.link.send(started(), 0)
    scene.link.service(0)
    assert not scene.link.has_missed_output
    daemon.frames(1)
    daemon.die()
    scene.link.service(0)
    scene.link.send(activity(seq=1), 0)
    scene.link.service(0)
    assert not scene.link.has_missed_output, "as long as there is none"
    scene.daemon()
    scene.link.connect(S)
    scene.link.service(S)
    assert (scene.link.has_missed_output, scene.link.wants_to_write) == (True, False)


def test_a_write_to_a_daemon_that_is_gone_is_noticed_and_the_frame_kept(scene: Scene) -> None:
    old = scene.daemon()
    scene.link.connect(0)
    scene.link.send(started(), 0)
    old.frames(1)
    old.die()
    scene.link.send(beat(seq=1), 0)
    assert scene.link.descriptor is None
    new = scene.daemon()
    scene.link.connect(S)
    assert seqs(new.frames(2)) == [(0, True), (1, False)]


def test_a_daemon_is_started_where_there_is_none(scene: Scene) -> None:
    scene.error = None
    scene.link.send(started(), 0)
    assert scene.starts == 1
    assert scene.daemons[0].frames(1) == [started()]
    assert not scene.link.unavailable
    assert scene.link.ever_connected


def test_a_stale_socket_file_is_no_daemon(scene: Scene) -> None:
    rendezvous.bind_and_listen(scene.path).close()
    scene.link.connect(0)
    assert scene.starts == 1
    assert scene.link.descriptor is None


def test_after_two_failures_no_daemon_is_to_be_had_and_it_is_noted_once(scene: Scene) -> None:
    scene.link.connect(0)
    assert not scene.link.unavailable
    first = scene.link.retry_ns
    assert first is not None
    assert first > 0
    scene.link.send(started(), first - 1)
    assert scene.starts == 1, "not before its time"
    scene.link.send(beat(seq=1), first)
    assert scene.starts == 2
    assert scene.link.unavailable
    assert scene.link.retry_ns is not None
    assert scene.link.retry_ns > first
    assert scene.notes.lines == ["no daemon: there is none"]


def test_the_pauses_grow_and_end_at_five_seconds(scene: Scene) -> None:
    now_ns, pauses = 0, []
    for _ in range(8):
        scene.link.connect(now_ns)
        assert scene.link.retry_ns is not None
        pauses.append(scene.link.retry_ns - now_ns)
        now_ns = scene.link.retry_ns
    assert pauses == sorted(pauses)
    assert pauses[-1] == pauses[-2] == 5 * S


def test_a_daemon_that_comes_after_two_failures_is_available(scene: Scene) -> None:
    scene.error = BlockingIOError(11, "somebody else is starting it")
    scene.link.connect(0)
    scene.link.connect(S)
    assert scene.link.unavailable
    daemon = scene.daemon()
    scene.link.send(started(), 10 * S)
    assert not scene.link.unavailable
    assert daemon.frames(1) == [started()]


def test_a_link_that_was_up_never_becomes_unavailable(scene: Scene) -> None:
    scene.daemon()
    scene.link.connect(0)
    scene.daemons[0].die()
    scene.link.send(started(), 0)
    scene.link.send(beat(seq=1), 0)
    for second in range(1, 6):
        scene.link.connect(second * S)
    assert not scene.link.unavailable


def test_the_last_frame_is_tried_at_once_whatever_the_pause(scene: Scene) -> None:
    scene.link.connect(0)
    scene.link.send(started(), 1)
    daemon = scene.daemon()
    scene.link.send(settled(seq=1), 2)
    assert seqs(daemon.frames(2)) == [(0, False), (1, False)]
    assert scene.link.settled_delivered


def test_the_last_frame_is_not_delivered_while_it_waits(scene: Scene) -> None:
    scene.link.send(started(), 0)
    scene.link.send(settled(seq=1), 0)
    assert not scene.link.settled_delivered
    scene.daemon()
    scene.link.connect(S)
    assert scene.link.settled_delivered


def test_after_the_last_frame_a_connection_that_ends_is_not_replaced(scene: Scene) -> None:
    daemon = scene.daemon()
    scene.link.connect(0)
    scene.link.send(started(), 0)
    scene.link.send(settled(seq=1), 0)
    daemon.frames(2)
    daemon.hang_up()
    scene.link.service(0)
    assert scene.link.descriptor is None
    assert scene.link.retry_ns is None


def test_a_daemon_that_never_reads_blocks_nothing_and_costs_bounded_memory(scene: Scene) -> None:
    scene.daemon()
    scene.link.connect(0)
    scene.link.send(started(), 0)
    longest_s = 0.0
    most_unsent = most_in_flight = 0
    drops = 0
    text = "x" * 2000
    for seq in range(1, 2000):
        before_s = time.monotonic()
        scene.link.send(beat(seq=seq, verdict=text), seq)
        longest_s = max(longest_s, time.monotonic() - before_s)
        most_unsent = max(most_unsent, len(scene.link._out))
        most_in_flight = max(most_in_flight, len(scene.link._in_flight))
        if scene.link.descriptor is None:
            drops += 1
            assert not scene.link.unsent
    assert drops > 0
    assert longest_s < 5
    assert most_unsent <= link_module._MAX_UNSENT_BYTES + 300_000
    assert most_in_flight < 400
    assert scene.link._beats is not None
    assert len(scene.link._beats.kept) < 128


def test_what_was_not_fully_sent_is_not_marked_as_delivered(scene: Scene) -> None:
    daemon = scene.daemon()
    scene.link.connect(0)
    scene.link.send(started(), 0)
    daemon.frames(1)
    seq = 0
    while not scene.link.unsent:
        seq += 1
        scene.link.send(beat(seq=seq, verdict="x" * 4000), 0)
        assert seq < 1000, "a socket that takes everything"
    daemon.die()
    scene.link.service(0)
    assert scene.link.descriptor is None
    new = scene.daemon()
    scene.link.connect(S)
    count = 1 + len(scene.link._beats.kept if scene.link._beats else [])
    told: list[Frame] = []
    new.accept()
    while len(told) < count:
        told += new.frames(1)
        scene.link.flush(S)
    assert seqs(told)[0] == (0, True)
    assert seqs(told)[-1] == (seq, False)


def test_a_frame_too_large_for_the_wire_is_noted_and_the_next_ones_go_on(scene: Scene) -> None:
    daemon = scene.daemon()
    scene.link.connect(0)
    scene.link.send(started(), 0)
    scene.link.send(beat(seq=1, verdict="x" * 9000), 0)
    scene.link.send(beat(seq=2), 0)
    assert seqs(daemon.frames(2)) == [(0, False), (2, False)]
    assert len(scene.notes.lines) == 1
    assert "frame not sent" in scene.notes.lines[0]


def test_closing_twice_and_sending_afterwards_raises_nothing(scene: Scene) -> None:
    scene.daemon()
    scene.link.connect(0)
    scene.link.close()
    scene.link.close()
    assert scene.link.service(0) == b""
    scene.link.flush(0)
