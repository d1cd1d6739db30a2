"""A daemon of the other default is found: a login session has XDG_RUNTIME_DIR, `sudo -iu` and cron have none."""

import os
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sidecar.daemon.elsewhere import found

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the places are those of Linux")
Listen = Callable[..., None]


class Machine:
    def __init__(self, folder: Path) -> None:
        self.runtime, self.temporary = folder / "run", folder / "tmp"
        self.session = self.runtime / str(os.getuid()) / "sidecar"
        self.none = self.temporary / f"sidecar-{os.getuid()}"
        self.with_session = {"XDG_RUNTIME_DIR": str(self.session.parent), "TMPDIR": str(self.temporary)}
        self.without = {"TMPDIR": str(self.temporary)}

    def ask(self, environ: dict[str, str]) -> Path:
        return Path(found(environ, runtime=str(self.runtime), temporary=str(self.temporary))).parent


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.fixture
def listen() -> Iterator[Listen]:
    """Somebody listens in a folder, which is made; or did, and was killed."""
    sockets = []

    def make(folder: Path, mode: int = 0o700, *, killed: bool = False) -> None:
        folder.mkdir(parents=True)
        sock = socket.socket(socket.AF_UNIX)
        here = os.open(folder, os.O_RDONLY)  # the path may be too long for an address
        try:
            sock.bind(f"/proc/self/fd/{here}/sidecar.sock")
        finally:
            os.close(here)
        folder.chmod(mode)
        if killed:
            sock.close()
            return
        sock.listen()
        sockets.append(sock)

    yield make
    for each in sockets:
        each.close()


def test_where_none_is_the_default_counts(machine: Machine) -> None:
    assert machine.ask(machine.with_session) == machine.session
    assert machine.ask(machine.without) == machine.none


def test_that_of_the_other_default_is_found(machine: Machine, listen: Listen) -> None:
    listen(machine.session)
    assert machine.ask(machine.without) == machine.session
    listen(machine.none)
    assert machine.ask(machine.without) == machine.none
    assert machine.ask(machine.with_session) == machine.session


def test_from_a_session_that_of_cron_is_found(machine: Machine, listen: Listen) -> None:
    listen(machine.none)
    assert machine.ask(machine.with_session) == machine.none


def test_a_folder_that_others_may_write_to_is_passed_over(machine: Machine, listen: Listen) -> None:
    listen(machine.none, 0o777)
    assert machine.ask(machine.with_session) == machine.session


def test_a_link_is_passed_over(machine: Machine, listen: Listen) -> None:
    listen(machine.temporary / "theirs")
    machine.none.symlink_to(machine.temporary / "theirs")
    assert machine.ask(machine.with_session) == machine.session


def test_what_a_killed_daemon_has_left_is_passed_over(machine: Machine, listen: Listen) -> None:
    listen(machine.none, killed=True)
    listen(machine.session)
    assert machine.ask(machine.without) == machine.session
