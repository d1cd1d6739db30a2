"""Where frames go: to the daemon, inline, or nowhere; and that the fall-back loses nothing and starts late."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from daemon_support import activity, beat, settled, started
from test_supervisor_rules import options

from sidecar import rendezvous
from sidecar.core import frame as wire
from sidecar.core.errors import DaemonUnavailable
from sidecar.daemon.ledger import Ledger
from sidecar.supervisor import activate
from sidecar.supervisor.delivery import Delivery
from sidecar.supervisor.ledger import Entry, enter
from sidecar.telemetry.leftovers import files, take

Frame = dict[str, Any]


class Inline:
    def __init__(self) -> None:
        self.frames: list[Frame] = []
        self.closed = False
        self.is_safe = True

    def put(self, frame: Frame) -> None:
        self.frames.append(frame)

    def close(self, budget_s: float) -> bool:
        self.closed = True
        return self.is_safe


class Scene:
    """A delivery to a socket in `folder`; no daemon is ever really started."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.path = str(folder / "s.sock")
        self.log = folder / "log"
        self.spool = str(folder / "state" / "spool.db")
        self.inlines: list[Inline] = []
        self.error: Exception = DaemonUnavailable("there is none")
        self._monkeypatch = monkeypatch
        monkeypatch.setattr(activate, "ensure_listening", self._start)

    def _start(self, *_: object) -> None:
        raise self.error

    def _make_inline(self) -> Inline:
        self.inlines.append(Inline())
        return self.inlines[-1]

    def delivery(
        self,
        *,
        inline: bool = False,
        factory: Callable[[], Any] | None = None,
        entry: Entry | None = None,
        **chosen_too: Any,
    ) -> Delivery:
        chosen = options(10**10, None, "call_1")
        for name, value in chosen_too.items():
            setattr(chosen, name, value)
        chosen.inline, chosen.socket, chosen.log = inline, self.path, str(self.log)
        return Delivery(chosen, {}, factory or self._make_inline, entry)

    def try_again(self, delivery: Delivery) -> None:
        """The second try, which comes after a tenth of a second: only then is it said that there is no daemon."""
        assert delivery.link is not None
        delivery.link.connect(0)
        assert delivery.link.unavailable

    @property
    def notes(self) -> str:
        return self.log.read_text() if self.log.exists() else ""


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
    return Scene(tmp_path, monkeypatch)


def test_inline_where_it_was_asked_for_takes_everything(scene: Scene) -> None:
    delivery = scene.delivery(inline=True)
    sent = [started(), beat(), settled()]
    for frame in sent:
        delivery.send(frame)
    delivery.close()
    assert scene.inlines[0].frames == sent
    assert scene.inlines[0].closed
    assert delivery.link is None


def test_a_command_that_ends_before_its_first_beat_never_loads_the_telemetry(scene: Scene) -> None:
    delivery = scene.delivery()
    for frame in (started(), activity(), settled()):
        delivery.send(frame)
    delivery.close()
    assert scene.inlines == []
    # There is no home either.
    assert "it is not recorded" in scene.notes


def test_a_command_that_no_daemon_took_is_left_to_the_next_one(scene: Scene) -> None:
    delivery = scene.delivery(spool=scene.spool)
    sent = [started(), activity(), settled()]
    for frame in sent:
        delivery.send(frame)
    delivery.close()
    assert scene.inlines == []
    assert "left to the next one" in scene.notes
    lines: list[bytes] = []
    assert len(take(scene.spool, lines.extend, 10)) == 1
    assert [json.loads(line)["type"] for line in lines] == [frame["type"] for frame in sent]


def test_without_a_spool_nothing_is_left(scene: Scene) -> None:
    delivery = scene.delivery(spool=scene.spool, spool_max_bytes=0)
    for frame in (started(), settled()):
        delivery.send(frame)
    delivery.close()
    assert files(scene.spool) == []


def test_the_first_beat_without_a_daemon_goes_inline_with_all_that_was_before(scene: Scene) -> None:
    delivery = scene.delivery()
    scene.try_again(delivery)
    sent = [started(), activity(seq=1), beat(seq=2), beat(seq=3), settled(seq=4)]
    for frame in sent:
        delivery.send(frame)
    delivery.close()
    assert len(scene.inlines) == 1
    assert scene.inlines[0].frames == sent
    assert scene.inlines[0].closed
    assert delivery.link is None


@pytest.mark.parametrize("is_safe", [True, False])
def test_what_goes_inline_stays_in_the_ledger_until_it_is_safe(scene: Scene, is_safe: bool) -> None:
    """A busy machine: the time for the end is over, and the spans are neither sent nor in the spool."""
    frames = [started(), beat(seq=1), settled(seq=2)]
    entry = enter(scene.path, frames[0]["commandId"], wire.encode(frames[0]))
    assert entry is not None
    delivery = scene.delivery(entry=entry)
    scene.try_again(delivery)
    for frame in frames:
        delivery.send(frame)
    scene.inlines[0].is_safe = is_safe
    delivery.close()
    told = Ledger(scene.path).frames(frames[0]["commandId"])
    assert [frame["type"] for frame in told] == ([] if is_safe else [wire.STARTED, wire.SETTLED])


def test_a_long_flow_of_output_before_the_first_beat_does_not_crowd_it_out(scene: Scene) -> None:
    delivery = scene.delivery()
    scene.try_again(delivery)
    delivery.send(started())
    for seq in range(1, 500):
        delivery.send(activity(seq=seq))
    delivery.send(beat(seq=500))
    frames = scene.inlines[0].frames
    assert [frame["seq"] for frame in frames] == [0, 499, 500]


def test_a_daemon_that_comes_late_gets_the_frames_and_nothing_goes_inline(scene: Scene) -> None:
    delivery = scene.delivery()
    scene.try_again(delivery)
    assert delivery.link is not None
    listener = rendezvous.bind_and_listen(scene.path)
    delivery.link.retry_ns = 0
    for frame in (started(), beat(seq=1), settled(seq=2)):
        delivery.send(frame)
    delivery.close()
    assert scene.inlines == []
    listener.close()


@pytest.mark.parametrize("error", [ImportError("no opentelemetry"), RuntimeError("broken"), MemoryError()])
def test_telemetry_that_cannot_be_loaded_is_noted_and_raises_nothing(scene: Scene, error: Exception) -> None:
    def broken() -> Inline:
        raise error

    delivery = scene.delivery(inline=True, factory=broken)
    for frame in (started(), beat(), settled()):
        delivery.send(frame)
    delivery.close()
    assert "no inline telemetry" in scene.notes


def test_a_note_has_one_line_and_a_log_that_cannot_be_written_is_nobodys_problem(scene: Scene) -> None:
    scene.log.mkdir()
    delivery = scene.delivery()
    for frame in (started(), settled()):
        delivery.send(frame)
    delivery.close()
