"""What is in deploy/ beside the Collectors' configurations.

Each file is read by what it is written for, as far as that can be had without a cluster, a container engine or an init;
and what the manifests claim of the daemon is tried.
"""

import functools
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from backends import ROOT, Collector, tool

from sidecar.testing.otlp import OtlpReceiver

DEPLOY = ROOT / "deploy"
PAGE = (DEPLOY / "README.md").read_text(encoding="utf-8")
BIN = Path(sys.executable).parent
WAIT_S = 60.0
AGENT = (DEPLOY / "kubernetes" / "agent.yaml").read_text(encoding="utf-8")
COMPOSE = (DEPLOY / "compose.yaml").read_text(encoding="utf-8")
GATEWAY = (DEPLOY / "kubernetes" / "gateway.yaml").read_text(encoding="utf-8")


SCHEMAS = (
    "configmap-v1",
    "networkpolicy-networking-v1",
    "pod-v1",
    "poddisruptionbudget-policy-v1",
    "service-v1",
    "statefulset-apps-v1",
)


def given(words: list[str], text: str | None = None, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        words, input=text, capture_output=True, text=True, check=False, timeout=60, env={**os.environ, **environ}
    )


@functools.cache
def kustomized() -> str:
    """What `kubectl apply -k deploy` would send."""
    done = given([tool("kustomize"), "build", str(DEPLOY)])
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@functools.cache
def composed() -> dict[str, Any]:
    """The project as `docker compose` understands it."""
    done = compose(DEPLOY / "compose.yaml")
    assert (done.returncode, done.stderr) == (0, "")
    project: dict[str, Any] = json.loads(done.stdout)
    return project


def compose(path: Path) -> subprocess.CompletedProcess[str]:
    return given([tool("docker-compose"), "-f", str(path), "config", "--format", "json"])


@pytest.fixture(scope="module")
def schemas(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Kubernetes' schemas as kubeconform looks for them; those of the package refer to each other by addresses."""
    package = Path(pytest.importorskip("kubernetes_validate").__file__).parent
    folder = tmp_path_factory.mktemp("schemas")
    for version in ("v1.29.0", "v1.36.0"):
        made = folder / f"{version}-standalone-strict"
        made.mkdir()
        for name in ("_definitions", *SCHEMAS):
            read = json.loads((package / f"kubernetes-json-schema/{version}-local-strict/{name}.json").read_text())
            del read["$id"]
            text = json.dumps(read).replace('"/api/_definitions.json', '"_definitions.json')
            (made / f"{name}.json").write_text(text)
    return folder


class TestKubernetes:
    """The types of Kubernetes' own API, decoded strictly, and its schemas. No server has seen them."""

    def conforms(self, schemas: Path, version: str, text: str) -> subprocess.CompletedProcess[str]:
        words = ["-strict", "-summary", "-kubernetes-version", f"{version}.0", "-schema-location", str(schemas), "-"]
        return given([tool("kubeconform"), *words], text)

    @pytest.mark.parametrize("version", ["1.29", "1.36"])
    def test_the_schemas_of_the_oldest_version_and_of_a_new_one(self, schemas: Path, version: str) -> None:
        for text, count in ((AGENT, 1), (GATEWAY, 4), (kustomized(), 5)):
            done = self.conforms(schemas, version, text)
            assert (done.returncode, done.stderr) == (0, ""), done.stdout
            assert f"Valid: {count}, Invalid: 0, Errors: 0, Skipped: 0" in done.stdout
        done = self.conforms(schemas, version, AGENT.replace("restartPolicy:", "restartPolice:"))
        assert done.returncode == 1
        assert "additional properties 'restartPolice' not allowed" in done.stdout

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

    def test_the_kustomization_puts_the_configuration_in(self) -> None:
        made = given([tool("manifests")], kustomized())
        assert made.stderr == ""
        (config,) = (line.split()[1] for line in made.stdout.splitlines() if line.startswith("ConfigMap "))
        # Its name has a hash of what it holds; the pods ask for it by that.
        assert re.search(rf"^ +- configMap:\n +name: {config}$", kustomized(), re.MULTILINE)
        shipped = (DEPLOY / "collector-gateway.yaml").read_text(encoding="utf-8")
        assert re.sub(r"^    ", "", kustomized().partition("collector-gateway.yaml: |\n")[2], flags=re.M).startswith(
            shipped
        )

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
    def test_docker_compose_takes_it(self) -> None:
        assert composed()["name"] == "sidecar"
        assert set(composed()["services"]) == {
            "alertmanager", "collector", "grafana", "jaeger", "loki", "prometheus", "storage"
        }  # fmt: skip

    @pytest.mark.parametrize(
        ("right", "wrong", "said"),
        [
            ("    ports:", "    port:", "additional properties 'port' not allowed"),
            ("      storage:\n", "      store:\n", "depends on undefined service"),
            ("      - loki:/loki", "      - lokis:/loki", "undefined volume lokis"),
        ],
    )
    def test_a_slip_is_found(self, tmp_path: Path, right: str, wrong: str, said: str) -> None:
        (tmp_path / "compose.yaml").write_text(COMPOSE.replace(right, wrong, 1))
        done = compose(tmp_path / "compose.yaml")
        assert done.returncode != 0
        assert said in done.stderr

    def test_every_image_has_a_version(self) -> None:
        images = [each["image"] for each in composed()["services"].values()]
        assert [image for image in images if not re.search(r":v?\d+\.\d+\.\d+$", image)] == []

    def test_every_port_is_on_loopback(self) -> None:
        ports = [port for each in composed()["services"].values() for port in each.get("ports", ())]
        assert sorted(int(port["published"]) for port in ports) == [3000, 4317, 4318, 9090, 9093, 16686]
        assert {port.get("host_ip") for port in ports} == {"127.0.0.1"}

    def test_whoever_is_asked_for_by_name_is_a_service(self) -> None:
        """The Collector's backends, what Prometheus scrapes and tells, Grafana's data sources."""
        environ = composed()["services"]["collector"]["environment"]
        texts = [environ["OTELCOL_TRACES_ENDPOINT"], environ["OTELCOL_LOGS_ENDPOINT"]]
        texts += re.findall(r"targets: \[(.*)\]", (DEPLOY / "compose/prometheus.yaml").read_text())
        texts += re.findall(
            r"^    url: (http.*)$", (DEPLOY / "compose/grafana/datasources/sidecar.yaml").read_text(), re.M
        )
        asked = [name for text in texts for name in re.findall(r"([a-z]+):\d+", text)]
        assert len(asked) == 9
        assert set(asked) - {"localhost"} <= set(composed()["services"])

    def test_what_is_mounted_exists_and_cannot_be_written(self) -> None:
        mounts = [each for service in composed()["services"].values() for each in service.get("volumes", ())]
        bound = [each for each in mounts if each["type"] == "bind"]
        assert len(bound) == 7
        assert [each["source"] for each in bound if not Path(each["source"]).exists()] == []
        assert all(each["read_only"] for each in bound)

    @pytest.mark.parametrize(
        ("service", "named"),
        [
            ("collector", r"--config=(\S+)"),
            ("prometheus", r"--config\.file=(\S+)"),
            ("prometheus", r"^  - (/\S+\.yml)$"),
            ("alertmanager", r"--config\.file=(\S+)"),
            ("grafana", r"HOME_DASHBOARD_PATH=(\S+)"),
            ("grafana", r"^      path: (\S+)$"),
        ],
    )
    def test_a_file_that_is_named_in_a_container_is_mounted_there(self, service: str, named: str) -> None:
        """In its command, its environment, and the files that are mounted for it."""
        of = composed()["services"][service]
        mounts = {each["target"]: Path(each["source"]) for each in of.get("volumes", ()) if each["type"] == "bind"}
        files = [path for source in mounts.values() for path in (source, *source.glob("*.yaml")) if path.is_file()]
        texts = [*(of.get("command") or ()), *(f"{name}={value}" for name, value in of.get("environment", {}).items())]
        texts += [path.read_text(encoding="utf-8") for path in files]
        (path,) = {found for text in texts for found in re.findall(named, text, re.MULTILINE)}
        (there,) = {
            source / Path(path).relative_to(target)
            for target, source in mounts.items()
            if Path(path).is_relative_to(target)
        }
        assert there.exists()

    def test_grafana_looks_for_what_it_is_given_where_it_is_mounted(self) -> None:
        """Its image has GF_PATHS_PROVISIONING=/etc/grafana/provisioning (Grafana's documentation, Configure Docker)."""
        targets = {each["target"] for each in composed()["services"]["grafana"]["volumes"]}
        assert {"/etc/grafana/provisioning/datasources", "/etc/grafana/provisioning/dashboards"} <= targets

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
        """By the page's own lines, in a clone with nothing but a `.venv`."""
        home, clone = tmp_path / "home", tmp_path / "clone"
        home.mkdir()
        (clone / ".venv").mkdir(parents=True)
        (clone / ".venv" / "bin").symlink_to(BIN)
        (clone / "deploy").symlink_to(DEPLOY)
        (tmp_path / "run").mkdir(mode=0o700)
        block = re.search(r"<!-- systemd: units -->\n```sh\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
        assert block is not None
        environ = {"HOME": str(home), "XDG_RUNTIME_DIR": str(tmp_path / "run")}
        for _ in range(2):  # also when it is done again
            done = given(["sh", "-c", f"cd {shlex.quote(str(clone))}\n{block[1]}"], **environ)
            assert (done.returncode, done.stdout + done.stderr) == (0, "")
        assert (home / ".local" / "bin" / "sidecar").samefile(BIN / "sidecar")

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
