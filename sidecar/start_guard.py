"""Streams over which Python does not start: a folder as descriptor 0, 1 or 2 (`sidecar run -- CMD </`).

The interpreter ends with a fatal error before it has run a line of ours. As installed, the script starts in a shell,
which moves the folders out of the way. Its direct form has no shell in front; but there is one thing that Python loads
before it opens its streams, the package `encodings`, and `-X pycache_prefix` says where the bytecode of that lies. So
the direct script names a folder of ours, in which is the bytecode of the very same source with GUARD before it.

Like any .pyc file it counts only for a source of the recorded time and size, and for this interpreter: another one
finds the source, and starts as without us. GUARD takes the prefix away at once, so that it is for nothing else.
"""

import encodings
import importlib.util
import marshal
import os

from sidecar.startup_cache import replace_file

# Run in the namespace of `encodings`: it leaves nothing there. The script's `sidecar.launch` puts back what is moved.
GUARD = """
def _clear_streams():
    import posix
    import sys

    sys.pycache_prefix = None
    moved = []
    for descriptor in (0, 1, 2):
        try:
            if posix.fstat(descriptor).st_mode & 0o170000 == 0o040000:
                places = [posix.dup(descriptor)]
                while places[-1] < 3:
                    places.append(posix.dup(descriptor))
                for low in places[:-1]:
                    posix.close(low)
                null = posix.open("/dev/null", posix.O_RDWR)
                posix.dup2(null, descriptor)
                posix.close(null)
                moved.append("%d:%d" % (descriptor, places[-1]))
        except OSError:
            pass
    if moved:
        sys._xoptions["sidecar_moved"] = ",".join(moved)
_clear_streams()
del _clear_streams
"""


def write(prefix: str) -> None:
    """Put the guarded bytecode under `prefix`. Raises OSError; ValueError where Python has no source of it."""
    source = encodings.__file__
    status = os.stat(source)
    with open(source, encoding="utf-8") as file:
        code = compile(GUARD + file.read(), source, "exec")
    path = os.path.join(prefix, os.path.dirname(source).lstrip("/"), os.path.basename(_cached(source)))
    os.makedirs(os.path.dirname(path), exist_ok=True)
    fields = (0, int(status.st_mtime) & 0xFFFFFFFF, status.st_size & 0xFFFFFFFF)  # PEP 552: checked by time and size
    header = importlib.util.MAGIC_NUMBER + b"".join(field.to_bytes(4, "little") for field in fields)
    replace_file(path, header + marshal.dumps(code), 0o644)


def _cached(source: str) -> str:
    """The .pyc file's usual path. Raises ValueError for what is no source."""
    if not source.endswith(".py"):
        raise ValueError(f"{source} is no source")
    return importlib.util.cache_from_source(source)
