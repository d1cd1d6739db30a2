"""What is put in front of `encodings`: there when it is valid, without a trace, and no harm when it is not."""

import encodings
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from sidecar import start_guard

_LOOK = (
    "import sys, encodings; names = [name for name in vars(encodings) if name in ('_look', '_load_codecs')];"
    " print(sys.pycache_prefix, sys._xoptions, names)"
)
_FOUND = (
    "import sys, encodings; from encodings import aliases, utf_8; assert 'é'.encode('latin-1') == b'\\xe9';"
    " assert aliases.aliases['utf8'] == 'utf_8' and encodings.utf_8 is utf_8;"
    " print(aliases.__spec__, utf_8.__spec__)"
)


def start(prefix: Path, code: str = _LOOK, **options: object) -> "subprocess.CompletedProcess[str]":
    words = [sys.executable, "-IS", "-X", f"pycache_prefix={prefix}", "-c", code]
    return subprocess.run(words, capture_output=True, text=True, check=False, **options)  # type: ignore[call-overload,no-any-return]


def written(prefix: Path) -> Path:
    start_guard.write(str(prefix))
    (path,) = prefix.rglob("*.pyc")
    return path


def test_it_leaves_no_trace_where_there_is_no_folder(tmp_path: Path) -> None:
    written(tmp_path)
    assert start(tmp_path).stdout.startswith("None {'pycache_prefix'")
    assert start(tmp_path).stdout.endswith("[]\n")


def test_a_folder_is_moved_and_that_is_told(tmp_path: Path) -> None:
    written(tmp_path)
    folder = os.open(tmp_path, os.O_RDONLY)
    done = start(tmp_path, stdin=folder)
    os.close(folder)
    assert done.returncode == 0
    assert "'sidecar_moved': '0:3'" in done.stdout


@pytest.mark.parametrize("number", [signal.SIGPIPE, signal.SIGXFSZ])
def test_what_was_given_ignored_is_told(tmp_path: Path, number: signal.Signals) -> None:
    """Also of the two that Python itself ignores before the first line of a script."""
    written(tmp_path)
    told = []
    for disposition in (signal.SIG_IGN, signal.SIG_DFL):
        done = start(tmp_path, preexec_fn=lambda how=disposition: signal.signal(number, how), restore_signals=False)
        told.append(int(re.findall(r"'sidecar_ignored': '(\d+)'", done.stdout)[0]))
    assert [mask >> number - 1 & 1 for mask in told] == [1, 0]


@pytest.mark.parametrize("damage", ["none there", "torn", "of another time"])
def test_python_starts_without_it(tmp_path: Path, damage: str) -> None:
    path = written(tmp_path)
    content = path.read_bytes()
    if damage == "torn":
        path.write_bytes(content[:10])
    elif damage == "of another time":
        path.write_bytes(content[:8] + b"\0\0\0\0" + content[12:])
    else:
        path.unlink()
    done = start(tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_codecs_are_not_looked_for(tmp_path: Path) -> None:
    written(tmp_path)
    assert start(tmp_path, _FOUND).stdout == "None None\n"


@pytest.mark.parametrize("change", ["another time", "another size", "gone"])
def test_codecs_that_are_not_those_we_saw_are_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    """Python was upgraded: what we have of it is not run."""
    wrong = compile("raise SystemExit('run')", "wrong", "exec")
    gone, time, size = ("x" * (change == "gone"), change == "another time", change == "another size")
    seen = [
        (name, path + gone, mtime_ns + time, size_bytes + size, wrong)
        for name, path, mtime_ns, size_bytes, _ in start_guard._codecs(os.path.dirname(encodings.__file__))
    ]
    monkeypatch.setattr(start_guard, "_codecs", lambda _: seen)
    written(tmp_path)
    done = start(tmp_path, _FOUND)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("ModuleSpec") == 2


def test_a_python_without_sources_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encodings, "__file__", encodings.__file__ + "c")
    with pytest.raises((OSError, ValueError)):
        start_guard.write(str(tmp_path))
    assert list(tmp_path.rglob("*.pyc")) == []
