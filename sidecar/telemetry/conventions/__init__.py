"""Every name this project puts into a span, an event, a log record, a metric or a resource: the registry.

The code that emits takes names, units and descriptions from here, `docs/semantic-conventions.md` is printed
from here (`python -m sidecar.telemetry.conventions`), and a test holds the exported data against it.
"""
