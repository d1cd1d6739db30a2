"""`sidecar demo`, for real: its own daemon, three real commands, with shorter durations and no terminal."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
START = "import sys; from sidecar.launch import main; sys.exit(main())"
SCALE = "0.2"  # interval 2 s, 5 s in all; smaller would leave a loaded machine too little between beat and end


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """The demo's temporary folder goes below `tmp_path`, so that what it leaves behind can be seen."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SIDECAR_", "OTEL_"))}
    return kept | {
        "TMPDIR": str(tmp_path),
        "PYTHONPATH": str(ROOT),
        # What must not get in: a demo that listened to these would hang or send elsewhere.
        "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9",
        "SIDECAR_SOCKET": "/nonexistent/sidecar.sock",
        "HTTP_PROXY": "http://127.0.0.1:9",
    }


@pytest.fixture
def demo(environ: dict[str, str], tmp_path: Path) -> Iterator["subprocess.Popen[str]"]:
    process = subprocess.Popen(
        [sys.executable, "-c", START, "demo", "--scale", SCALE],
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    yield process
    process.kill()
    process.communicate()
    for pid in users_of(tmp_path):
        os.kill(pid, signal.SIGKILL)


def users_of(folder: Path) -> list[int]:
    """Processes that were started with a demo below `folder` in their environment."""
    needle = f"SIDECAR_SOCKET={folder}".encode()
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if needle in (entry / "environ").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def facts(output: str) -> list[tuple[float, str, str]]:
    """The lines `  12.3 s  source  rest` of the output."""
    found = re.findall(r"^ *(-?\d+\.\d) s  (\w+) +(.*)$", output, re.MULTILINE)
    return [(float(at_s), source, rest) for at_s, source, rest in found]


@pytest.mark.skipif(sys.platform != "linux", reason="looks for left processes in /proc")
class TestDemo:
    def test_it_shows_what_arrives_and_leaves_nothing(self, demo: "subprocess.Popen[str]", tmp_path: Path) -> None:
        output, errors = demo.communicate(timeout=60)
        assert (demo.returncode, errors) == (0, ""), output
        lines = facts(output)
        assert "\x1b" not in output
        assert {source for _, source, _ in lines} == {"frame", "span", "metric", "log", "exit"}
        beats = [rest.split()[0] for _, source, rest in lines if source == "frame" and "heartbeat" in rest.split()[1]]
        assert sorted(beats) == ["hangs", "silent", "silent"]
        ended = {rest.split()[0]: rest.split()[-1] for _, source, rest in lines if source == "exit"}
        assert ended == {"talks": "0", "silent": "0", "hangs": "124"}
        talked = [
            rest for _, source, rest in lines if source == "frame" and rest.startswith("talks ") and "settled" in rest
        ]
        assert "bytes, 0 heartbeats" in talked[-1]
        ends_s = {rest.split()[0]: at_s for at_s, source, rest in lines if source == "exit"}
        live = {rest.split()[0]: at_s for at_s, source, rest in lines if "sidecar.heartbeat, covers" in rest}
        assert live.keys() == {"silent", "hangs"}
        assert all(at_s <= ends_s[who] for who, at_s in live.items())
        assert "3 commands, 3 heartbeats" in output
        assert "sidecar watch" in output
        assert list(tmp_path.iterdir()) == []
        assert users_of(tmp_path) == []

    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
    def test_a_signal_ends_it_and_leaves_nothing(
        self, demo: "subprocess.Popen[str]", tmp_path: Path, number: signal.Signals
    ) -> None:
        assert demo.stdout is not None
        for line in demo.stdout:
            if "started: sh" in line:
                break
        assert users_of(tmp_path)
        demo.send_signal(number)
        demo.communicate(timeout=60)
        assert demo.returncode == 128 + number
        assert list(tmp_path.iterdir()) == []
        deadline_s = time.monotonic() + 60
        while users_of(tmp_path) and time.monotonic() < deadline_s:
            time.sleep(0.05)
        assert users_of(tmp_path) == []
