"""The OTEL_* variables as the SDK should see them, for as long as its parts are being made.

The SDK reads `os.environ` and nothing else. Ours may come from a configuration file (some agents strip OTEL_*
from their children), and some of the process's own must not be read as they are.
"""

import contextlib
import os
import threading
from collections.abc import Iterator, Mapping

_SIGNALS = ("", "TRACES_", "METRICS_", "LOGS_")
# Read by targets.py instead: the SDK takes milliseconds, as the specification has it, for seconds, and over gRPC
# a compression of `none` for an error. A bad exemplar filter is fatal to it; outputs.py knows the good ones.
_OURS = (
    *(f"OTEL_EXPORTER_OTLP_{signal}{name}" for signal in _SIGNALS for name in ("TIMEOUT", "COMPRESSION")),
    "OTEL_METRICS_EXEMPLAR_FILTER",
)
_HEADERS = tuple(f"OTEL_EXPORTER_OTLP_{signal}HEADERS" for signal in _SIGNALS)
_INTERNAL_METRICS = "OTEL_PYTHON_SDK_INTERNAL_METRICS_ENABLED"

_lock = threading.Lock()


@contextlib.contextmanager
def sdk_environ(environ: Mapping[str, str], *, own_endpoint: bool) -> Iterator[None]:
    """`os.environ` has the OTEL_* variables of `environ` inside, and what it had before outside.

    With `own_endpoint` the variables' headers are left out: they may hold somebody else's token, and are meant
    for the endpoint that the configuration replaces.
    """
    with _lock:
        before = {name: value for name, value in os.environ.items() if name.startswith("OTEL_")}
        inside = {name: value for name, value in environ.items() if name.startswith("OTEL_")}
        for name in _OURS + (_HEADERS if own_endpoint else ()):
            inside.pop(name, None)
        inside.setdefault(_INTERNAL_METRICS, "true")
        _replace(before, inside)
        try:
            yield
        finally:
            _replace(inside, before)


def _replace(old: Mapping[str, str], new: Mapping[str, str]) -> None:
    for name in old.keys() - new.keys():
        os.environ.pop(name, None)
    os.environ.update(new)
