"""The ledger, read by a daemon: whose supervisor is gone, what is told of it, and when its entry goes."""

import asyncio
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from daemon_support import Daemon, RecordingSink, beat, settled, started

from sidecar.core import frame as wire
from sidecar.daemon.accounting import Accounting
from sidecar.daemon.ledger import Ledger
from sidecar.places import ledger_folder
from sidecar.supervisor.ledger import enter

ID = "01890a5d-ac96-774b-bcce-b302099a8057"
SECOND_NS = 1_000_000_000
WAIT_S = 60.0


def nobody(command_id: str) -> bool:
    return False


@pytest.fixture
def socket(tmp_path: Path) -> str:
    return str(tmp_path / "s.sock")


def left(socket: str, *frames: dict[str, Any], torn: bytes = b"", command_id: str = ID) -> Path:
    """An entry whose supervisor is gone."""
    folder = Path(ledger_folder(socket))
    folder.mkdir(0o700, exist_ok=True)
    path = folder / command_id
    path.write_bytes(b"".join(map(wire.encode, frames)) + torn)
    return path


def test_an_orphan_is_given_time_to_be_heard_of(socket: str) -> None:
    left(socket, started(ID, pid=0), started(ID), settled(ID))
    ledger = Ledger(socket)
    assert ledger.orphans(nobody, 0) == []
    assert ledger.orphans(nobody, SECOND_NS - 1) == []
    ((command_id, frames),) = ledger.orphans(nobody, SECOND_NS)
    assert command_id == ID
    assert [frame["type"] for frame in frames] == ["command_started", "command_settled"]
    assert frames[0]["pid"] == 11


def test_one_that_was_heard_of_is_none(socket: str) -> None:
    left(socket, started(ID), settled(ID))
    ledger = Ledger(socket)
    for now_ns in (0, 5 * SECOND_NS):
        assert ledger.orphans(lambda command_id: command_id == ID, now_ns) == []


def test_before_the_spawn_there_was_no_pid(socket: str) -> None:
    left(socket, started(ID, pid=0))
    (frame,) = Ledger(socket).frames(ID)
    assert "pid" not in frame


def test_a_failed_spawn_has_one_frame(socket: str) -> None:
    identity = {key: value for key, value in started(ID).items() if key not in ("type", "pid")}
    left(socket, {**settled(ID, reason="spawn_failed"), **identity})
    assert [frame["reason"] for frame in Ledger(socket).frames(ID)] == ["spawn_failed"]


@pytest.mark.parametrize("torn", [b'{"v":1,"type":"comm', b"\0\0\0", b"x" * 9000])
def test_a_torn_line_costs_no_other(socket: str, torn: bytes) -> None:
    left(socket, started(ID), torn=torn)
    assert [frame["type"] for frame in Ledger(socket).frames(ID)] == ["command_started"]


@pytest.mark.parametrize("lives", [True, False])
def test_a_supervisor_that_lives_keeps_its_entry(socket: str, lives: bool) -> None:
    ready, go = os.pipe(), os.pipe()
    if (child := os.fork()) == 0:
        enter(socket, ID, wire.encode(started(ID)))
        os.write(ready[1], b".")
        os.read(go[0], 1)
        os._exit(0)
    os.read(ready[0], 1)
    if not lives:
        os.write(go[1], b".")
        os.waitpid(child, 0)
    ledger = Ledger(socket)
    ledger.orphans(nobody, 0)
    assert len(ledger.orphans(nobody, SECOND_NS)) == (not lives)
    if lives:
        os.write(go[1], b".")
        os.waitpid(child, 0)
    for descriptor in (*ready, *go):
        os.close(descriptor)


def test_a_supervisor_that_has_only_just_made_its_entry_keeps_it(socket: str) -> None:
    path = left(socket)
    ready, go = os.pipe(), os.pipe()
    if (child := os.fork()) == 0:
        with path.open("wb") as entry:
            os.read(go[0], 1)
            os.lockf(entry.fileno(), os.F_TLOCK, 0)
            os.write(entry.fileno(), wire.encode(started(ID)))
            os.write(ready[1], b".")
            os.read(go[0], 1)
        os._exit(0)
    ledger = Ledger(socket)
    assert ledger.orphans(nobody, 0) == []
    os.write(go[1], b".")
    os.read(ready[0], 1)
    assert ledger.orphans(nobody, SECOND_NS) == []
    assert path.exists()
    os.write(go[1], b".")
    os.waitpid(child, 0)
    for descriptor in (*ready, *go):
        os.close(descriptor)


def test_what_is_no_entry_is_removed(socket: str, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(wire.encode(started("link")))
    folder = left(socket, started("another"), command_id="stranger").parent
    (folder / "link").symlink_to(victim)
    (folder / "empty").touch()
    os.mkfifo(folder / "fifo")
    (folder / "folder").mkdir()
    ledger = Ledger(socket)
    assert ledger.orphans(nobody, 0) == []
    assert sorted(os.listdir(folder)) == ["empty", "folder", "lock", "stranger"]
    assert ledger.orphans(nobody, SECOND_NS) == []
    assert sorted(os.listdir(folder)) == ["folder", "lock"]
    assert victim.exists()


def test_one_daemon_at_a_time(socket: str) -> None:
    left(socket, started(ID))
    first, second = Ledger(socket), Ledger(socket)
    for ledger, count in ((first, 1), (second, 0)):
        ledger.orphans(nobody, 0)
        assert len(ledger.orphans(nobody, SECOND_NS)) == count
    first.close()
    second.orphans(nobody, 0)
    assert len(second.orphans(nobody, SECOND_NS)) == 1


@pytest.mark.parametrize("command_id", ["../victim", "", ".", "lock"])
def test_a_name_that_is_a_path_is_no_command(socket: str, tmp_path: Path, command_id: str) -> None:
    left(socket, started(ID))
    (tmp_path / "victim").write_text("")
    ledger = Ledger(socket)
    ledger.orphans(nobody, 0)
    ledger.remove([command_id])
    assert ledger.frames(command_id) == []
    assert (tmp_path / "victim").exists()
    assert (Path(ledger.folder) / "lock").exists()


# With a server


class Saving(RecordingSink):
    """A sink that is safe only when it is told so."""

    def __init__(self) -> None:
        super().__init__()
        self.may_save = threading.Event()
        self.asked = threading.Event()

    def save(self) -> bool:
        self.asked.set()
        return self.may_save.is_set()


class Accounted(Daemon):
    """A daemon that looks at its ledger on a clock of the test's, which leaps by a second at each look."""

    def accounting(self) -> Accounting:
        times = iter(range(0, 10**15, SECOND_NS))
        return Accounting(self.server, clock_ns=lambda: next(times))

    def on_loop(self, call: Callable[[], Any]) -> Any:
        async def on_it() -> Any:
            return await call()

        return asyncio.run_coroutine_threadsafe(on_it(), self._loop).result(WAIT_S)


def run_until(daemon: Accounted, accounting: Accounting, is_so: Callable[[], bool]) -> None:
    async def main() -> None:
        running = asyncio.create_task(accounting.run())
        deadline_s = time.monotonic() + WAIT_S
        while not is_so():
            assert time.monotonic() < deadline_s
            await asyncio.sleep(0.01)
        running.cancel()

    daemon.on_loop(main)


@pytest.mark.parametrize(("end", "reason"), [([], "lost"), ([settled(ID)], "exited")])
def test_an_orphan_is_told_of_once_and_its_entry_goes(
    tmp_path: Path, socket: str, end: list[dict[str, Any]], reason: str
) -> None:
    entry = left(socket, started(ID), *end)
    with Accounted(tmp_path) as daemon:
        run_until(daemon, daemon.accounting(), lambda: not entry.exists())
        # Its frames come after all: they were in a socket for longer than anybody would think.
        daemon.producer(started(ID), settled(ID)).close()
        daemon.status()
    assert daemon.sink.calls == [("started", ID), ("settled", ID, reason)]


def test_an_entry_stays_until_all_is_safe(tmp_path: Path, socket: str) -> None:
    entry = left(socket, started(ID), settled(ID))
    sink = Saving()
    with Accounted(tmp_path, sink) as daemon, daemon.subscribe():
        accounting = daemon.accounting()
        producer = daemon.producer(started(ID), settled(ID))
        daemon.list()
        run_until(daemon, accounting, sink.asked.is_set)
        assert entry.exists()
        sink.may_save.set()
        run_until(daemon, accounting, lambda: not entry.exists())
        producer.close()


@pytest.mark.parametrize("saved", [True, False])
def test_at_the_end_it_goes_if_all_was_saved(tmp_path: Path, socket: str, saved: bool) -> None:
    entry = left(socket, started(ID), settled(ID))
    with Accounted(tmp_path) as daemon:
        producer = daemon.producer(started(ID), settled(ID))
        accounting = daemon.accounting()
    producer.close()
    accounting.close(saved=saved)
    assert entry.exists() == (not saved)


def test_a_supervisor_that_could_not_say_that_its_command_ended_is_believed(tmp_path: Path, socket: str) -> None:
    left(socket, started(ID, pid=0), started(ID), settled(ID))
    with Daemon(tmp_path) as daemon, daemon.subscribe():
        daemon.producer(started(ID), beat(ID)).close()
        deadline_s = time.monotonic() + WAIT_S
        while len(daemon.sink.calls) < 3 and time.monotonic() < deadline_s:
            time.sleep(0.01)
    assert daemon.sink.calls == [("started", ID), ("heartbeat", ID), ("settled", ID, "exited")]
