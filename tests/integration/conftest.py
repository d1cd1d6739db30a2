"""One installation and one daemon for all tests of the supervisor, and one as an installer leaves it."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from supervised import Installation, install, stop_daemon


@pytest.fixture(scope="session")
def sidecar(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    prefix = tmp_path_factory.mktemp("prefix")
    install(prefix)
    runtime = tmp_path_factory.mktemp("runtime")
    runtime.chmod(0o700)
    installation = Installation(prefix, runtime)
    # The daemon makes the script direct; the installer's form is what the tests of a folder with spaces have.
    subprocess.run([installation.script, "daemon", "start"], env=installation.environ, check=True, capture_output=True)
    assert installation.script.read_text().startswith(f"#!{prefix}/bin/python3 -ISXpycache_prefix={prefix}/")
    yield installation
    stop_daemon(installation.socket)


@pytest.fixture
def spaced(tmp_path: Path) -> Iterator[Installation]:
    """An installation of the test's own, in a folder with a space: its script stays in the installer's form."""
    tmp_path.chmod(0o700)
    install(tmp_path / "a folder")
    installation = Installation(tmp_path / "a folder", tmp_path)
    yield installation
    stop_daemon(installation.socket)
