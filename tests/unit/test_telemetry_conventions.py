"""The page of semantic conventions and the registry are one."""

from pathlib import Path

from sidecar.telemetry.conventions import attributes as a
from sidecar.telemetry.conventions.metrics import METRICS
from sidecar.telemetry.conventions.page import page
from sidecar.telemetry.conventions.signals import LOG_EVENTS, SPAN_EVENTS, SPANS

PAGE = Path(__file__).parents[2] / "docs" / "semantic-conventions.md"


def test_page_is_printed_from_the_registry() -> None:
    assert PAGE.read_text() == page(), "run: python -m sidecar.telemetry.conventions > docs/semantic-conventions.md"


def test_every_attribute_used_is_registered_and_every_registered_one_is_used() -> None:
    used = {
        name
        for signals in (SPANS, SPAN_EVENTS, LOG_EVENTS)
        for signal in signals.values()
        for name in signal.attributes
    }
    assert used == set(a.ATTRIBUTES)


def test_metrics_have_units_and_texts() -> None:
    for metric in METRICS.values():
        assert metric.name.startswith("sidecar.")
        assert metric.unit
        assert metric.brief
