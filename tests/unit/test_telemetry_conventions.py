"""The page of semantic conventions and the registry are one."""

from pathlib import Path

from sidecar.telemetry.conventions import attributes as a
from sidecar.telemetry.conventions.metrics import LABELS, METRICS, SDK_LABELS, SDK_METRICS
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


def test_everything_has_a_type_a_unit_a_stability_an_example_and_a_text() -> None:
    for known in (*a.ATTRIBUTES.values(), *a.RESOURCE.values(), *LABELS.values(), *SDK_LABELS.values()):
        assert known.type in ("string", "string[]", "int", "boolean")
        assert known.stability in (a.STABLE, a.DEVELOPMENT)
        assert known.example
        assert known.brief
        # A unit at the end of the name is the unit.
        assert known.name.endswith("_ms") == (known.unit == "ms")
    for signal in (*SPANS.values(), *SPAN_EVENTS.values(), *LOG_EVENTS.values()):
        assert signal.example
        assert signal.brief
    for metric in (*METRICS.values(), *SDK_METRICS.values()):
        assert metric.unit
        assert metric.brief
        float(metric.example)


def test_labels_of_metrics_are_registered_and_no_others() -> None:
    assert {name for metric in METRICS.values() for name in metric.attributes} == set(LABELS)
    assert {name for metric in SDK_METRICS.values() for name in metric.attributes} == set(SDK_LABELS)
