"""A daemon that is there and does not answer: who it is can be asked, and it can be ended."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sidecar import rendezvous
from sidecar.cli import daemon as verbs
from sidecar.daemon import client, stuck

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="who listens is asked of Linux")


class Host:
    def __init__(self, folder: Path) -> None:
        folder.chmod(0o700)
        self.socket = str(folder / "s" / "sock")
        kept = {name: text for name, text in os.environ.items() if not name.startswith(("SIDECAR_", "XDG_"))}
        # Nothing listens there: telemetry must not leave the test.
        kept |= {"HOME": str(folder), "SIDECAR_SOCKET": self.socket, "SIDECAR_OTLP_ENDPOINT": "http://127.0.0.1:9"}
        self.environ = kept

    def ask(self, *words: str) -> subprocess.CompletedProcess[str]:
        program = [sys.executable, "-m", "sidecar", *words]
        return subprocess.run(program, env=self.environ, capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    host = Host(tmp_path)
    yield host
    host.ask("daemon", "stop")


@pytest.mark.parametrize("words", [("run", "--", "true"), ("daemon", "start")], ids=["by a command", "by hand"])
def test_who_listens_is_the_daemon_whoever_bound_the_socket(host: Host, words: tuple[str, ...]) -> None:
    assert host.ask(*words).returncode == 0
    pid = client.status(host.socket)["pid"]  # once it answers, it has its socket
    assert stuck.daemon_of(host.socket) == pid
    assert host.ask("daemon", "stop").returncode == 0
    assert stuck.daemon_of(host.socket) is None


def test_one_that_is_stopped_is_named_and_ended_and_the_next_hears_of_its_commands(
    host: Host, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert host.ask("daemon", "start").returncode == 0
    pid = client.status(host.socket)["pid"]
    command = subprocess.Popen([sys.executable, "-m", "sidecar", "run", "--", "sleep", "60"], env=host.environ)
    try:
        while not list(client.request(host.socket, "list"))[:-1]:
            assert command.poll() is None
        os.kill(pid, signal.SIGSTOP)

        def no_answer(path: str) -> None:
            raise client.subscribe(path).unanswered(10)

        with monkeypatch.context() as patched:  # else each asks for ten seconds
            patched.setattr(verbs.client, "status", no_answer)
            arguments = ["--socket", host.socket]
            assert verbs.status.main(arguments, standalone_mode=False) == 3
            assert f"did not answer within 10 s: `sidecar why {pid}` says why" in capsys.readouterr().out
            assert verbs.status.main([*arguments, "--json"], standalone_mode=False) == 3
            said = json.loads(capsys.readouterr().out)
            assert (said["running"], said["answers"], said["pid"]) == (True, False, pid)

        stopped = host.ask("daemon", "stop")
        assert (stopped.returncode, stopped.stdout) == (0, f"stopped, pid {pid}\n")
        assert stopped.stderr == f"the daemon on {host.socket} did not answer within 10 s\n"
        assert stuck.daemon_of(host.socket) is None
        assert host.ask("daemon", "start").returncode == 0
        while not list(client.request(host.socket, "list"))[:-1]:
            assert command.poll() is None
    finally:
        command.terminate()
        command.wait(30)


def test_one_that_ignores_the_signal_is_killed() -> None:
    # Dead: a shell that waits for nobody. Its parent is this test, which has to take its status.
    process = subprocess.Popen(["sh", "-c", "trap '' TERM; echo; while :; do sleep 0.1; done"], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    stuck.end(process.pid, 0.3, 10.0)
    assert process.wait(10) == -signal.SIGKILL
    process.stdout.close()


def test_a_listener_that_is_no_daemon_is_nobodys_business(tmp_path: Path) -> None:
    """As systemd's, or one of a supervisor of an older version, which bound the socket and runs its command still."""
    tmp_path.chmod(0o700)
    path = str(tmp_path / "sock")
    listener = rendezvous.bind_and_listen(path)
    try:
        sock = rendezvous.connect(path)
        assert rendezvous.peer_pid_of(sock) == os.getpid()
        sock.close()
        assert stuck.daemon_of(path) is None
    finally:
        listener.close()
