"""Shipped test aids: a clock one can turn, and an OTLP receiver. They need no test framework."""

from sidecar.testing.clock import FakeClock

__all__ = ["FakeClock"]
