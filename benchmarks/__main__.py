"""`python -m benchmarks [--json FILE] [NAME...]`: run them, print a table, and the figures as JSON."""

import argparse
import json
import os
import platform
import sys

from benchmarks import (
    bridge,
    in_flight,
    looking,
    many,
    memory,
    redaction,
    relay,
    silence,
    sizing,
    startup,
    terminal_relay,
)
from benchmarks.installation import installation

ALL = {
    "start-up": startup.measure,
    "relay": relay.measure,
    "terminal-relay": terminal_relay.measure,
    "bridge-acp": bridge.acp,
    "bridge-stream-json": bridge.stream_json,
    "memory": memory.measure,
    "redaction": redaction.measure,
    "in-flight": in_flight.measure,
    "many": many.measure,
    "look-few": looking.few,
    "look-many": looking.many,
    "look-net": looking.sockets,
    "look-hour": looking.hour,
    "silence": silence.measure,
    "sizing": sizing.measure,
}


def main() -> int:
    """1 where a figure is beyond its limit."""
    parser = argparse.ArgumentParser(prog="benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(ALL)}; all by default")
    parser.add_argument("--json", metavar="FILE", help="write the figures there, not to stdout")
    arguments = parser.parse_args()
    unknown = set(arguments.names) - set(ALL)
    if unknown:
        parser.error(f"there is no benchmark {', '.join(sorted(unknown))}; use {', '.join(ALL)}")
    with installation() as installed:
        rows = [measure(installed) for name, measure in ALL.items() if not arguments.names or name in arguments.names]
    for row in rows:
        mark = "ok" if row["ok"] else "BEYOND"
        print(f"{row['name']:<14} {row['ratio']:>6} {row['limit']:<11} {mark:<7} {row['what']}: {row['detail']}")
    figures = {
        "python": platform.python_version(),
        "kernel": platform.release(),
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0],
        "results": rows,
    }
    text = json.dumps(figures, indent=2)
    if arguments.json:
        with open(arguments.json, "w") as file:
            file.write(text + "\n")
    else:
        print(text)
    return 0 if all(row["ok"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
