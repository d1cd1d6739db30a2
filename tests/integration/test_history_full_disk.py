"""A disk that is full, or read-only: the history says so, goes on once there is room, and is read all the same."""

import json
import multiprocessing
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from small_disk import on_a_small_disk

from sidecar.history.store import History, HistoryUnavailable

PROGRAM = """
import json, os, subprocess, sys
from sidecar.history.store import History, HistoryUnavailable

folder = sys.argv[1]
path = folder + "/state/history.db"
store = History(path, 10_000)

def add(name, to):
    to.add([(1, {"commandId": name, "program": "make", "pad": "x" * 3000})])

def problem(work):
    try:
        work()
    except HistoryUnavailable as error:
        return str(error)
    return None

result = {"before": problem(lambda: add("before", store))}
with open(folder + "/filler", "wb", 0) as filler:
    try:
        while filler.write(bytes(4096)):
            pass
    except OSError:
        pass
for number in range(100):
    if (full := problem(lambda: add(f"full-{number}", store))) is not None:
        break
result["full"] = full
result["another"] = problem(lambda: History(path, 10_000).close())
reader = History(path, 10_000, read_only=True)
result["read"] = [one["commandId"] for one in reader.begins_with("before", 10)]
reader.close()
os.unlink(folder + "/filler")
result["room"] = problem(lambda: add("room", store))
result["latest"] = store.latest(1)[0]["commandId"]
store.close()
subprocess.run(["mount", "-o", "remount,ro", folder], check=True)
result["read_only"] = problem(lambda: History(path, 10_000))
print(json.dumps(result))
"""


def test_it_is_told_and_it_goes_on(tmp_path) -> None:  # type: ignore[no-untyped-def]
    done = on_a_small_disk(tmp_path, "256k", PROGRAM)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["before"] is None
    assert "full" in result["full"]
    assert result["another"] is None or "full" in result["another"]
    assert result["read"] == ["before"]
    assert (result["room"], result["latest"]) == (None, "room")
    assert "Read-only file system" in result["read_only"]


READ_ONLY = """
import json, os, shutil, subprocess, sys
from sidecar.cli.main import main
from sidecar.history.store import History

folder = sys.argv[1]
for name in ("closed", "killed", "half", "new"):  # and "half" without the -shm that tells what is in the -wal
    path = f"{folder}/{name} 1%?#/history.db"
    store = History(path, 100)
    if name != "new":
        store.add([(1, {"commandId": "kept", "program": "make"})])
        store.close()
        store = History(path, 100)
    if name != "closed":
        store.add([(2, {"commandId": "last", "program": "make"})])
        for suffix in ("", "-wal", "-shm")[: 3 if name == "killed" else 2]:
            shutil.copy(path + suffix, folder + "/history.db" + suffix)
    store.close()
    if name != "closed":
        for suffix in ("", "-wal", "-shm")[: 3 if name == "killed" else 2]:
            os.rename(folder + "/history.db" + suffix, path + suffix)
os.chmod(f"{folder}/closed 1%?#/history.db", 0o644)  # cannot be made private any more
subprocess.run(["mount", "-o", "remount,ro", folder], check=True)
os.environ["SIDECAR_SOCKET"] = folder + "/none.sock"
for name in ("closed", "killed", "half", "new"):
    os.environ["SIDECAR_HISTORY"] = f"{folder}/{name} 1%?#/history.db"
    sys.stderr.write(f"{name}\\n")
    print(main(["history", "--json"]))
"""


def test_what_is_on_a_read_only_disk_is_read(tmp_path: Path) -> None:
    done = on_a_small_disk(tmp_path, "2m", READ_ONLY)
    assert done.returncode == 0, done.stderr
    read = json.JSONDecoder()
    answers: list[Any] = []
    text = done.stdout
    while text := text.lstrip():
        answer, end = read.raw_decode(text)
        answers.append([one["commandId"] for one in answer] if isinstance(answer, list) else answer)
        text = text[end:]
    assert answers == [["kept"], 0, ["last", "kept"], 0, ["kept"], 0, 125]
    closed, _, rest = done.stderr.partition("killed\n")
    killed, _, rest = rest.partition("half\n")
    half, _, new = rest.partition("new\n")
    assert (closed, killed) == ("closed\n", "")
    assert half.startswith(f"sidecar: what ended last is missing: {tmp_path}/half 1%?#/history.db-wal cannot be read")
    assert "no such table: commands; what ended last is missing" in new


@pytest.fixture
def for_nobody() -> Iterator[str]:
    """A folder that others may go through."""
    folder = tempfile.mkdtemp()
    os.chmod(folder, 0o755)
    yield folder
    shutil.rmtree(folder)


def _look(path: str, user: int, answers: "multiprocessing.SimpleQueue[Any]") -> None:
    if user != os.getuid():
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
    try:
        store = History(path, 10, read_only=True)
        answers.put([[one["commandId"] for one in store.latest(10)], store.missing])
    except HistoryUnavailable as error:
        answers.put(str(error))


def test_in_a_folder_where_its_reader_may_not_write(for_nobody: str) -> None:
    path = os.path.join(for_nobody, "state", "history.db")
    store = History(path, 10)
    store.add([(1, {"commandId": "kept"})])
    store.close()
    user = os.getuid() or 65534  # root may write anywhere
    os.chown(path, user, -1)
    os.chown(os.path.dirname(path), user, -1)
    os.chmod(os.path.dirname(path), 0o500)
    context = multiprocessing.get_context("fork")
    answers = context.SimpleQueue()
    reader = context.Process(target=_look, args=(path, user, answers))
    reader.start()
    reader.join(60)
    assert reader.exitcode == 0
    assert answers.get() == [["kept"], None]
    os.chmod(os.path.dirname(path), 0o700)
