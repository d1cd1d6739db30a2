"""`sidecar doctor`: what it finds of each part, how it says to mend it; it never hangs, and tells no secret."""

import json
import os
import socket
import threading
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from sidecar import __version__
from sidecar.agents import changes, check_agents, check_chain, check_endpoints, records
from sidecar.agents.catalog import AGENTS, PROJECT, USER
from sidecar.agents.checkup import NOTE, OK, PROBLEM, Check, ask
from sidecar.agents.places import Places
from sidecar.cli.main import root


class World:
    """A home, a runtime folder and a PATH of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = self.project = folder
        self.bin = folder / "bin"
        self.bin.mkdir()
        self.shell = self.program("sidecar-sh", folder / "opt")
        self.environ = {
            "HOME": str(folder),
            "SHELL": "/bin/bash",
            "PATH": f"{self.bin}:/usr/bin:/bin",
            "SIDECAR_SOCKET": str(folder / "run" / "sidecar.sock"),
        }

    @property
    def places(self) -> Places:
        return Places(self.environ, str(self.project), self.shell)

    def program(self, name: str, folder: Path | None = None, text: str = "#!/bin/sh\nexit 7\n") -> str:
        path = (folder or self.bin) / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
        return str(path)

    def apply(self, name: str) -> None:
        with records.locked(self.places.state):
            changes.apply(AGENTS[name].planned(self.places, USER), records.load(self.places, name, USER))

    def checks(self, name: str) -> list[Check]:
        questions = [*check_chain.questions(self.places), *check_agents.questions(self.places, [])]
        return ask([each for each in questions if each[0] == name])

    def endpoint_checks(self, endpoint: str | None, **said: Any) -> list[Check]:
        """Beside a daemon that says of its traces that they go there."""
        signals = {} if endpoint is None else {"traces": {"endpoint": endpoint, **said}}
        return self.checks_beside("endpoint", {"telemetry": {"signals": signals}})

    def checks_beside(self, name: str, status: dict[str, Any]) -> list[Check]:
        """Beside a daemon whose status is that."""
        (self.folder / "run").mkdir(mode=0o700, exist_ok=True)
        path = self.environ["SIDECAR_SOCKET"]
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(path)
            listener.listen()
            threading.Thread(target=_answer, args=(listener, status), daemon=True).start()
            try:
                return self.checks(name)
            finally:
                listener.shutdown(socket.SHUT_RDWR)
                os.unlink(path)

    def check(self, name: str) -> Check:
        (check,) = self.checks(name)
        return check


def _answer(listener: socket.socket, status: dict[str, Any]) -> None:
    """As a daemon that is asked for its status, whoever asks; some only look whether somebody listens."""
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        with connection, connection.makefile("rwb") as stream:
            if stream.readline():
                stream.write(json.dumps({"type": "status", **status}).encode() + b"\n")


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


class TestAsking:
    def test_what_hangs_costs_its_own_line_only(self) -> None:
        end = threading.Event()
        fine = Check("b", OK, "fine")
        found = ask([("a", lambda: [Check("a", OK, str(end.wait(60)))]), ("b", lambda: [fine])], limit_s=1.0)
        end.set()
        assert [check.status for check in found] == [PROBLEM, OK]
        assert "no answer within 1 s" in found[0].text

    def test_what_raises_is_an_answer_in_one_line(self) -> None:
        def broken() -> list[Check]:
            raise ZeroDivisionError("one\ntwo")

        (check,) = ask([("a", broken)])
        assert (check.status, check.text) == (PROBLEM, "could not be looked at: one")


class TestChain:
    def test_the_program_is_tried(self, world: World) -> None:
        assert world.check("installation").status == OK
        world.program("sidecar-sh", world.folder / "opt", "#!/bin/sh\necho broken >&2; exit 1\n")
        check = world.check("installation")
        assert check.status == PROBLEM
        assert "broken" in check.text

    def test_configuration(self, world: World) -> None:
        assert world.check("configuration").status == OK
        world.environ |= {"SIDECAR_TIMEOUT": "soon", "SIDECAR_TIMEOUTT": "1s"}
        checks = world.checks("configuration")
        assert [check.status for check in checks] == [PROBLEM, PROBLEM]

    def test_no_daemon_is_no_fault(self, world: World) -> None:
        assert world.check("daemon").status == OK
        assert not (world.folder / "run").exists(), "looking makes nothing"

    def test_a_folder_that_others_may_write_to(self, world: World) -> None:
        (world.folder / "run").mkdir()
        (world.folder / "run").chmod(0o777)
        check = world.check("daemon")
        assert check.status == PROBLEM
        assert "chmod 700" in check.text

    def test_a_socket_that_nobody_serves(self, world: World) -> None:
        (world.folder / "run").mkdir(mode=0o700)
        with socket.socket(socket.AF_UNIX) as sock:
            sock.bind(world.environ["SIDECAR_SOCKET"])
        assert world.check("daemon").status == OK

    def test_a_daemon_that_does_not_answer(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(check_chain, "ANSWER_S", 0.2)
        (world.folder / "run").mkdir(mode=0o700)
        with socket.socket(socket.AF_UNIX) as sock:
            sock.bind(world.environ["SIDECAR_SOCKET"])
            sock.listen()
            check = world.check("daemon")
        assert check.status == PROBLEM
        assert "daemon stop" in check.mend

    @pytest.mark.parametrize(("version", "status"), [(__version__, OK), ("0.0.1", PROBLEM)])
    def test_the_daemons_version(self, version: str, status: str) -> None:
        assert check_chain._of_running({"version": version, "pid": 1}, "/s").status == status

    def test_a_daemon_that_cannot_have_its_port(self, world: World) -> None:
        problem = "http://127.0.0.1:9464/metrics is not served: Address already in use"
        status = {"version": __version__, "pid": 1, "telemetry": {"prometheus_problem": problem, "problem_count": 1}}
        answers, unserved, _ = world.checks_beside("daemon", status)
        assert answers.status == OK
        assert (unserved.status, unserved.text) == (PROBLEM, problem)
        assert unserved.mend.startswith("`ss -ltnp 'sport = :9464'`, as root, says who has the port; once it is free")

    def test_an_endpoint_that_takes_connections(self, world: World) -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            world.environ["OTEL_EXPORTER_OTLP_ENDPOINT"] = f"http://127.0.0.1:{server.getsockname()[1]}"
            assert world.check("endpoint").status == OK

    def test_secrets_in_endpoint_and_headers_are_not_shown(self, world: World) -> None:
        world.environ |= {
            "OTEL_EXPORTER_OTLP_ENDPOINT": "http://me:hunter2@127.0.0.1:1/p?key=hunter2",
            "OTEL_EXPORTER_OTLP_HEADERS": "authorization=hunter2",
            "OTEL_EXPORTER_OTLP_LOGS_ENDPOINT": "hunter2://hunter2",
        }
        checks = world.checks("endpoint")
        assert {check.status for check in checks} == {PROBLEM}
        assert "127.0.0.1:1/p" in str(checks)
        assert "hunter2" not in str(checks)

    def test_the_endpoint_is_the_running_daemons_and_the_shells_own_beside_it(self, world: World) -> None:
        """The shell of who is on call may have another environment than the agents."""
        world.environ["OTEL_EXPORTER_OTLP_ENDPOINT"] = "http://127.0.0.1:1"
        with socket.create_server(("127.0.0.1", 0)) as server:
            theirs = f"http://127.0.0.1:{server.getsockname()[1]}"
            of_daemon, of_shell = world.endpoint_checks(f"{theirs}/v1/traces")
            assert (of_daemon.status, of_daemon.text) == (
                OK,
                f"the daemon sends traces to {theirs}, which takes connections",
            )
            assert of_shell.status == NOTE
            assert of_shell.text.startswith(
                "a daemon started from this shell would send traces, metrics, logs to http://"
            )
            world.environ["OTEL_EXPORTER_OTLP_ENDPOINT"] = theirs
            assert world.endpoint_checks(f"{theirs}/v1/traces") == [of_daemon]

    def test_what_the_daemons_last_try_got(self, world: World) -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            theirs = f"http://127.0.0.1:{server.getsockname()[1]}"
            world.environ["OTEL_EXPORTER_OTLP_ENDPOINT"] = theirs
            (check,) = world.endpoint_checks(f"{theirs}/v1/traces", problem="HTTP status 503", tried_ms_ago=61_500)
        assert check.status == PROBLEM
        assert check.text.endswith("which takes connections; at the last try: HTTP status 503 (traces, 1m1s ago)")
        assert "sidecar spool flush" in check.mend

    def test_a_daemons_endpoint_that_cannot_be_reached(self, world: World) -> None:
        theirs = world.environ["OTEL_EXPORTER_OTLP_ENDPOINT"] = "http://127.0.0.1:1"
        refused = "cannot be reached: Connection refused; what is not taken waits in the spool"
        for said in ({}, {"problem": "Connection refused", "tried_ms_ago": 5}):
            (check,) = world.endpoint_checks(f"{theirs}/v1/traces", **said)
            assert (check.status, check.text) == (PROBLEM, f"the daemon sends traces to {theirs}, which {refused}")

    def test_a_daemon_that_exports_nothing(self, world: World) -> None:
        world.environ["OTEL_SDK_DISABLED"] = "true"
        assert [check.status for check in world.endpoint_checks(None)] == [NOTE]

    def test_a_daemon_that_does_not_say_where_it_sends_to(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(check_endpoints, "ANSWER_S", 0.2)
        (world.folder / "run").mkdir(mode=0o700)
        with socket.socket(socket.AF_UNIX) as sock:
            sock.bind(world.environ["SIDECAR_SOCKET"])
            sock.listen()
            unsaid, own = world.checks("endpoint")
        assert unsaid.text == "the daemon that runs does not answer, and so does not say where it sends to"
        assert own.status == NOTE
        assert "from this shell would send traces, metrics, logs to http://localhost:4318, which " in own.text

    def test_telemetry_that_is_switched_off(self, world: World) -> None:
        world.environ["OTEL_SDK_DISABLED"] = "true"
        assert world.check("endpoint").status == NOTE

    def test_the_evidence_of_a_child(self, world: World) -> None:
        for check in world.checks("evidence"):
            assert check.status == OK or check.mend, "what cannot be seen here says how to make it visible"


class TestAgents:
    def test_one_that_is_not_here(self, world: World) -> None:
        assert world.check("qwen-code") == Check("qwen-code", NOTE, "qwen is not on PATH")
        (check,) = ask(check_agents.questions(world.places, ["qwen-code"]))
        assert check.status == PROBLEM

    def test_one_that_is_here_with_the_version_of_its_package(self, world: World) -> None:
        package = world.folder / "node_modules" / "@qwen-code" / "qwen-code"
        package.mkdir(parents=True)
        (package / "package.json").write_text(json.dumps({"version": "0.24.4"}))
        world.program("cli.js", package)
        (world.bin / "qwen").symlink_to(package / "cli.js")
        check = world.check("qwen-code")
        assert check.status == NOTE
        assert check.text.endswith("version 0.24.4; not wrapped")
        assert check.mend == "`sidecar setup qwen-code --apply`"

    def test_a_wrapped_one_is_well_once_its_launcher_is_first(self, world: World) -> None:
        world.program("qwen")
        world.apply("qwen-code")
        check = world.check("qwen-code")
        assert check.status == PROBLEM
        assert "open a new shell" in check.mend
        world.environ["PATH"] = f"{world.places.agent_folder('qwen-code')}/launch:{world.environ['PATH']}"
        assert world.check("qwen-code").status == OK

    @pytest.mark.parametrize("name", ["claude-code", "codex", "opencode"])
    def test_one_that_is_wrapped_by_its_settings(self, world: World, name: str) -> None:
        world.program(str(AGENTS[name].program))
        world.apply(name)
        assert world.check(name).status == OK
        (world.folder / "opt" / "sidecar-sh").rename(world.folder / "elsewhere")
        world.shell = world.program("sidecar-sh", world.folder / "new")
        check = world.check(name)
        assert check.status == PROBLEM
        assert f"sidecar setup {name} --apply" in check.mend

    def test_one_that_is_wrapped_for_a_project_and_gone(self, world: World) -> None:
        """What mends it is of the same scope."""
        world.project = world.folder / "project"
        world.project.mkdir()
        with records.locked(world.places.state):
            edits = AGENTS["codex"].planned(world.places, PROJECT)
            changes.apply(edits, records.load(world.places, "codex", PROJECT))
        check = world.check("codex")
        mend = "put codex on PATH; or take it out: `sidecar setup codex --scope project --undo`"
        assert (check.status, check.mend) == (NOTE, mend)

    def test_settings_that_are_not_understood(self, world: World) -> None:
        world.program("claude")
        (world.folder / ".claude").mkdir()
        (world.folder / ".claude" / "settings.json").write_text("{")
        check = world.check("claude-code")
        assert check.status == PROBLEM
        assert "it ends too early" in check.text

    def test_a_home_that_is_none(self, world: World) -> None:
        world.environ["HOME"] = "relative"
        assert world.check("claude-code").status == PROBLEM


class TestCommandLine:
    @pytest.fixture(autouse=True)
    def _place(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in list(os.environ):
            if name.startswith(("SIDECAR_", "OTEL_", "XDG_", "CLAUDE", "CODEX")):
                monkeypatch.delenv(name)
        for name, value in {**world.environ, "OTEL_SDK_DISABLED": "true"}.items():
            monkeypatch.setenv(name, value)

    def test_something_to_mend(self) -> None:
        ended = CliRunner().invoke(root, ["doctor"], standalone_mode=False)
        assert ended.return_value == 1
        assert "PROBLEM  agents: no agent is wrapped\n          -> `sidecar setup AGENT --apply`\n" in ended.output

    def test_for_programs(self) -> None:
        CliRunner().invoke(root, ["setup", "path", "--apply"])
        ended = CliRunner().invoke(root, ["doctor", "--json"], standalone_mode=False)
        answer = json.loads(ended.output)
        unwell = [check for check in answer["checks"] if check["status"] == PROBLEM]
        assert answer["ok"] is (ended.return_value == 0) is (not unwell)
        assert {check["name"] for check in answer["checks"]} >= {"installation", "daemon", "evidence", "path"}
        assert all(check["name"] == "evidence" for check in unwell), unwell
