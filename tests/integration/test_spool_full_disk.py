"""A disk that is full: what the spool keeps, loses and says. On a small file system of its own."""

import json
from typing import Any

import pytest
from small_disk import on_a_small_disk

PROGRAM = """
import json, os, sys, time
from sidecar.telemetry.spool import Spool, SpoolLimits

folder = sys.argv[1]
os.mkdir(folder + "/state", 0o700)
path = folder + "/state/spool.db"
said, longest_s, now_s = [], 0.0, [0.0]
spool = Spool(SpoolLimits(path), said.append, monotonic_s=lambda: now_s[0])
filler = folder + "/filler"
with open(filler, "wb") as file:
    file.write(bytes(1536 * 1024))

def add(count):
    global longest_s
    for _ in range(count):
        before_s = time.monotonic()
        spool.add("traces", "here", os.urandom(5000), 1)
        longest_s = max(longest_s, time.monotonic() - before_s)

def waiting():
    return sum(total.records for total in spool.totals())

add(100)
problem = spool.problem
now_s[0] += 5
full = waiting()
# What is sent now can be forgotten, full as the disk is.
sent = spool.oldest("traces", "here", 1 << 20, 10)
spool.remove(sent)
now_s[0] += 5
again = {request.id for request in spool.oldest("traces", "here", 1 << 20, 10)} & {request.id for request in sent}
os.unlink(filler)
now_s[0] += 5
spool.adopt("traces", "here")
add(1)
now_s[0] += 5
spool.adopt("traces", "here")
result = {"problem": problem, "full": full, "sent": len(sent), "again": len(again), "freed": waiting(),
    "dropped": spool.dropped(), "longest_s": longest_s, "said": said}
spool.close()
after = Spool(SpoolLimits(path), said.append)
after.adopt("traces", "here")
result["on_disk"] = sum(total.records for total in after.totals())
print(json.dumps(result))
"""


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    done = on_a_small_disk(tmp_path_factory.mktemp("full"), "2m", PROGRAM)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_it_is_told_and_nothing_is_lost(result: dict[str, Any]) -> None:
    assert "full" in result["problem"]
    assert result["full"] == 100
    assert result["dropped"] == {}
    assert result["longest_s"] < 10.0


def test_what_was_sent_is_not_sent_again(result: dict[str, Any]) -> None:
    assert result["sent"] == 10
    assert result["again"] == 0


def test_once_there_is_room_all_of_it_is_on_disk(result: dict[str, Any]) -> None:
    # 100, less the 10 that were sent, and one more.
    assert result["freed"] == 91
    assert result["on_disk"] == 91
