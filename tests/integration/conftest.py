"""One installation and one daemon for all tests of the supervisor."""

import subprocess
from collections.abc import Iterator

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
