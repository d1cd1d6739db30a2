"""Rules of --on-verdict and a real database: a slow query is a healthy wait, and no rule about trouble ends it."""

import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from installed import SCRIPT, Sidecar

from sidecar.testing.otlp import OtlpReceiver
from tests.verdicts.postgresql import Postgresql
from tests.verdicts.scenario import postgresql_folder

QUERY_S = 8
RULES = "may_be_hung:1s=cancel,needs_someone:1s=cancel,unknown:1s=cancel"
"""Much stricter than anybody would have them: the query is silent eight times as long."""


@pytest.fixture(scope="module")
def base() -> Iterator[Postgresql]:
    if postgresql_folder() is None or shutil.which("psql") is None:
        pytest.skip("no PostgreSQL is installed (Debian: postgresql, postgresql-client)")
    # Not pytest's folder: the server runs as another user, who must get there.
    with tempfile.TemporaryDirectory(prefix="sql-probe-") as folder:
        Path(folder).chmod(0o755)
        with Postgresql(Path(folder, "cluster")) as base:
            yield base


@pytest.fixture
def receiver() -> Iterator[OtlpReceiver]:
    with OtlpReceiver() as receiver:
        yield receiver


@pytest.fixture
def sidecar(tmp_path: Path, receiver: OtlpReceiver) -> Iterator[Sidecar]:
    # Not before psql has come up: what it does until then has other verdicts.
    with Sidecar(tmp_path, receiver.http_endpoint, 1.0, VERDICT_AFTER="1500ms", ON_VERDICT=RULES) as sidecar:
        yield sidecar


@pytest.mark.parametrize(("unix", "verdict"), [(False, "network_wait"), (True, "ipc_wait")])
def test_a_slow_query_ends_by_itself(
    base: Postgresql, sidecar: Sidecar, receiver: OtlpReceiver, unix: bool, verdict: str
) -> None:
    query = f"select pg_sleep({QUERY_S})::text || 'done'"
    child = sidecar.start(*base.psql(unix=unix), "-Atc", query, options=("--tool-call-id", "probe"))
    output, _ = child.communicate(timeout=60)
    assert (child.returncode, output) == (0, b"done\n")
    span = receiver.wait_for_span(lambda span: span.name == "psql", timeout_s=60)
    told = [event.attributes["sidecar.verdict"] for event in span.events if "sidecar.verdict" in event.attributes]
    assert told
    assert set(told) == {verdict}


def test_a_row_lock_of_another_session_is_the_databases_affair(base: Postgresql, sidecar: Sidecar) -> None:
    """Which lock a server waits for is not to be seen from its client: to be waited for, until the timeout says no."""
    holder = subprocess.Popen(base.psql(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert holder.stdin is not None
    assert holder.stdout is not None
    try:
        holder.stdin.write("begin; update counters set n = n;\n\\echo held\n")
        holder.stdin.flush()
        assert holder.stdout.readline() == "held\n"
        child = sidecar.start(*base.psql(), "-c", "update counters set n = n + 1")
        with pytest.raises(subprocess.TimeoutExpired):
            child.wait(QUERY_S)
        listed = subprocess.run([SCRIPT, "ps", "--json"], capture_output=True, check=True, env=sidecar.environ)
        assert [command["verdict"] for command in json.loads(listed.stdout)] == ["network_wait"]
        holder.stdin.write("rollback;\n")
        holder.stdin.close()
        assert child.wait(30) == 0
    finally:
        holder.kill()
        holder.wait()
