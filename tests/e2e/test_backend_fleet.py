"""The two tiers of deploy/: a host's Collector and two gateways, with certificates, as they are shipped."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from backends import Collector, eventually, get
from installed import Sidecar, new_trace
from log_order import assert_in_order

from sidecar.testing.otlp import OtlpReceiver

COMMANDS = 24
"""A gateway has at least a third of the traces, so that none of so many is its own by chance in one run of 10,000."""


def certificates(folder: Path) -> dict[str, str]:
    """An authority of our own, and one certificate for 127.0.0.1 that both sides show."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not on PATH: it makes the certificates of the gateways")

    def openssl(*words: str) -> None:
        subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)

    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    openssl("req", "-x509", *key, "-keyout", "ca.key", "-out", "ca.crt", "-subj", "/CN=authority", "-days", "2")
    openssl("req", *key, "-keyout", "tls.key", "-out", "tls.csr", "-subj", "/CN=collector")
    (folder / "san").write_text("subjectAltName=IP:127.0.0.1\nextendedKeyUsage=serverAuth,clientAuth\n")
    signed = ("-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2", "-extfile", "san")
    openssl("x509", "-req", "-in", "tls.csr", *signed, "-out", "tls.crt")
    return {
        "TLS_CA": str(folder / "ca.crt"),
        "TLS_CERT": str(folder / "tls.crt"),
        "TLS_KEY": str(folder / "tls.key"),
    }


class Gateway:
    """A gateway, and a backend of its own, which tells what came that way."""

    def __init__(self, folder: Path, tls: dict[str, str]) -> None:
        self.backend = OtlpReceiver(grpc=True).start()
        self.collector = Collector(
            folder,
            "deploy/collector-gateway.yaml",
            TRACES_ENDPOINT=self.backend.grpc_endpoint.removeprefix("http://"),
            LOGS_ENDPOINT=self.backend.http_endpoint,
            **tls,
        )

    def stop(self) -> None:
        self.collector.stop()
        self.backend.stop()

    def traces(self) -> set[str]:
        return {span.trace_id for span in self.backend.spans}

    def whole_traces(self) -> set[str]:
        """Those with both of their spans."""
        roles = {(span.trace_id, span.attributes["sidecar.span.role"]) for span in self.backend.spans}
        return {trace_id for trace_id in self.traces() if {(trace_id, "started"), (trace_id, "command")} <= roles}

    def settled(self) -> set[str]:
        """The traces whose last log event is here."""
        return {log.trace_id for log in self.backend.logs if log.event_name == "sidecar.settled"}


@pytest.fixture
def tls(tmp_path: Path) -> dict[str, str]:
    return certificates(tmp_path)


@pytest.fixture
def gateways(tmp_path: Path, tls: dict[str, str]) -> Iterator[tuple[Gateway, Gateway]]:
    pair = Gateway(tmp_path, tls), Gateway(tmp_path, tls)
    try:
        for gateway in pair:
            gateway.collector.set(GATEWAYS=f"[{', '.join(each.collector.routed for each in pair)}]")
            gateway.collector.start()
        yield pair
    finally:
        for gateway in pair:
            gateway.stop()


def run(sidecar: Sidecar, count: int) -> set[str]:
    """That many short commands, each with a trace of its own, some at a time; their ids."""
    traces = [new_trace() for _ in range(count)]
    for some in (traces[first : first + 6] for first in range(0, count, 6)):
        for child in [sidecar.start("true", TRACEPARENT=traceparent) for traceparent, _, _ in some]:
            assert child.wait(30) == 0
    return {trace_id for _, trace_id, _ in traces}


def test_each_trace_comes_together_at_one_gateway(
    installed: str, gateways: tuple[Gateway, Gateway], tls: dict[str, str], tmp_path: Path
) -> None:
    first, second = gateways
    agent = Collector(
        tmp_path,
        "deploy/collector-agent.yaml",
        GATEWAY=first.collector.grpc,
        SPAN_METRICS_INTERVAL="1s",
        **tls,
    )

    def all_there(ids: set[str]) -> bool:
        return first.whole_traces() | second.whole_traces() >= ids and first.settled() | second.settled() >= ids

    with agent, Sidecar(tmp_path, agent.http) as sidecar:
        ids = run(sidecar, COMMANDS)
        eventually("all spans and log events", lambda: all_there(ids))
        assert first.traces()
        assert second.traces()

        eventually("metrics", lambda: any("sidecar_output_age_seconds" in page(each) for each in gateways))
        eventually("span metrics", lambda: any("sidecar_spans_calls_total" in page(each) for each in gateways))
        assert sum("sidecar_output_age_seconds" in page(each) for each in gateways) == 1, "one shows a daemon"

        second.collector.stop()
        new = run(sidecar, COMMANDS)
        ids |= new
        # Those of the gateway that is there do not wait for the other's.
        share = eventually("some of it", lambda: first.whole_traces() & new)
        assert not all_there(ids)
        second.collector.start()
        eventually("all of it", lambda: all_there(ids), 90)
        assert share <= first.whole_traces()

        first.collector.stop()
        ids |= run(sidecar, COMMANDS)
        first.collector.start()
        eventually("what waited at the host", lambda: all_there(ids), 90)

    assert first.traces().isdisjoint(second.traces())
    spans = [span.span_id for gateway in gateways for span in gateway.backend.spans]
    assert len(spans) == len(set(spans)), "once"


def page(gateway: Gateway) -> str:
    return get(f"http://{gateway.collector.prometheus}/metrics")


def test_log_events_come_in_order_after_loki_was_away(tls: dict[str, str], tmp_path: Path) -> None:
    gateway = Gateway(tmp_path, tls)
    try:
        gateway.collector.start()
        with Collector(tmp_path, "deploy/collector-agent.yaml", GATEWAY=gateway.collector.grpc, **tls) as agent:
            assert_in_order(agent, gateway.backend)
    finally:
        gateway.stop()


def test_without_a_certificate_nobody_gets_in(installed: str, tls: dict[str, str], tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    stranger = certificates(other) | {"TLS_CA": tls["TLS_CA"]}
    gateway = Gateway(tmp_path, tls)
    try:
        gateway.collector.start()
        agent = Collector(tmp_path, "deploy/collector-agent.yaml", GATEWAY=gateway.collector.grpc, **stranger)
        with agent, Sidecar(tmp_path, agent.http) as sidecar:
            sidecar.start("true").wait(10)
            eventually("a refusal in the host's log", lambda: "unknown certificate authority" in agent.log_text())
        assert gateway.backend.requests == []
    finally:
        gateway.stop()
