"""What the session's fixture `stack` gives."""

from dataclasses import dataclass

from backends import Collector
from jaeger_backend import Jaeger
from prometheus_backend import Prometheus

from sidecar.testing.otlp import OtlpReceiver


@dataclass(frozen=True, slots=True)
class Stack:
    """The shipped configuration of one host, with a real backend behind each exporter. Loki is a receiver of ours
    that takes OTLP where Loki has it."""

    collector: Collector
    jaeger: Jaeger
    prometheus: Prometheus
    loki: OtlpReceiver
