"""`python -m collectors.record PID FILE`: look at a process tree, keep what the kernel answered, print the verdict.

The file holds process names, open paths and peer addresses of the tree and of those around it: look before you
send it. No command line, no environment, no data of the process is in it, but for the few words a wait is about.
"""

import argparse
import sys

from collectors.look import Looker
from collectors.recording import RecordingKernel, dumps, record
from sidecar.core.verdict import judge


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m collectors.record", description=__doc__)
    parser.add_argument("pid", type=int)
    parser.add_argument("file")
    parser.add_argument("--about", default="", help="what the command does, in a few words")
    arguments = parser.parse_args()
    kernel = RecordingKernel()
    recorded, before, after = record(Looker(arguments.pid, kernel=kernel), kernel, {"about": arguments.about})
    verdict = judge(before, after)
    recorded = {"verdict": verdict.name, **recorded}
    with open(arguments.file, "w", encoding="utf-8") as file:
        file.write(dumps(recorded))
    sys.stdout.write(f"{verdict.name} ({verdict.confidence})\n")
    for line in verdict.evidence:
        sys.stdout.write(f"  {line}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
