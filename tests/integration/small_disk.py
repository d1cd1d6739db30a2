"""A test aid: a program of Python on a small file system of its own, to be filled."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# A mount in a name space of its own, which is gone with the process; works without root where the kernel lets it.
_MOUNTED = 'mount -t tmpfs -o "size=$1,mode=700" none "$2" && shift 2 && exec "$@"'


def on_a_small_disk(folder: Path, size: str, program: str) -> "subprocess.CompletedProcess[str]":
    """Run `program`, whose sys.argv[1] is `folder`, with a tmpfs of `size` mounted there; skips where none can be."""
    who = [] if os.getuid() == 0 else ["--map-root-user"]
    unshare = ["unshare", "--mount", *who, "sh", "-c", _MOUNTED, "sh", size, str(folder)]
    try:
        possible = subprocess.run([*unshare, "true"], capture_output=True, text=True, timeout=20)
    except FileNotFoundError:
        pytest.skip("there is no unshare(1)")
    if possible.returncode != 0:
        pytest.skip(f"no mount in a name space of one's own: {possible.stderr.strip()}")
    return subprocess.run(
        [*unshare, sys.executable, "-c", program, str(folder)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
    )
