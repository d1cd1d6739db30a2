"""OpenTelemetry's variables, the trace context and the agents' session, by `sidecar run` and a daemon of its own."""

import os
import re
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from supervised import WAIT_S, Installation, alive, on_linux, stop_daemon, until

from sidecar.daemon import client
from sidecar.testing.otlp import OtlpReceiver
from sidecar.testing.received import ReceivedSpan

pytestmark = on_linux

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
OTLP = "OTEL_EXPORTER_OTLP_"


class Host:
    """One user's place: a socket, a state folder, and whatever variables a test gives to the commands."""

    def __init__(self, sidecar: Installation, folder: Path) -> None:
        self.folder = folder
        self._sidecar = sidecar
        self.socket = str(folder / "s.sock")
        self.environ = {
            **{name: value for name, value in sidecar.environ.items() if name != "OTEL_SDK_DISABLED"},
            "SIDECAR_SOCKET": self.socket,
            "SIDECAR_METRIC_EXPORT_INTERVAL": "1s",
            "XDG_STATE_HOME": str(folder),
        }

    def run(self, *command: str, flags: tuple[str, ...] = (), **variables: str) -> bytes:
        done = self._sidecar.run(*command, flags=flags, env={**self.environ, **variables})
        assert (done.status, done.stderr) == (0, b"")
        return done.stdout

    def end_daemon(self) -> None:
        """To the end of its process: all that was owed is sent by then, or in the spool."""
        pid = client.status(self.socket)["pid"]
        stop_daemon(self.socket)
        until(lambda: not alive(pid))

    def problems(self) -> list[str]:
        problems: list[str] = client.status(self.socket)["telemetry"]["problems"]
        return problems


@pytest.fixture
def host(sidecar: Installation, tmp_path: Path) -> Iterator[Host]:
    tmp_path.chmod(0o700)
    made = Host(sidecar, tmp_path)
    yield made
    stop_daemon(made.socket)


@pytest.fixture
def receiver() -> Iterator[OtlpReceiver]:
    with OtlpReceiver() as receiver:
        yield receiver


def command_span(receiver: OtlpReceiver, program: str = "true") -> ReceivedSpan:
    return receiver.wait_for_span(
        lambda span: span.attributes["sidecar.span.role"] == "command" and span.name == program, WAIT_S
    )


# The environment variables


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """Makes files by their names: an authority, and what it has signed for a server and for a client."""
    folder = tmp_path_factory.mktemp("authority")

    def openssl(*words: str) -> None:
        subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)

    new = ("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    openssl(*new, "-x509", "-days", "2", "-subj", "/CN=authority", "-keyout", "ca.key", "-out", "ca.pem")
    (folder / "server.ext").write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
    (folder / "client.ext").write_text("extendedKeyUsage=clientAuth\n")
    for name in ("server", "client"):
        openssl(*new, "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.csr")
        signed = ("-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2", "-extfile", f"{name}.ext")
        openssl("x509", "-req", "-in", f"{name}.csr", *signed, "-out", f"{name}.pem")
    return lambda name: str(folder / name)


@pytest.mark.parametrize("protocol", ["http/protobuf", "grpc"])
def test_tls_by_an_authority_of_ones_own_and_a_client_certificate(
    host: Host, authority: Callable[[str], str], protocol: str
) -> None:
    files = (authority("server.pem"), authority("server.key"))
    with OtlpReceiver(grpc=protocol == "grpc", tls=files, client_authority=authority("ca.pem")) as receiver:
        host.environ |= {
            f"{OTLP}ENDPOINT": receiver.grpc_endpoint if protocol == "grpc" else receiver.http_endpoint,
            f"{OTLP}PROTOCOL": protocol,
            f"{OTLP}CERTIFICATE": authority("ca.pem"),
        }
        host.run("true")
        until(host.problems)
        assert receiver.requests == [], "without a certificate of our own we are not let in"
        stop_daemon(host.socket)
        host.environ |= {f"{OTLP}CLIENT_CERTIFICATE": authority("client.pem")}
        host.environ |= {f"{OTLP}CLIENT_KEY": authority("client.key")}
        host.run("true")
        command_span(receiver)
        receiver.wait_for_log(lambda log: log.event_name == "sidecar.settled", WAIT_S)
        receiver.wait_for_metric(lambda metric: metric.name == "sidecar.commands.started", WAIT_S)


@pytest.mark.parametrize("compression", ["gzip", "deflate", "none"])
def test_endpoint_headers_and_compression(host: Host, receiver: OtlpReceiver, compression: str) -> None:
    host.environ |= {
        f"{OTLP}ENDPOINT": f"{receiver.http_endpoint}/",
        f"{OTLP}HEADERS": "authorization=Bearer%20t0ken,x-tenant=a%2Cb",
        f"{OTLP}METRICS_HEADERS": "x-tenant=metrics",
        f"{OTLP}COMPRESSION": compression,
    }
    host.run("true")
    command_span(receiver)
    receiver.wait_for_metric(lambda metric: metric.name == "sidecar.commands.started", WAIT_S)
    received = dict(receiver.requests)
    assert received["/v1/traces"]["authorization"] == "Bearer t0ken"
    assert received["/v1/traces"]["x-tenant"] == "a,b"
    assert received["/v1/metrics"]["x-tenant"] == "metrics"
    assert "authorization" not in received["/v1/metrics"]
    assert received["/v1/traces"].get("content-encoding", "none") == compression


def test_a_timeout_is_milliseconds(host: Host, receiver: OtlpReceiver) -> None:
    """As the specification has it. The SDK alone would wait for 200 seconds."""
    receiver.delay_s = 2
    host.environ |= {f"{OTLP}ENDPOINT": receiver.http_endpoint, f"{OTLP}TIMEOUT": "200"}
    host.environ |= {"OTEL_METRICS_EXPORTER": "none"}
    host.run("true")
    assert "timed out" in until(host.problems)[0]
    assert not receiver.spans


def test_resource_attributes(host: Host, receiver: OtlpReceiver) -> None:
    host.environ |= {
        f"{OTLP}ENDPOINT": receiver.http_endpoint,
        "OTEL_SERVICE_NAME": "the-agents-own",
        "OTEL_RESOURCE_ATTRIBUTES": "service.name=also-theirs,deployment.environment=ci%20x,team=infra,broken,=x",
    }
    host.run("true")
    resource = command_span(receiver).resource
    assert resource["service.name"] == "sidecar"
    assert (resource["deployment.environment"], resource["team"]) == ("ci x", "infra")
    assert not {"broken", ""} & set(resource)
    log = receiver.wait_for_log(lambda log: log.event_name == "sidecar.settled", WAIT_S)
    metric = receiver.wait_for_metric(lambda metric: metric.name == "sidecar.commands.started", WAIT_S)
    assert log.resource == metric.resource == resource


@pytest.mark.parametrize(
    ("variables", "paths"),
    [
        ({"OTEL_SDK_DISABLED": "true"}, set()),
        ({"OTEL_SDK_DISABLED": "TRUE"}, set()),
        ({"OTEL_SDK_DISABLED": "1"}, {"/v1/traces", "/v1/logs", "/v1/metrics"}),
        ({"OTEL_TRACES_EXPORTER": "none"}, {"/v1/logs", "/v1/metrics"}),
        ({"OTEL_LOGS_EXPORTER": "none"}, {"/v1/traces", "/v1/metrics"}),
        ({"OTEL_METRICS_EXPORTER": "none"}, {"/v1/traces", "/v1/logs"}),
    ],
)
def test_switched_off(host: Host, receiver: OtlpReceiver, variables: dict[str, str], paths: set[str]) -> None:
    host.environ |= {f"{OTLP}ENDPOINT": receiver.http_endpoint, **variables}
    host.run("true")
    until(lambda: client.status(host.socket)["framesReceived"] >= 2)
    host.end_daemon()
    assert {path for path, _ in receiver.requests} == paths


# The trace context


@pytest.mark.parametrize(
    ("given", "handed_on", "sampled"),
    [("01", "01", True), ("03", "03", True), ("ff", "03", True), ("00", "00", False), ("02", "02", False)],
)
def test_flags_and_state_of_the_parent(
    host: Host, receiver: OtlpReceiver, given: str, handed_on: str, sampled: bool
) -> None:
    state = "vendor=x:1;y:2,other@sys=00f067aa0ba902b7"
    host.environ |= {f"{OTLP}ENDPOINT": receiver.http_endpoint}
    variables = {"TRACEPARENT": f"00-{TRACE}-{SPAN}-{given}", "TRACESTATE": state}
    text = host.run("sh", "-c", "echo $TRACEPARENT $TRACESTATE", **variables).decode()
    child, child_state = text.split()
    assert child_state == state
    match = re.fullmatch(f"00-{TRACE}-([0-9a-f]{{16}})-{handed_on}", child)
    assert match is not None
    log = receiver.wait_for_log(lambda log: log.event_name == "sidecar.settled", WAIT_S)
    assert (log.trace_id, log.span_id) == (TRACE, match[1])
    receiver.wait_for_metric(
        lambda m: m.name == "sidecar.commands.started" and m.attributes["family"] == "sh" and m.value == 1, WAIT_S
    )
    if not sampled:
        host.end_daemon()
        assert receiver.spans == []
        return
    span = command_span(receiver, "sh")
    assert (span.trace_id, span.span_id, span.parent_span_id) == (TRACE, match[1], SPAN)
    started = receiver.wait_for_span(lambda span: span.name == "sidecar.started", WAIT_S)
    assert span.trace_state == started.trace_state == state


@pytest.mark.parametrize(
    "parent",
    [
        *("", "rubbish", f"00-{TRACE}-{SPAN}", f"ff-{TRACE}-{SPAN}-01"),
        *(f"00-{'0' * 32}-{SPAN}-01", f"00-{TRACE.upper()}-{SPAN}-01"),
    ],
)
def test_a_malformed_parent_starts_a_new_trace(host: Host, receiver: OtlpReceiver, parent: str) -> None:
    host.environ |= {f"{OTLP}ENDPOINT": receiver.http_endpoint}
    variables = {"TRACEPARENT": parent, "TRACESTATE": "vendor=1"}
    text = host.run("sh", "-c", "echo $TRACEPARENT state=$TRACESTATE", **variables).decode()
    match = re.fullmatch(r"00-([0-9a-f]{32})-([0-9a-f]{16})-03 state=\n", text)
    assert match is not None, text
    assert match[1] != TRACE
    span = command_span(receiver, "sh")
    assert (span.trace_id, span.span_id, span.parent_span_id) == (match[1], match[2], "")


def test_a_state_that_nobody_can_read_costs_no_span(host: Host, receiver: OtlpReceiver) -> None:
    host.environ |= {f"{OTLP}ENDPOINT": receiver.http_endpoint}
    host.run("true", TRACEPARENT=f"00-{TRACE}-{SPAN}-01", TRACESTATE="=,;;no state,a=\x07")
    assert command_span(receiver).trace_id == TRACE


# The agents' names


@pytest.mark.parametrize("variable", ["QWEN_CODE_SESSION_ID", "CLAUDE_CODE_SESSION_ID", "CODEX_SESSION_ID"])
def test_the_agents_session(host: Host, receiver: OtlpReceiver, variable: str) -> None:
    host.environ |= {f"{OTLP}ENDPOINT": receiver.http_endpoint}
    host.run("true", **{variable: "s-42"})
    attributes = command_span(receiver).attributes
    assert attributes["session.id"] == attributes["gen_ai.conversation.id"] == "s-42"
    log = receiver.wait_for_log(lambda log: log.event_name == "sidecar.settled", WAIT_S)
    assert log.attributes["session.id"] == "s-42"


def test_what_we_are_told_wins_over_what_the_agent_sets(host: Host, receiver: OtlpReceiver) -> None:
    host.environ |= {f"{OTLP}ENDPOINT": receiver.http_endpoint}
    variables = {"CODEX_SESSION_ID": "theirs", "CODEX_TOOL_CALL_ID": "call_7"}
    host.run("true", flags=("--session-id", "ours"), **variables)
    attributes = command_span(receiver).attributes
    assert attributes["session.id"] == "ours"
    assert attributes["gen_ai.tool.call.id"] == "call_7"
    assert attributes["gen_ai.operation.name"] == "execute_tool"


# What is never recorded


def test_neither_environment_nor_output_is_anywhere(host: Host, receiver: OtlpReceiver) -> None:
    """Not at the receiver, not in the daemon's log, not in the spool, nor on the way to a subscriber."""
    secret, printed, typed = (os.urandom(12).hex() for _ in range(3))
    host.environ |= {
        f"{OTLP}ENDPOINT": "http://127.0.0.1:9",  # all of it stays in the spool
        "SIDECAR_DAEMON_LOG": str(host.folder / "daemon.log"),
        "SIDECAR_LOG": str(host.folder / "run.log"),
    }
    script = f"read line; echo {printed}; echo {printed} >&2; sleep 1; echo $MY_TOKEN | wc -c"
    words = ("--capture-command", "--heartbeat-interval", "300ms")
    done = host._sidecar.run(
        "sh", "-c", script.replace(printed, "$OUT"), flags=words, input=typed.encode(),
        env={**host.environ, "MY_TOKEN": secret, "OUT": printed},
    )  # fmt: skip
    assert printed.encode() in done.stdout
    until(lambda: spooled(host.folder) >= 4)
    host.end_daemon()
    everything = b"".join(path.read_bytes() for path in sorted(host.folder.rglob("*")) if path.is_file())
    assert b"sidecar.heartbeat" in everything
    for text in (secret, printed, typed):
        assert text.encode() not in everything


def spooled(folder: Path) -> int:
    """Spans and log records, however few requests they have been put into."""
    database = folder / "sidecar" / "spool.db"
    try:
        with sqlite3.connect(f"file:{database}?mode=ro", uri=True) as connection:
            (records,) = connection.execute("select coalesce(sum(records), 0) from total").fetchone()
    except sqlite3.OperationalError:  # there is none yet, or no table in it
        return 0
    return int(records)
