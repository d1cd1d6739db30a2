"""A daemon of the other default is found: a login session has XDG_RUNTIME_DIR, `sudo -iu` and cron have none."""

import os
from pathlib import Path

import pytest

from sidecar.daemon.elsewhere import found


class Machine:
    def __init__(self, folder: Path) -> None:
        self.runtime, self.temporary = folder / "run", folder / "tmp"
        self.session = self.runtime / str(os.getuid()) / "sidecar"
        self.none = self.temporary / f"sidecar-{os.getuid()}"
        self.with_session = {"XDG_RUNTIME_DIR": str(self.session.parent), "TMPDIR": str(self.temporary)}
        self.without = {"TMPDIR": str(self.temporary)}

    def ask(self, environ: dict[str, str]) -> Path:
        return Path(found(environ, str(self.runtime), str(self.temporary))).parent


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def listen(folder: Path, mode: int = 0o700) -> None:
    folder.mkdir(parents=True)
    folder.chmod(mode)
    (folder / "sidecar.sock").touch()


def test_where_none_is_the_default_counts(machine: Machine) -> None:
    assert machine.ask(machine.with_session) == machine.session
    assert machine.ask(machine.without) == machine.none


def test_that_of_the_other_default_is_found(machine: Machine) -> None:
    listen(machine.session)
    assert machine.ask(machine.without) == machine.session
    listen(machine.none)
    assert machine.ask(machine.without) == machine.none
    assert machine.ask(machine.with_session) == machine.session


def test_from_a_session_that_of_cron_is_found(machine: Machine) -> None:
    listen(machine.none)
    assert machine.ask(machine.with_session) == machine.none


def test_a_folder_that_others_may_write_to_is_passed_over(machine: Machine) -> None:
    listen(machine.none, 0o777)
    assert machine.ask(machine.with_session) == machine.session


def test_a_link_is_passed_over(machine: Machine) -> None:
    listen(machine.temporary / "theirs")
    machine.none.symlink_to(machine.temporary / "theirs")
    assert machine.ask(machine.with_session) == machine.session
