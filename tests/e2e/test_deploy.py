"""What is in deploy/ beside the Collectors' configurations.

Each file is read by what it is written for, as far as that can be had without a cluster, a container engine or an init;
and what the manifests claim of the daemon is tried.
"""

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from backends import ROOT, Collector, tool

from sidecar.testing.otlp import OtlpReceiver

DEPLOY = ROOT / "deploy"
BIN = Path(sys.executable).parent
WAIT_S = 60.0
AGENT = (DEPLOY / "kubernetes" / "agent.yaml").read_text(encoding="utf-8")
COMPOSE = (DEPLOY / "compose.yaml").read_text(encoding="utf-8")
GATEWAY = (DEPLOY / "kubernetes" / "gateway.yaml").read_text(encoding="utf-8")


def given(words: list[str], text: str | None = None, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        words, input=text, capture_output=True, text=True, check=False, timeout=60, env={**os.environ, **environ}
    )


class TestKubernetes:
    """The types of Kubernetes' own API, decoded strictly, and its schemas. No server has seen them."""

    @pytest.mark.parametrize("version", ["1.29", "1.36"])
    def test_the_schemas_of_the_oldest_version_and_of_a_new_one(self, version: str) -> None:
        yaml, schemas = pytest.importorskip("yaml"), pytest.importorskip("kubernetes_validate")
        found = [each for text in (AGENT, GATEWAY) for each in yaml.safe_load_all(text)]
        assert len(found) == 5
        for each in found:
            schemas.validate(each, version, strict=True)
        found[0]["spec"]["initContainers"][0]["restartPolice"] = "Always"
        with pytest.raises(schemas.ValidationError, match="restartPolice"):
            schemas.validate(found[0], version, strict=True)

    @pytest.mark.parametrize(
        ("text", "kinds"),
        [
            (AGENT, ["Pod"]),
            (GATEWAY, ["Service", "PodDisruptionBudget", "NetworkPolicy", "StatefulSet"]),
        ],
        ids=["agent", "gateway"],
    )
    def test_each_manifest_is_of_its_type(self, text: str, kinds: list[str]) -> None:
        done = given([tool("manifests")], text)
        assert done.stderr == ""
        assert [line.split()[0] for line in done.stdout.splitlines()] == kinds

    def test_a_slip_in_one_is_found(self) -> None:
        done = given([tool("manifests")], AGENT.replace("readOnlyRootFilesystem", "readOnlyRootFileSystem"))
        assert done.returncode == 1
        assert "readOnlyRootFileSystem" in done.stderr

    def test_the_kustomization_names_files_that_exist(self) -> None:
        named = re.findall(r"^ +- (\S+\.yaml)$", (DEPLOY / "kustomization.yaml").read_text(), re.MULTILINE)
        assert named == ["kubernetes/gateway.yaml", "collector-gateway.yaml"]
        assert all((DEPLOY / name).is_file() for name in named)
        if shutil.which("kubectl"):  # a further check, where it can be had
            done = given(["kubectl", "kustomize", str(DEPLOY)])
            made = given([tool("manifests")], done.stdout)
            assert [line.split()[0] for line in made.stdout.splitlines()].count("ConfigMap") == 1

    def test_the_collector_takes_the_gateways_configuration_with_the_manifests_environment(
        self, tmp_path: Path
    ) -> None:
        environ = dict(re.findall(r'- name: OTELCOL_(\w+)\n +value: "?([^"\n]+)"?', GATEWAY))
        assert "GATEWAYS" in environ
        done = Collector(tmp_path, "deploy/collector-gateway.yaml", **environ).validate()
        assert (done.returncode, done.stdout + done.stderr) == (0, "")

    def test_every_container_is_locked_down(self) -> None:
        for text in (AGENT, GATEWAY):
            images = text.count("\n          image: ") + text.count("\n      image: ")
            for line in ("readOnlyRootFilesystem: true", "allowPrivilegeEscalation: false", "drop: [ALL]"):
                assert text.count(line) == images
            assert "runAsNonRoot: true" in text


# A container as far as the kernel is asked for one: processes and mounts of its own, a read-only root, a user without
# capabilities. `$1` is what the containers share.
CONTAINER = """
mount -t proc proc /proc && mount -o remount,ro,bind / &&
for each in run spool; do mount --bind "$1/$each" "$1/$each" && mount -o remount,rw,bind "$1/$each" || exit 99; done
shift
exec unshare --user --map-user=65532 --map-group=65532 \\
    setpriv --no-new-privs --bounding-set=-all --inh-caps=-all env -i "$@"
"""


@pytest.mark.skipif(sys.platform != "linux", reason="containers are made of Linux's namespaces")
class TestSidecarContainer:
    """deploy/kubernetes/agent.yaml: two containers that share a folder for the socket, without a cluster."""

    @pytest.fixture
    def shared(self, tmp_path: Path) -> Path:
        if given(["unshare", "--user", "--map-root-user", "--mount", "true"]).returncode:
            pytest.skip("this machine allows no user namespaces")
        for name in ("run", "spool"):
            (tmp_path / name).mkdir()
            (tmp_path / name).chmod(0o2777)  # as an emptyDir with fsGroup is
        return tmp_path

    def container(self, shared: Path, *command: str, **environ: str) -> list[str]:
        names = {
            "PATH": f"{BIN}:{os.defpath}",
            "SIDECAR_SOCKET": f"{shared}/run/socket/sidecar.sock",
            "SIDECAR_HEARTBEAT_INTERVAL": "1s",
            **environ,
        }
        own = ["unshare", "--user", "--map-root-user", "--mount", "--pid", "--fork", "--propagation", "private"]
        variables = [f"{name}={value}" for name, value in names.items()]
        return [*own, "sh", "-c", CONTAINER, "sh", str(shared), *variables, *command]

    def stores(self, shared: Path) -> dict[str, str]:
        """The manifest's variables for what the daemon keeps, in the folder that stands for its volume."""
        found = dict(re.findall(r"- name: (SIDECAR_\w+)\n +value: (/var/lib/sidecar/\S+)", AGENT))
        return {name: value.replace("/var/lib/sidecar", f"{shared}/spool") for name, value in found.items()}

    @pytest.fixture
    def daemon(self, shared: Path) -> Iterator[OtlpReceiver]:
        """The manifest's daemon, and who receives from it."""
        with OtlpReceiver() as receiver:
            words = re.search(r"args: \[(.*)\]", AGENT)
            assert words is not None
            arguments = [word.strip().strip('"') for word in words[1].split(",")]
            environ = {
                "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.http_endpoint,
                "OTEL_RESOURCE_ATTRIBUTES": "k8s.pod.name=agent-1",
                **self.stores(shared),
            }
            process = subprocess.Popen(self.container(shared, "sidecar", *arguments, **environ))
            try:
                deadline_s = time.monotonic() + WAIT_S
                while given(self.container(shared, "sidecar", "daemon", "status")).returncode:
                    assert process.poll() is None
                    assert time.monotonic() < deadline_s
                yield receiver
                assert given(self.container(shared, "sidecar", "daemon", "stop")).returncode == 0
                process.wait(WAIT_S)
            finally:
                process.kill()
                process.wait()

    def test_the_root_is_read_only_and_the_user_is_nobody(self, shared: Path) -> None:
        done = given(self.container(shared, "sh", "-c", f"id -u; touch {shared}/x; touch {shared}/run/y"))
        assert (done.stdout, (shared / "x").exists(), (shared / "run" / "y").exists()) == ("65532\n", False, True)

    def test_heartbeats_of_the_agents_container_leave_by_the_daemons(self, shared: Path, daemon: OtlpReceiver) -> None:
        done = given(self.container(shared, "sidecar", "run", "--", "sh", "-c", "echo hi; sleep 3.5"))
        assert (done.returncode, done.stdout, done.stderr) == (0, "hi\n", "")
        span = daemon.wait_for_span(lambda span: span.name == "sh", timeout_s=WAIT_S)
        assert [event.name for event in span.events].count("sidecar.heartbeat") >= 2
        assert span.resource["k8s.pod.name"] == "agent-1"
        assert list(self.stores(shared)) == ["SIDECAR_SPOOL", "SIDECAR_HISTORY"]
        kept = given(self.container(shared, "sidecar", "history", **self.stores(shared)))
        assert re.search(r"\bsh\b.*exit 0", kept.stdout), kept.stdout + kept.stderr

    def test_a_command_is_cancelled_from_the_daemons_container(self, shared: Path, daemon: OtlpReceiver) -> None:
        agent = subprocess.Popen(self.container(shared, "sidecar", "run", "--", "sleep", "60"))
        try:
            found = None
            deadline_s = time.monotonic() + WAIT_S
            while found is None:
                assert time.monotonic() < deadline_s
                listed = given(self.container(shared, "sidecar", "ps", "--json")).stdout
                found = re.search(r'"commandId": ?"([^"]+)"', listed)
            done = given(self.container(shared, "sidecar", "cancel", found[1]))
            assert done.returncode == 0
            assert "cancelled" in done.stdout
            agent.wait(WAIT_S)
        finally:
            agent.kill()
            agent.wait()


class TestCompose:
    def test_it_is_as_the_specification_has_it(self) -> None:
        done = given([tool("compose-spec"), str(DEPLOY / "compose.yaml")])
        assert (done.returncode, done.stderr) == (0, "")

    def test_a_slip_is_found(self, tmp_path: Path) -> None:
        (tmp_path / "compose.yaml").write_text(COMPOSE.replace("    ports:", "    port:", 1))
        done = given([tool("compose-spec"), str(tmp_path / "compose.yaml")])
        assert done.returncode != 0

    def test_every_image_has_a_version(self) -> None:
        images = re.findall(r"^ +image: (\S+)$", COMPOSE, re.MULTILINE)
        assert len(images) == 7
        assert all(re.search(r":v?\d+\.\d+\.\d+$", image) for image in images)

    def test_every_port_is_on_loopback(self) -> None:
        ports = re.findall(r"^ +- (\S*:\d+:\d+)$", COMPOSE, re.MULTILINE)
        assert len(ports) == 6
        assert all(port.startswith("127.0.0.1:") for port in ports)

    def test_what_is_mounted_exists(self) -> None:
        mounted = re.findall(r"^ +- (\.[^:]+):[^:]+:ro$", COMPOSE, re.MULTILINE)
        assert len(mounted) == 7
        assert [name for name in mounted if not (DEPLOY / name).exists()] == []

    def test_prometheus_and_alertmanager_take_their_configurations(self, tmp_path: Path) -> None:
        shutil.copytree(ROOT / "dashboards" / "alerts", tmp_path / "alerts")
        text = (DEPLOY / "compose" / "prometheus.yaml").read_text().replace("/etc/prometheus/", f"{tmp_path}/")
        (tmp_path / "prometheus.yaml").write_text(text)
        done = given([tool("promtool"), "check", "config", str(tmp_path / "prometheus.yaml")])
        assert done.returncode == 0, done.stdout + done.stderr
        assert "rules found" in done.stdout
        alertmanager = re.search(r"- (\S+):/etc/alertmanager/alertmanager.yml:ro", COMPOSE)
        assert alertmanager is not None
        done = given([tool("amtool"), "check-config", str(DEPLOY / alertmanager[1])])
        assert done.returncode == 0, done.stdout + done.stderr

    def test_the_collectors_configuration_with_the_stacks_environment(self, tmp_path: Path) -> None:
        environ = dict(re.findall(r"^ +OTELCOL_(\w+): (\S+)$", COMPOSE, re.MULTILINE))
        assert environ["TRACES_ENDPOINT"] == "jaeger:4317"
        done = Collector(tmp_path, **environ).validate()
        assert (done.returncode, done.stdout + done.stderr) == (0, "")


class TestSystemd:
    @pytest.fixture(autouse=True)
    def _systemd(self) -> None:
        if shutil.which("systemd-analyze") is None or shutil.which("systemd-socket-activate") is None:
            pytest.skip("systemd's programs are not installed")

    def test_the_units_are_in_order(self, tmp_path: Path) -> None:
        home = tmp_path / "home"
        (home / ".local" / "bin").mkdir(parents=True)
        (home / ".local" / "bin" / "sidecar").symlink_to(BIN / "sidecar")
        (tmp_path / "run").mkdir(mode=0o700)
        units = [str(DEPLOY / "systemd" / name) for name in ("sidecar.socket", "sidecar.service")]
        environ = {"HOME": str(home), "XDG_RUNTIME_DIR": str(tmp_path / "run")}
        done = given(["systemd-analyze", "verify", "--user", "--man=no", *units], **environ)
        assert (done.returncode, done.stdout + done.stderr) == (0, "")

    def test_the_first_command_starts_the_daemon_by_the_socket(self, tmp_path: Path) -> None:
        """What sidecar.socket and sidecar.service do, by systemd's own program for trying it."""
        folder = tmp_path / "sidecar"
        folder.mkdir(mode=0o700)
        path = folder / "sidecar.sock"
        start = re.search(
            r"^ExecStart=%h/.local/bin/sidecar (.*)$", (DEPLOY / "systemd/sidecar.service").read_text(), re.M
        )
        assert start is not None
        with OtlpReceiver() as receiver:
            environ = {
                "XDG_RUNTIME_DIR": str(tmp_path),
                "XDG_STATE_HOME": str(tmp_path / "state"),
                "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.http_endpoint,
                "PATH": f"{BIN}:{os.environ['PATH']}",
            }
            passed = [f"--setenv={name}" for name in environ]
            words = ["systemd-socket-activate", *passed, f"--listen={path}", str(BIN / "sidecar"), *start[1].split()]
            process = subprocess.Popen(words, env={**os.environ, **environ}, stderr=subprocess.PIPE)
            try:
                deadline_s = time.monotonic() + WAIT_S
                while not path.exists():
                    assert time.monotonic() < deadline_s
                    time.sleep(0.01)
                assert given([str(BIN / "sidecar"), "run", "--", "true"], **environ).returncode == 0
                receiver.wait_for_span(lambda span: span.name == "true", timeout_s=WAIT_S)
                status = given([str(BIN / "sidecar"), "daemon", "status", "--json"], **environ).stdout
                assert f'"pid": {process.pid},' in status
                assert given([str(BIN / "sidecar"), "daemon", "stop"], **environ).returncode == 0
                process.wait(WAIT_S)
                assert path.exists()  # it is systemd's
            finally:
                process.kill()
                process.communicate()
