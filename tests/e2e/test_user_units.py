"""deploy/systemd under a real `systemd --user`: the user's own manager, in mounts and pids of its own.

It starts only where the machine itself was booted by systemd, which a container was not: the folder that says so is
made, in a /run of the test's own. Needs root, for the cgroups.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from backends import ROOT

from sidecar.testing.otlp import OtlpReceiver

BIN = Path(sys.executable).parent
MANAGER = Path("/lib/systemd/systemd")

# `$1` is the home, `$2` a script of the user, who has a session and a manager.
SESSION = """
set -e
mount --make-rprivate /
mount -t tmpfs tmpfs /run
mkdir -p /run/systemd/system /run/user/0
chmod 700 /run/user/0
export HOME=$1 XDG_RUNTIME_DIR=/run/user/0
/lib/systemd/systemd --user --log-target=console > "$1/manager.log" 2>&1 &
manager=$!
for i in $(seq 600); do
    case $(systemctl --user is-system-running 2>&1) in running | degraded) break ;; esac
    sleep 0.1
done
set +e
sh -e -c "$2"
status=$?
kill $manager
wait $manager
exit $status
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    if os.geteuid() != 0 or not MANAGER.exists() or shutil.which("unshare") is None:
        pytest.skip("needs root, systemd and util-linux")
    units = tmp_path / ".config" / "systemd" / "user"
    units.mkdir(parents=True)
    for unit in (ROOT / "deploy" / "systemd").iterdir():  # as deploy/README.md says
        shutil.copy(unit, units)
    programs = tmp_path / ".local" / "bin"
    programs.mkdir(parents=True)
    (programs / "sidecar").symlink_to(BIN / "sidecar")
    return tmp_path


def in_a_session(home: Path, script: str) -> str:
    """What the script prints; it must succeed, each of its commands."""
    environ = {"PATH": f"{home}/.local/bin:/usr/bin:/bin", "LANG": "C.UTF-8"}
    words = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "bash", "-c", SESSION, "bash"]
    done = subprocess.run(
        [*words, str(home), script], env=environ, capture_output=True, text=True, check=False, timeout=110
    )
    log = (home / "manager.log").read_text(errors="replace") if (home / "manager.log").exists() else ""
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}\n{log}"
    return done.stdout


def test_the_first_command_starts_the_service_and_a_stop_leaves_the_socket(home: Path) -> None:
    with OtlpReceiver() as receiver:
        settings = home / ".config" / "sidecar" / "daemon.env"
        settings.parent.mkdir()
        settings.write_text(f"OTEL_EXPORTER_OTLP_ENDPOINT={receiver.http_endpoint}\n")
        said = in_a_session(
            home,
            """
            systemctl --user daemon-reload
            systemctl --user enable --now sidecar.socket 2> /dev/null
            echo "before: $(systemctl --user is-active sidecar.service || true)"
            sidecar run -- true
            while [ -n "$(sidecar ps --json | tr -d '[] \\n')" ]; do sleep 0.1; done
            echo "asked: $(sidecar daemon status --json | grep -o '"pid": [0-9]*')"
            echo "main: $(systemctl --user show --property MainPID --value sidecar.service)"
            sidecar daemon stop
            while systemctl --user is-active --quiet sidecar.service; do sleep 0.1; done
            test -S $XDG_RUNTIME_DIR/sidecar/sidecar.sock
            sidecar run -- true
            until systemctl --user is-active --quiet sidecar.service; do sleep 0.1; done  # it starts beside the command
            systemctl --user show --property NRestarts --value sidecar.service
            """,
        )
        answers = dict(line.split(": ", 1) for line in said.splitlines() if ": " in line)
        assert answers["before"] == "inactive"
        assert answers["asked"] == f'"pid": {answers["main"]}'
        assert said.splitlines()[-1] == "0"
        receiver.wait_for_span(lambda span: span.name == "true", timeout_s=60)


def test_one_that_does_not_answer_is_ended_by_its_manager(home: Path) -> None:
    """As the runbook of DaemonLoopStuck says of a service."""
    said = in_a_session(
        home,
        """
        systemctl --user daemon-reload
        systemctl --user start sidecar.socket
        sidecar daemon status > /dev/null
        first=$(systemctl --user show --property MainPID --value sidecar.service)
        kill -STOP $first
        systemctl --user restart sidecar.service
        second=$(systemctl --user show --property MainPID --value sidecar.service)
        test $first != $second
        sidecar daemon status
        """,
    )
    assert said.startswith("running, pid ")
