"""Prints docs/semantic-conventions.md."""

from sidecar.telemetry.conventions.page import page

print(page(), end="")
