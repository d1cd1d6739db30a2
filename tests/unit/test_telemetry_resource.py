"""Who speaks: the resource, and the environment the SDK is made in."""

import os

import pytest

from sidecar.config import load_settings
from sidecar.telemetry import resource
from sidecar.telemetry.configured import telemetry_settings
from sidecar.telemetry.conventions.attributes import RESOURCE
from sidecar.telemetry.environment import sdk_environ
from sidecar.telemetry.settings import TelemetrySettings


def test_an_agents_variables_do_not_rename_us() -> None:
    environ = {
        "OTEL_SERVICE_NAME": "claude-code",
        "OTEL_RESOURCE_ATTRIBUTES": "service.name=theirs,team=a%20b,deployment.environment.name=ci,broken",
    }
    attributes = resource.build(TelemetrySettings(environ=environ)).attributes
    assert attributes["service.name"] == "sidecar"
    assert attributes["team"] == "a b"
    assert attributes["deployment.environment.name"] == "ci"
    assert "broken" not in attributes


def test_only_registered_keys_without_variables() -> None:
    assert set(resource.build(TelemetrySettings(environ={})).attributes) <= set(RESOURCE)


def test_instance_is_stable_per_user_and_host_and_one_of_many_inline() -> None:
    daemon = resource.instance_id("machine", 1000, "daemon")
    assert daemon == resource.instance_id("machine", 1000, "daemon")
    assert daemon != resource.instance_id("machine", 1001, "daemon")
    assert daemon != resource.instance_id("another", 1000, "daemon")
    # Two daemons of one user: the counters of one must not be taken for the other's.
    assert resource.instance_id("machine", 1000, "daemon", "/run/user/1000/sidecar/sidecar.sock") != (
        resource.instance_id("machine", 1000, "daemon", "/tmp/sidecar-1000/sidecar.sock")
    )
    inline = resource.instance_id("machine", 1000, "inline")
    assert inline != resource.instance_id("machine", 1000, "inline")


def test_daemons_of_different_sockets_are_different_instances(monkeypatch: pytest.MonkeyPatch) -> None:
    found = set()
    for runtime in ("/run/user/1000", "/tmp/of-cron", "/run/user/1000"):
        monkeypatch.setenv("XDG_RUNTIME_DIR", runtime)
        settings = telemetry_settings(load_settings({}, {"XDG_RUNTIME_DIR": runtime}), "daemon")
        found.add(resource.build(settings).attributes["service.instance.id"])
    assert len(found) == 2


def test_sdk_sees_our_environment_and_the_process_keeps_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "key=agents-own-token")
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    before = dict(os.environ)
    not_for_it = ("OTEL_BSP_MAX_QUEUE_SIZE", "OTEL_BLRP_SCHEDULE_DELAY", "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT")
    ours = {**dict.fromkeys(not_for_it, "9"), "OTEL_METRICS_EXEMPLAR_FILTER": "nonsense", "HOME": "/nowhere"}
    ours["OTEL_RESOURCE_ATTRIBUTES"] = "a=b"
    with sdk_environ(ours):
        seen = {name: value for name, value in os.environ.items() if name.startswith("OTEL_")}
    assert seen == {
        "OTEL_RESOURCE_ATTRIBUTES": "a=b",
        "OTEL_BSP_MAX_QUEUE_SIZE": "16384",
        "OTEL_BLRP_MAX_QUEUE_SIZE": "16384",
        "OTEL_PYTHON_SDK_INTERNAL_METRICS_ENABLED": "true",
    }
    assert dict(os.environ) == before
