"""Nothing the SDK has to say reaches the command's stderr; it is kept for `status` instead.

Python's logging prints a warning of a logger without handlers to stderr ("last resort"), and gRPC's C core
prints there by itself. stderr is the command's.
"""

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from sidecar.core.values import printable

_KEPT = 20


@dataclass(slots=True)
class _Problem:
    text: str
    last_unix_s: float
    times: int = 1

    def __str__(self) -> str:
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.last_unix_s))
        return f"{at} {self.text}" + (f" ({self.times} times)" if self.times > 1 else "")


class Problems(logging.Handler):
    """The last few things that went wrong, oldest first. Also a logging handler, for what the SDK logs."""

    def __init__(self, unix_s: Callable[[], float] = time.time) -> None:
        super().__init__(level=logging.WARNING)
        self._unix_s = unix_s
        self._recent: deque[_Problem] = deque(maxlen=_KEPT)
        self._guard = threading.Lock()
        self.count = 0

    def add(self, problem: str) -> None:
        problem = printable(problem)  # it may quote what anybody sent, and goes to a terminal
        with self._guard:
            self.count += 1
            # The same failure again and again would push out everything else.
            if self._recent and self._recent[-1].text == problem:
                self._recent[-1].times += 1
                self._recent[-1].last_unix_s = self._unix_s()
            else:
                self._recent.append(_Problem(problem, self._unix_s()))

    def emit(self, record: logging.LogRecord) -> None:
        self.add(record.getMessage())

    @property
    def recent(self) -> list[str]:
        """`2026-12-02T10:06:07Z what went wrong (3 times)`: the time is that of the last of them, in UTC."""
        with self._guard:
            return list(map(str, self._recent))


def collect(problems: Problems) -> None:
    """What the SDK's loggers say goes to `problems` from now on."""
    _logger.addHandler(problems)
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")


def stop_collecting(problems: Problems) -> None:
    """The loggers stay silent, since the SDK's threads may outlive a bounded shutdown."""
    _logger.removeHandler(problems)


# At import, since the SDK logs while it is imported (OTEL_PYTHON_CONTEXT): this module must come before it.
_logger = logging.getLogger("opentelemetry")
_logger.propagate = False
_logger.addHandler(logging.NullHandler())
