"""The OTEL_* variables as the SDK should see them, for as long as its parts are being made.

The SDK reads `os.environ` and nothing else. Ours may come from a configuration file (some agents strip OTEL_*
from their children), and some of the process's own must not be read as they are.
"""

import contextlib
import os
import threading
from collections.abc import Iterator, Mapping

# Not for the SDK: it takes a bad exemplar filter for fatal; outputs.py knows the good ones. Queues and limits are an
# agent's tuning of its own telemetry: a small queue would lose our spans, a limit the keys of our attributes, and a
# word in place of a number is fatal too.
_OURS = ("OTEL_METRICS_EXEMPLAR_FILTER",)
_OURS_PREFIXES = ("OTEL_BSP_", "OTEL_BLRP_")
_OURS_SUFFIXES = ("_COUNT_LIMIT", "_LENGTH_LIMIT")
_DEFAULTS = {
    "OTEL_PYTHON_SDK_INTERNAL_METRICS_ENABLED": "true",
    # A burst of a thousand commands must not push its own beginning out.
    "OTEL_BSP_MAX_QUEUE_SIZE": "16384",
    "OTEL_BLRP_MAX_QUEUE_SIZE": "16384",
}

_lock = threading.Lock()


@contextlib.contextmanager
def sdk_environ(environ: Mapping[str, str]) -> Iterator[None]:
    """`os.environ` has the OTEL_* variables of `environ` inside, and what it had before outside."""
    with _lock:
        before = {name: value for name, value in os.environ.items() if name.startswith("OTEL_")}
        inside = {**_DEFAULTS, **{name: value for name, value in environ.items() if _is_for_the_sdk(name)}}
        _replace(before, inside)
        try:
            yield
        finally:
            _replace(inside, before)


def _is_for_the_sdk(name: str) -> bool:
    return name.startswith("OTEL_") and not (
        name in _OURS or name.startswith(_OURS_PREFIXES) or name.endswith(_OURS_SUFFIXES)
    )


def _replace(old: Mapping[str, str], new: Mapping[str, str]) -> None:
    for name in old.keys() - new.keys():
        os.environ.pop(name, None)
    os.environ.update(new)
