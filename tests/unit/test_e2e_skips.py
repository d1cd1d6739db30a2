"""In CI an end-to-end test that skips has failed; elsewhere it has skipped, and other tests may skip anywhere."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CONFTEST = Path(__file__).parents[1] / "conftest.py"
SKIPS = "import pytest\n\ndef test_it():\n    pytest.skip('no backend here')\n"
SKIPS_ALL = "import pytest\n\npytest.importorskip('no_such_module')\n"
EXPECTED_FAILURE = "import pytest\n\n@pytest.mark.xfail\ndef test_it():\n    raise AssertionError\n"


def outcome(tmp_path: Path, folder: str, source: str, ci: str) -> tuple[int, str]:
    """The exit code of pytest, and its closing line without the time, of a suite that is one module."""
    tests = tmp_path / "tests"
    (tests / folder).mkdir(parents=True)
    shutil.copy(CONFTEST, tests / "conftest.py")
    (tests / folder / "test_one.py").write_text(source)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n    e2e: x\n")
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"],
        cwd=tmp_path,
        env={**os.environ, "CI": ci},
        capture_output=True,
        text=True,
        check=False,
    )
    return result.returncode, re.sub(r" in .*", "", result.stdout.strip().splitlines()[-1])


@pytest.mark.parametrize(
    ("folder", "source", "ci", "expected"),
    [
        ("e2e", SKIPS, "true", (1, "1 failed")),
        ("e2e", SKIPS, "", (0, "1 skipped")),
        ("unit", SKIPS, "true", (0, "1 skipped")),
        ("e2e", SKIPS_ALL, "true", (2, "1 error")),
        ("e2e", SKIPS_ALL, "", (5, "1 skipped")),
        ("e2e", EXPECTED_FAILURE, "true", (0, "1 xfailed")),
    ],
)
def test_a_skip(tmp_path: Path, folder: str, source: str, ci: str, expected: tuple[int, str]) -> None:
    assert outcome(tmp_path, folder, source, ci) == expected


def test_what_tests_share_is_in_no_conftest() -> None:
    """There is one in several folders, and which one `import conftest` finds depends on which was collected first."""
    tests = Path(__file__).parents[1]
    importing = [
        str(path.relative_to(tests))
        for path in tests.rglob("*.py")
        if re.search(r"^(from|import) conftest\b", path.read_text(encoding="utf-8"), re.MULTILINE)
    ]
    assert importing == []


def test_no_two_modules_of_the_tests_have_one_name() -> None:
    """Each folder of tests is put among the places to import from: of two modules of one name one is found."""
    tests = Path(__file__).parents[1]
    places: dict[str, list[str]] = {}
    for path in tests.rglob("*.py"):
        if path.name not in ("conftest.py", "__init__.py") and not (path.parent / "__init__.py").exists():
            places.setdefault(path.name, []).append(str(path.relative_to(tests)))
    assert {name: found for name, found in places.items() if len(found) > 1} == {}
