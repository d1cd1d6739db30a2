"""Who speaks: the OpenTelemetry resource of everything that is exported."""

import os
import uuid
from collections.abc import Mapping
from importlib.metadata import version
from socket import gethostname
from urllib.parse import unquote

from opentelemetry.sdk.resources import Resource

from sidecar import __version__
from sidecar.telemetry.settings import TelemetrySettings

# The name space of uuid5: a fixed random id, so that nobody else's uuid5 of the same text is the same.
_NAMESPACE = uuid.UUID("3c7f9b1e-8a52-4f0d-9e6b-57d1c0a4e218")
_MACHINE_ID_FILES = ("/etc/machine-id", "/var/lib/dbus/machine-id")


def build(settings: TelemetrySettings) -> Resource:
    """The resource: our own keys, and others from OTEL_RESOURCE_ATTRIBUTES.

    Not `Resource.create`: that lets OTEL_SERVICE_NAME, which an agent sets for itself, rename us, and makes a
    new service.instance.id for each process.
    """
    host_id = machine_id()
    own = {
        "service.name": "sidecar",
        "service.version": __version__,
        "service.instance.id": instance_id(host_id, os.getuid(), settings.scope, settings.socket),
        "host.name": gethostname(),
        "telemetry.sdk.language": "python",
        "telemetry.sdk.name": "opentelemetry",
        "telemetry.sdk.version": version("opentelemetry-sdk"),
    }
    if host_id:
        own["host.id"] = host_id
    return Resource({**environ_attributes(settings.environ), **own})


def instance_id(host_id: str, uid: int, scope: str, socket: str = "") -> str:
    """Stable per user, host and socket in the daemon, which is the one writer of its series there. A user who has two
    (a login session and cron differ in XDG_RUNTIME_DIR) has two ids, or each would overwrite the other's counters.

    Inline mode has many writers at once; under one id they would overwrite each other's counters.
    """
    if scope == "inline":
        return str(uuid.uuid4())
    return str(uuid.uuid5(_NAMESPACE, f"{host_id or gethostname()}:{uid}:{socket}"))


def machine_id() -> str:
    """The machine's id of systemd or D-Bus; empty where there is none (macOS, minimal containers)."""
    for path in _MACHINE_ID_FILES:
        try:
            with open(path, encoding="ascii") as file:
                found = file.read().strip()
        except (OSError, UnicodeDecodeError):
            continue
        if found and found != "uninitialized":
            return found
    return ""


def environ_attributes(environ: Mapping[str, str]) -> dict[str, str]:
    """OTEL_RESOURCE_ATTRIBUTES (`key=value,...`, percent-encoded); a malformed item is left out."""
    attributes = {}
    for item in environ.get("OTEL_RESOURCE_ATTRIBUTES", "").split(","):
        key, equals, value = item.partition("=")
        if equals and key.strip():
            attributes[unquote(key.strip())] = unquote(value.strip())
    return attributes
