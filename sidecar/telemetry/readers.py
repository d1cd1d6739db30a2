"""The readers of the metrics: the SDK's, which also show suspects and the 0 that a series begins with."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.sdk.metrics.export import MetricReader, MetricsData, PeriodicExportingMetricReader

from sidecar.telemetry.suspects import with_suspects

if TYPE_CHECKING:
    from collections.abc import Callable

    from sidecar.telemetry.newborn import BornAtZero
    from sidecar.telemetry.suspects import Suspect


class _Reader(MetricReader):
    """A reader that changes what it received before it passes that on."""

    newborn: BornAtZero | None = None
    """None: every series is shown as it is, as in a process that exports once."""
    suspects: Callable[[], tuple[list[Suspect], int]] | None = None
    """Returns the worst suspects and the wall time; set once the metrics exist."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        # First of all: the base class starts the thread.
        self._made_in_pid = os.getpid()
        super().__init__(*arguments, **options)

    def shutdown(self, timeout_millis: float = 30_000, **kwargs: Any) -> None:
        if self.newborn is not None:
            self.newborn.end()
        super().shutdown(timeout_millis, **kwargs)  # type: ignore[safe-super]  # a mixin

    def _receive_metrics(self, metrics_data: MetricsData, timeout_millis: float = 10_000, **kwargs: Any) -> None:
        if os.getpid() != self._made_in_pid:
            # The SDK starts its threads anew in a forked child, which would then write the same series as we do,
            # with counts that stand still. SystemExit ends that thread alone, without a word.
            sys.exit()
        if self.newborn is not None:
            metrics_data = self.newborn.of(metrics_data)
        if self.suspects is not None:
            metrics_data = with_suspects(metrics_data, *self.suspects())
        super()._receive_metrics(metrics_data, timeout_millis, **kwargs)  # type: ignore[safe-super]  # a mixin


class OtlpReader(_Reader, PeriodicExportingMetricReader):
    """The SDK's periodic reader."""


class PrometheusReader(_Reader, PrometheusMetricReader):
    """The SDK's Prometheus reader."""
