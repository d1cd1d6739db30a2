"""Run a command that ends in pytest's own options; what failed is tried once more, if it is little.

`python3 .ci/second_try.py WAVERED COMMAND...`, in the folder of `.pytest_cache`. The command is run as it is. Where
no more than MOST of its tests fail, it is run once more with `--last-failed`: thousands of tests with real processes
on two cores that others use too meet a moment now and then that no test had thought of. Those that pass then are
written to the file WAVERED, a line each, for the summary to name: each is a fault of the test or of the program, and
is to be mended. Exits as the last run of the command did. Standard library only: this runs before anything is
installed.
"""

import json
import subprocess
import sys
from pathlib import Path

MOST = 3
_TESTS_FAILED = 1  # pytest.ExitCode.TESTS_FAILED
_LAST_FAILED = Path(".pytest_cache/v/cache/lastfailed")


def failed() -> list[str]:
    """The tests that pytest's cache has as failed; none where there is no (sound) cache."""
    try:
        return sorted(json.loads(_LAST_FAILED.read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return []


def main() -> int:
    wavered, *command = sys.argv[1:]
    _LAST_FAILED.unlink(missing_ok=True)
    status = subprocess.run(command, check=False).returncode
    first = failed()
    if status != _TESTS_FAILED or not 1 <= len(first) <= MOST:
        return status
    print(f"\n{len(first)} of the tests failed, and once more:", *first, sep="\n  ", flush=True)
    status = subprocess.run([*command, "--last-failed"], check=False).returncode
    if passed := sorted(set(first) - set(failed())):
        with Path(wavered).open("a", encoding="utf-8") as file:
            file.writelines(f"{name}\n" for name in passed)
    return status


if __name__ == "__main__":
    sys.exit(main())
