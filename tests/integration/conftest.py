"""One installation and one daemon for all tests of the supervisor."""

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
    yield installation
    stop_daemon(installation.socket)
