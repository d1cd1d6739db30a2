"""The installed `sidecar` script: from the installer's form to the direct one.

A wheel can only carry a script whose first line names /bin/sh, since nobody knows yet where its interpreter will be.
The shell in front costs 0.7 ms, and it is not transparent: dash drops variables whose names it does not take for
names (bash's exported functions, `BASH_FUNC_x%%`), sets PWD right, and forgets an ignored SIGCHLD. So the daemon, when
it starts, replaces the first lines by `#!<interpreter> -IS`, as an installer does for the scripts that it makes itself.

Where that cannot be (a folder that may not be written to, a path with spaces or over the kernel's limit), the
installer's form stays, and works.

The shell also moves folders out of Python's way; in the direct form `start_guard` does, where the line has room for it.
"""

import os
import re
import sys
import sysconfig

from sidecar import start_guard
from sidecar.startup_cache import replace_file

NAMES = ("sidecar", "sidecar-sh")
_SHELL_START = "#!/bin/sh\n''':'\n"
_SHELL_END = "\n'''\n"
_PACKAGES = "packages = "
_MAX_INTERPRETER_BYTES = 120
_MAX_LINE_BYTES, _MAX_OLD_LINE_BYTES = 250, 127
"""The kernel reads 256 bytes of a first line, before Linux 5.1 128: execve(2)."""
_GUARD = "/sidecar/__pycache__/start"


def direct(text: str, interpreter: str, packages: str, max_line_bytes: int = _MAX_LINE_BYTES) -> str | None:
    """The script's direct form; None where `text` is not the installer's form, or the path does not fit.

    With the option for `start_guard` where the first line has room for it. The line that finds the packages from the
    script's own place becomes a literal: the shell had followed links.
    """
    if not text.startswith(_SHELL_START) or _SHELL_END not in text:
        return None
    if any(letter.isspace() for letter in interpreter) or len(os.fsencode(interpreter)) > _MAX_INTERPRETER_BYTES:
        return None
    lines = text.partition(_SHELL_END)[2].split("\n")
    places = [number for number, line in enumerate(lines) if line.startswith(_PACKAGES)]
    if len(places) != 1:
        return None
    lines[places[0]] = f"{_PACKAGES}{packages!r}"
    plain, guarded = f"#!{interpreter} -IS", f"#!{interpreter} -ISXpycache_prefix={packages}{_GUARD}"
    has_room = len(os.fsencode(guarded)) <= max_line_bytes and not any(letter.isspace() for letter in packages)
    return "\n".join([guarded if has_room else plain, *lines])


def make_direct() -> list[str]:
    """Replace the scripts of this installation, each at once or not at all. Returns the paths that were replaced."""
    folder = sysconfig.get_path("scripts")
    interpreter = os.path.join(folder, "python3")
    packages = sysconfig.get_path("purelib")
    if sys.platform != "linux" or not os.access(interpreter, os.X_OK):
        return []  # elsewhere a first line that names a script (a shim) or has options is not sure to work
    limit = _MAX_LINE_BYTES
    try:
        start_guard.write(packages + _GUARD)
    except (OSError, ValueError):
        limit = 0
    if _kernel() < (5, 1):
        limit = min(limit, _MAX_OLD_LINE_BYTES)
    replaced = []
    for name in NAMES:
        path = os.path.join(folder, name)
        try:
            if os.path.islink(path):
                continue
            with open(path, encoding="utf-8") as file:
                text = direct(file.read(), interpreter, packages, limit)
            if text is None or not _is_binary(interpreter):
                continue
            replace_file(path, text.encode(), os.stat(path).st_mode & 0o7777)
        except (OSError, UnicodeError):
            continue
        replaced.append(path)
    return replaced


def _kernel() -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", os.uname().release)[:2])


def _is_binary(interpreter: str) -> bool:
    with open(interpreter, "rb") as file:
        return file.read(4) == b"\x7fELF"

