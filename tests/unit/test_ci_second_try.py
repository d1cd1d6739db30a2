"""What `.ci/run` does with tests that fail: a few are tried once more and named, many are not."""

import subprocess
import sys
from pathlib import Path

import pytest

SECOND_TRY = Path(__file__).parents[2] / ".ci" / "second_try.py"
# Each fails in its first runs, and counts them.
WAVERS = """
from pathlib import Path
import pytest

@pytest.mark.parametrize("number", range({tests}))
def test_wavers(number):
    runs = Path(f"runs-{{number}}")
    runs.write_text((runs.read_text() if runs.exists() else "") + "x")
    assert len(runs.read_text()) > {failing_runs}

def test_holds():
    pass
"""


@pytest.mark.parametrize(
    ("tests", "failing_runs", "status", "runs", "wavered"),
    [
        (2, 0, 0, 1, 0),
        (3, 1, 0, 2, 3),
        (3, 2, 1, 2, 0),
        (4, 1, 1, 1, 0),
    ],
    ids=["none fails", "a few waver", "fails twice", "many fail"],
)
def test_a_second_try(tmp_path: Path, tests: int, failing_runs: int, status: int, runs: int, wavered: int) -> None:
    (tmp_path / "test_it.py").write_text(WAVERS.format(tests=tests, failing_runs=failing_runs))
    words = [sys.executable, SECOND_TRY, "wavered", sys.executable, "-m", "pytest", "-q"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == status, done.stdout
    assert [len((tmp_path / f"runs-{number}").read_text()) for number in range(tests)] == [runs] * tests
    named = (tmp_path / "wavered").read_text().splitlines() if wavered else []
    assert named == [f"test_it.py::test_wavers[{number}]" for number in range(wavered)]
    assert wavered or not (tmp_path / "wavered").exists()


def test_what_is_no_failed_test_is_not_tried_again(tmp_path: Path) -> None:
    words = [sys.executable, SECOND_TRY, "wavered", "sh", "-c", "echo run; exit 3"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (3, "run\n")
