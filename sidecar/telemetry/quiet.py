"""Nothing the SDK has to say reaches the command's stderr; it is kept for `status` instead.

Python's logging prints a warning of a logger without handlers to stderr ("last resort"), and gRPC's C core
prints there by itself. stderr is the command's.
"""

import logging
import os
import threading
from collections import deque

_KEPT = 20


class Problems(logging.Handler):
    """The last few things that went wrong, oldest first. Also a logging handler, for what the SDK logs."""

    def __init__(self) -> None:
        super().__init__(level=logging.WARNING)
        self._recent: deque[str] = deque(maxlen=_KEPT)
        self._guard = threading.Lock()
        self.count = 0

    def add(self, problem: str) -> None:
        with self._guard:
            self.count += 1
            # The same failure again and again would push out everything else.
            if not self._recent or self._recent[-1] != problem:
                self._recent.append(problem)

    def emit(self, record: logging.LogRecord) -> None:
        self.add(record.getMessage())

    @property
    def recent(self) -> list[str]:
        with self._guard:
            return list(self._recent)


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
