"""What has to be looked at before Python has started: its streams, and the signals that it was given ignored.

Over a folder as descriptor 0, 1 or 2 (`sidecar run -- CMD </`) the interpreter ends with a fatal error before it has
run a line of ours; and it has SIGPIPE and SIGXFSZ ignored by then, whatever they were. As installed, the script starts
in a shell, which moves the folders out of the way and reads what is ignored. Its direct form has no shell in front; but
there is one thing that Python loads before it touches either (`init_interp_main` in CPython's Python/pylifecycle.c),
the package `encodings`, and `-X pycache_prefix` says where the bytecode of that lies. So the direct script names a
folder of ours, in which is the bytecode of the very same source with GUARD before it.

The bytecode of the two modules that `encodings` then looks for is in it too: to look for them, and to read a file each,
takes 0.3 ms of 6. As in the start-up cache a module counts only for a source of the recorded time and size.

Like any .pyc file it counts only for a source of the recorded time and size, and for this interpreter: another one
finds the source, and starts as without us. GUARD takes the prefix away at once, so that it is for nothing else.
"""

import encodings
import importlib.util
import marshal
import os
from types import CodeType

from sidecar.startup_cache import replace_file

# Run in the namespace of `encodings`: it leaves nothing there. The script's `sidecar.launch` puts back what is moved.
# What is ignored is field 33 of proc(5), a mask; `sidecar.supervisor.spawn` hands it on to the command. Not asked of
# `_signal`, which is no module yet.
GUARD = """
def _look():
    import posix
    import sys

    sys.pycache_prefix = None
    try:
        stat = posix.open("/proc/self/stat", posix.O_RDONLY)
        sys._xoptions["sidecar_ignored"] = posix.read(stat, 4096).rpartition(b")")[2].split()[30].decode("ascii")
        posix.close(stat)
    except (OSError, IndexError):
        pass
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

def _load_codecs(entries):
    import marshal
    import posix
    import sys

    for name, path, mtime_ns, size, code in marshal.loads(entries):
        try:
            status = posix.stat(path)
        except OSError:
            continue
        if (status.st_mtime_ns, status.st_size) == (mtime_ns, size):
            module = type(sys)(name)
            module.__file__ = path
            module.__package__ = __name__
            sys.modules[name] = module
            exec(code, module.__dict__)
            globals()[name.rpartition(".")[2]] = module

_look()
_load_codecs({codecs!r})
del _look, _load_codecs
"""
CODECS = ("aliases", "utf_8")


def write(prefix: str) -> None:
    """Put the guarded bytecode under `prefix`. Raises OSError; ValueError where Python has no source of it."""
    source = encodings.__file__
    status = os.stat(source)
    guard = GUARD.format(codecs=marshal.dumps(_codecs(os.path.dirname(source))))
    with open(source, encoding="utf-8") as file:
        code = compile(guard + file.read(), source, "exec")
    path = os.path.join(prefix, os.path.dirname(source).lstrip("/"), os.path.basename(_cached(source)))
    os.makedirs(os.path.dirname(path), exist_ok=True)
    fields = (0, int(status.st_mtime) & 0xFFFFFFFF, status.st_size & 0xFFFFFFFF)  # PEP 552: checked by time and size
    header = importlib.util.MAGIC_NUMBER + b"".join(field.to_bytes(4, "little") for field in fields)
    replace_file(path, header + marshal.dumps(code), 0o644)


def _codecs(folder: str) -> list[tuple[str, str, int, int, CodeType]]:
    """(name, path of the source, mtime in ns, size in bytes, code) of CODECS."""
    entries = []
    for name in CODECS:
        path = os.path.join(folder, f"{name}.py")
        with open(path, "rb") as file:
            status = os.fstat(file.fileno())
            code = compile(file.read(), path, "exec", dont_inherit=True, optimize=2)
        entries.append((f"encodings.{name}", path, status.st_mtime_ns, status.st_size, code))
    return entries


def _cached(source: str) -> str:
    """The .pyc file's usual path. Raises ValueError for what is no source."""
    if not source.endswith(".py"):
        raise ValueError(f"{source} is no source")
    return importlib.util.cache_from_source(source)
