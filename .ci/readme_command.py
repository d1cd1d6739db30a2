"""Print one of the README's two commands, as written there: `python3 .ci/readme_command.py demo|test`.

A command is the one-line `sh` block that follows the marker `<!-- command: NAME -->`. Exits 1 where the README
has no such block. Standard library only: this runs before anything is installed.
"""

import re
import sys
from pathlib import Path

README = Path(__file__).parent.parent / "README.md"


def readme_command(name: str, text: str) -> str | None:
    """The command marked `name` in the README's `text`; None where there is no block of exactly one line."""
    block = re.search(rf"<!-- command: {re.escape(name)} -->\n+```sh\n([^\n]+)\n```\n", text)
    return block[1] if block else None


def main() -> int:
    name = sys.argv[1] if len(sys.argv) == 2 else ""
    command = readme_command(name, README.read_text(encoding="utf-8"))
    if command is None:
        print(f"README.md has no one-line sh block marked `<!-- command: {name} -->`", file=sys.stderr)
        return 1
    print(command)
    return 0


if __name__ == "__main__":
    sys.exit(main())
