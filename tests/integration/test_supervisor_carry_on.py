"""The rest of us cannot be loaded once the command runs: it runs on as bare, and nothing is said to it."""

import os
import signal
from pathlib import Path

import pytest
from supervised import WAIT_S, Installation, cores, on_linux

pytestmark = on_linux


@pytest.fixture(params=["ImportError", "MemoryError", "OSError"])
def broken(spaced: Installation, request: pytest.FixtureRequest) -> Installation:
    (spaced.package / "supervisor" / "loop.py").write_text(f"raise {request.param}('gone')\n")
    spaced.environ["SIDECAR_SOCKET"] = "/dev/null/none"
    return spaced


@pytest.mark.parametrize(
    "script",
    [
        "echo out; echo err >&2; exit 3",
        "head -c 3000000 /dev/zero; head -c 200000 /dev/zero >&2",
        "kill -TERM $$",
        "kill -KILL $$",
        "exec >&- 2>&-; sleep .1; exit 4",
        "cat; exit 5",
    ],
)
def test_it_ends_as_bare(broken: Installation, script: str) -> None:
    bare, wrapped = broken.both("bash", "-c", script, input=b"words\n")
    assert wrapped == bare


def test_signals_reach_it(broken: Installation) -> None:
    script = "trap 'echo got; exit 6' USR1; echo ready; while :; do sleep .05; done"
    with broken.started("bash", "-c", script) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        os.kill(child.pid, signal.SIGUSR1)
        assert child.stdout.read() == b"got\n"
        assert child.wait(WAIT_S) == 6


def test_it_dies_with_us(broken: Installation) -> None:
    with broken.started("bash", "-c", "echo $$; exec sleep 60") as child:
        assert child.stdout is not None
        assert int(child.stdout.readline()) > 1
        child.kill()
        assert child.stdout.read() == b""


def test_a_reader_that_leaves(broken: Installation) -> None:
    script = f'"{broken.script}" run -- yes 2>/dev/null | head -1; echo "${{PIPESTATUS[@]}}"'
    assert broken.run("bash", "-c", script, bare=True).stdout == b"y\n141 0\n"


def test_the_core_is_the_commands_alone(broken: Installation, tmp_path: Path) -> None:
    found = cores(broken, tmp_path)
    assert found == [1, 1] if found[0] else found == [0, 0]
