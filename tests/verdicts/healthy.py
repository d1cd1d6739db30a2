"""Looks at healthy scenarios on a busy machine: none may say that the command may be hung.

    python -m tests.verdicts.healthy [--looks 1000] [--user root|user]

Two processes compute beside it all. Each healthy scenario is staged, and looked at until the looks are used up, evenly.
Exits 1 where there was a false alarm.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import os
import subprocess
import sys
import time
from collections import Counter

from sidecar.core.verdict_names import group_of
from tests.verdicts.helpers import StagingError
from tests.verdicts.rehearse import LOOK_S, end_properly_when_terminated, workers
from tests.verdicts.scenario import Scenario, scenarios
from tests.verdicts.stage import staged
from tests.verdicts.theatre import Theatre

_AT_ONCE = 10
_HOGS = 2


def look_at(
    theatre: Theatre, scenario: Scenario, looks: int, unprivileged: bool
) -> tuple[list[dict[str, object]], str]:
    """So many verdicts of one scenario, one after the other, and what went wrong with staging it."""
    found = []
    try:
        with staged(theatre, scenario.name, scenario.stage, unprivileged) as stage:
            found += [stage.look(["everything"], LOOK_S)["everything"] for _ in range(looks)]
    except (StagingError, AssertionError, OSError) as error:
        return found, str(error)
    return found, ""


def _hog(theatre: Theatre, folder: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([theatre.python, "-c", "while True: pass"], cwd=folder)


def run(looks: int, unprivileged: bool) -> int:
    """Prints the outcome; the number of false alarms, or -1 where too few looks could be had."""
    chosen = [one for one in scenarios() if one.healthy and not one.missing() and one.lane != "alone"]
    each, more = divmod(looks, len(chosen))
    theatre = Theatre()
    load = theatre.folder("load")
    counts: Counter[str] = Counter()
    alarms = 0
    started = time.monotonic()
    hogs = [_hog(theatre, str(load)) for _ in range(_HOGS)]
    try:
        with workers(_AT_ONCE) as pool:
            futures = {
                pool.submit(look_at, theatre, one, each + (number < more), unprivileged): one
                for number, one in enumerate(chosen)
                if each + (number < more)
            }
            for future in concurrent.futures.as_completed(futures):
                verdicts, error = future.result()
                if error:
                    print(f"not staged: {futures[future].name}: {error}", flush=True)
                for verdict in verdicts:
                    counts[str(verdict["group"])] += 1
                    if group_of(str(verdict["verdict"])) == "may_be_hung":
                        alarms += 1
                        print(f"false alarm: {futures[future].name}: {verdict}", flush=True)
    finally:
        for hog in hogs:
            hog.kill()
            hog.wait()
        theatre.close()
    total = sum(counts.values())
    groups = ", ".join(f"{group} {count}" for group, count in counts.most_common())
    print(
        f"{alarms} false alarms in {total} looks at {len(chosen)} healthy scenarios, {_HOGS} busy cores "
        f"({groups}); {time.monotonic() - started:.0f} s"
    )
    return alarms if total >= 0.95 * looks else -1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--looks", type=int, default=1000)
    parser.add_argument("--user", choices=["root", "user"], default="user")
    options = parser.parse_args()
    end_properly_when_terminated()
    return 1 if run(options.looks, options.user == "user" and os.geteuid() == 0) else 0


if __name__ == "__main__":
    sys.exit(main())
