"""Write the table of options in docs/guide.md anew from sidecar/config.py: `python .ci/option_table.py`.

Needs the package to be importable. A test fails when the page and the model differ.
"""

import re
from collections.abc import Iterable
from pathlib import Path

from sidecar.config import OPTIONS, Option

GUIDE = Path(__file__).parent.parent / "docs" / "guide.md"
_TABLE = re.compile(r"(<!-- options: .*?\n\n\|.*?\n\|---.*?\n).*?(\n<!-- end of options -->)", re.DOTALL)


def row(option: Option) -> str:
    flag = f"`{option.flag}`" if option.flag else "none"
    if option.flag and option.is_switch:
        flag += f", `--no-{option.flag[2:]}`"
    default = f"`{option.default}`" if option.default else "none"
    return f"| `{option.name}` | {flag} | {default} | {option.doc} |"


def with_table(page: str, options: Iterable[Option]) -> str:
    """The text of the guide with the table as the model has it."""
    rows = "".join(f"{row(option)}\n" for option in options)
    return _TABLE.sub(lambda found: found[1] + rows + found[2], page)


if __name__ == "__main__":
    GUIDE.write_text(with_table(GUIDE.read_text(encoding="utf-8"), OPTIONS), encoding="utf-8")
