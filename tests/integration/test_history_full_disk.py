"""A disk that is full, or read-only: the history says so, and goes on once there is room."""

import json

from small_disk import on_a_small_disk

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
