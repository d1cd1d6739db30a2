"""The verbs over a stdout that cannot be written to, or is not there: one line, no traceback."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

_UNWRITABLE: dict[str, Callable[[], int]] = {
    "full": lambda: os.open("/dev/full", os.O_WRONLY),
    "read-only": lambda: os.open(os.devnull, os.O_RDONLY),
    "hung up": lambda: _hung_up(),
}
_CODE = "import sys; from sidecar.launch import main; sys.argv[0] = 'sidecar'; sys.exit(main())"


def _hung_up() -> int:
    master, slave = os.openpty()
    os.close(master)
    return slave


@pytest.mark.skipif(sys.platform != "linux", reason="/dev/full is Linux's")
@pytest.mark.parametrize("name", _UNWRITABLE)
def test_an_output_that_cannot_be_written_is_told_in_one_line(name: str) -> None:
    descriptor = _UNWRITABLE[name]()
    done = subprocess.run(
        [sys.executable, "-c", _CODE, "--version"], stdout=descriptor, stderr=subprocess.PIPE, text=True
    )
    os.close(descriptor)
    assert done.returncode == 125
    assert done.stderr.startswith("sidecar: cannot write the output: ")
    assert done.stderr.count("\n") == 1


def test_a_closed_output_is_none() -> None:
    done = subprocess.run(
        ["sh", "-c", 'exec "$@" >&-', "sh", sys.executable, "-c", _CODE, "--version"], stderr=subprocess.PIPE, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("verb", ["history", "top --once", "watch --once"])
@pytest.mark.parametrize("closed", [">&-", "<&- >&-"])
def test_a_verb_that_looks_at_its_closed_output(verb: str, closed: str, tmp_path: Path) -> None:
    environ = {**os.environ, "SIDECAR_SOCKET": str(tmp_path / "no" / "sock"), "XDG_STATE_HOME": str(tmp_path)}
    words = ["sh", "-c", f'exec "$@" {closed}', "sh", sys.executable, "-c", _CODE, *verb.split()]
    done = subprocess.run(words, stderr=subprocess.PIPE, text=True, env=environ)
    assert "Traceback" not in done.stderr
    assert done.stderr.count("\n") <= 1


def test_a_complaint_that_nobody_can_get_changes_no_status() -> None:
    descriptor = os.open(os.devnull, os.O_RDONLY)
    done = subprocess.run([sys.executable, "-c", _CODE, "nonsense"], stdout=subprocess.PIPE, stderr=descriptor)
    os.close(descriptor)
    assert (done.returncode, done.stdout) == (125, b"")
