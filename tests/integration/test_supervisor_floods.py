"""Floods and slow readers: flat memory, heartbeats and deadlines on time, SIGPIPE once the reader has gone."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from listening import FrameListener
from supervised import WAIT_S, Installation, on_linux, until

pytestmark = on_linux
MB = 1_000_000
FLAT_KIB = 24 * 1024


class Peak(threading.Thread):
    """The largest resident set of a process so far, in KiB."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.kib = 0
        self._pid = pid
        self._over = threading.Event()
        self.start()

    def run(self) -> None:
        while not self._over.wait(0.02):
            try:
                with open(f"/proc/{self._pid}/status") as file:
                    self.kib = max(
                        self.kib, next((int(line.split()[1]) for line in file if line.startswith("VmRSS")), 0)
                    )
            except OSError:
                return

    def over(self) -> int:
        self._over.set()
        self.join()
        return self.kib


@pytest.fixture
def listener(tmp_path: Path) -> Iterator[FrameListener]:
    with FrameListener(tmp_path) as made:
        yield made


def take(descriptor: int) -> tuple[int, int]:
    """(bytes, newlines) until the end of file."""
    size = lines = 0
    while chunk := os.read(descriptor, 1 << 20):
        size += len(chunk)
        lines += chunk.count(b"\n")
    return size, lines


@pytest.mark.parametrize(
    ("script", "size", "lines"),
    [
        (f"yes | head -c {500 * MB}", 500 * MB, 250 * MB),
        (f"head -c {1000 * MB} /dev/zero", 1000 * MB, 0),
    ],
    ids=["500 MB of short lines", "a line of 1 GB"],
)
def test_a_flood_is_whole_counted_and_costs_no_memory(
    sidecar: Installation, listener: FrameListener, script: str, size: int, lines: int
) -> None:
    environ = listener.environ(sidecar.environ)
    with sidecar.started("sh", "-c", script, flags=("--heartbeat-interval", "100ms"), env=environ) as child:
        assert child.stdout is not None
        peak = Peak(child.pid)
        assert take(child.stdout.fileno()) == (size, lines)
        assert child.wait(WAIT_S) == 0
        assert peak.over() < FLAT_KIB
    settled = listener.settled()
    assert settled["totalBytes"] == size
    assert settled["totalLines"] == max(lines, 1)  # an unfinished last line counts
    assert settled["longestSilenceMs"] < 5000


def test_a_flood_on_one_stream_does_not_hold_up_the_other_nor_the_timeout(sidecar: Installation) -> None:
    """Nobody reads stdout; stderr flows, and the deadline is met."""
    script = "yes & while :; do echo tick >&2; sleep .05; done"
    begin_s = time.monotonic()
    with sidecar.started("bash", "-c", script, flags=("--timeout", "2500ms", "--kill-after", "1s")) as child:
        assert child.stderr is not None
        ticks = [child.stderr.readline() for _ in range(10)]
        assert ticks == [b"tick\n"] * 10
        assert child.wait(WAIT_S) == 124
    assert 2.5 <= time.monotonic() - begin_s < 15


def test_beats_come_on_time_when_a_flood_is_over(sidecar: Installation, listener: FrameListener) -> None:
    """While bytes flow there is no beat; a second after the last of them there is one."""
    environ = listener.environ(sidecar.environ)
    script = f"yes | head -c {100 * MB}; exec sleep 30"
    with sidecar.started("sh", "-c", script, flags=("--heartbeat-interval", "1s"), env=environ) as child:
        assert child.stdout is not None
        received = 0
        while received < 100 * MB:
            received += len(os.read(child.stdout.fileno(), 1 << 20))
        first = listener.until("shell_progress")["shellProgress"]
        assert first["totalBytes"] == 100 * MB
        assert 995 <= first["lastOutputAgeMs"] < 10_000
        os.kill(child.pid, signal.SIGTERM)
        child.wait(WAIT_S)


def test_a_reader_that_sleeps_is_no_silence_of_the_command(sidecar: Installation, listener: FrameListener) -> None:
    environ = listener.environ(sidecar.environ)
    with sidecar.started("yes", flags=("--heartbeat-interval", "400ms"), env=environ) as child:
        listener.until("command_started")
        time.sleep(2.0)  # five intervals
        assert [frame for frame in listener.of_type("shell_progress") if "verdict" not in frame] == []
        assert child.poll() is None
        assert child.stdout is not None
        child.stdout.close()
        assert child.wait(WAIT_S) == -signal.SIGPIPE
    assert listener.settled()["signal"] == "SIGPIPE"


@pytest.mark.parametrize("bites", [1, 4095, 65_537])
def test_whatever_the_reader_takes_at_a_time(sidecar: Installation, bites: int) -> None:
    size = 40_000 if bites == 1 else 3 * MB
    with sidecar.started("sh", "-c", f"head -c {size} /dev/urandom | tee /dev/fd/2; exit 6") as child:
        assert child.stdout is not None
        assert child.stderr is not None
        copies: list[bytes] = [b"", b""]

        def collect(number: int, descriptor: int) -> None:
            data = bytearray()
            while chunk := os.read(descriptor, bites):
                data += chunk
            copies[number] = bytes(data)

        streams = (child.stdout.fileno(), child.stderr.fileno())
        threads = [threading.Thread(target=collect, args=pair) for pair in enumerate(streams)]
        for thread in threads:
            thread.start()
        assert child.wait(WAIT_S) == 6
        for thread in threads:
            thread.join()
    assert len(copies[0]) == size
    assert copies[0] == copies[1]


def test_more_output_than_there_are_moments_to_count_it(sidecar: Installation, listener: FrameListener) -> None:
    """A byte at a time, as fast as it can be: each is counted, and none is late."""
    count = 200_000
    script = f"import os\nfor _ in range({count}): os.write(1, b'.')"
    ended = sidecar.run("python3", "-ISc", script, env=listener.environ(sidecar.environ), timeout=60)
    assert len(ended.stdout) == count
    assert listener.settled()["totalBytes"] == count


def test_a_spinner_is_output_as_it_comes(sidecar: Installation, listener: FrameListener) -> None:
    script = r"for i in 1 2 3 4 5 6 7 8 9; do printf '\r%d%%' $i; sleep .2; done"
    environ = listener.environ(sidecar.environ)
    ended = sidecar.run("bash", "-c", script, flags=("--heartbeat-interval", "1500ms"), env=environ)
    assert ended.stdout == b"".join(b"\r%d%%" % number for number in range(1, 10))
    assert listener.settled()["heartbeatCount"] == 0
    assert listener.settled()["totalLines"] == 1


def test_a_file_that_grows_is_output_although_it_does_not_pass_through_us(
    sidecar: Installation, listener: FrameListener, tmp_path: Path
) -> None:
    """While it grows there is no beat; after a silent interval one, with the bytes and the age of the last write."""
    environ = listener.environ(sidecar.environ)
    script = "for i in 1 2 3 4 5 6 7 8; do echo line $i; sleep .1; done; exec sleep 30"
    with (
        (tmp_path / "output").open("wb") as file,
        sidecar.started(
            "bash", "-c", script, flags=("--heartbeat-interval", "1s"), env=environ, stdout=file, stderr=file
        ) as child,
    ):
        assert listener.until("command_started")["io"] == "direct"
        first = listener.until("shell_progress")["shellProgress"]
        assert first["totalBytes"] == 8 * len("line 1\n")
        assert first["totalLines"] == 0
        assert first["elapsedMs"] >= 1650
        assert 980 <= first["lastOutputAgeMs"] < 10_000
        os.kill(child.pid, signal.SIGTERM)
        child.wait(WAIT_S)
    assert listener.settled()["totalBytes"] == 56


def test_silence_into_a_file_ends_a_command_only_when_it_is_silence(sidecar: Installation, tmp_path: Path) -> None:
    script = "for i in $(seq 20); do echo $i; sleep .1; done"
    with (tmp_path / "output").open("wb") as file:
        ended = sidecar.run("bash", "-c", script, flags=("--silence-timeout", "1500ms"), stdout=file, stderr=file)
        assert ended.status == 0
        ended = sidecar.run(
            "bash", "-c", "echo x; sleep 20", flags=("--silence-timeout", "1500ms"), stdout=file, stderr=file
        )
    assert ended.status == 124


def test_a_file_and_a_pipe_are_counted_together(sidecar: Installation, listener: FrameListener, tmp_path: Path) -> None:
    with (tmp_path / "output").open("wb") as file:
        sidecar.run(
            "sh", "-c", "echo into the file; echo error >&2",
            env=listener.environ(sidecar.environ), stdout=file, stderr=-1,
        )  # fmt: skip
    until(lambda: listener.of_type("command_settled"))
    assert listener.settled()["totalBytes"] == len("into the file\nerror\n")
