"""What the session's fixture `stack` gives."""

import json
import re
from dataclasses import dataclass
from urllib.parse import unquote

from backends import ROOT, Collector
from jaeger_backend import Jaeger
from prometheus_backend import Prometheus

from sidecar.testing.otlp import OtlpReceiver

DATA_SOURCES = (ROOT / "deploy/compose/grafana/datasources/sidecar.yaml").read_text(encoding="utf-8")


def linked_queries() -> list[str]:
    """What the addresses into Explore ask that Grafana's data sources lead to."""
    panes = [json.loads(unquote(each)) for each in re.findall(r"[?&]panes=([^'\s]+)", DATA_SOURCES)]
    return [query["expr"] for each in panes for pane in each.values() for query in pane["queries"]]


@dataclass(frozen=True, slots=True)
class Stack:
    """The shipped configuration of one host, with a real backend behind each exporter. Loki is a receiver of ours
    that takes OTLP where Loki has it."""

    collector: Collector
    jaeger: Jaeger
    prometheus: Prometheus
    loki: OtlpReceiver
