"""Nothing the SDK has to say reaches the command's stderr; it is kept for `status` instead.

Python's logging prints a warning of a logger without handlers to stderr ("last resort"), and gRPC's C core
prints there by itself. stderr is the command's.
"""

import logging
import os
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from sidecar.core.values import printable

_KEPT = 20


@dataclass(slots=True)
class _Problem:
    text: str
    last_unix_s: float
    times: int

    def __str__(self) -> str:
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.last_unix_s))
        return f"{at} {self.text}" + (f" ({self.times} times)" if self.times > 1 else "")


class Problems(logging.Handler):
    """The last few things that went wrong, oldest first. Also a logging handler, for what the SDK logs.

    What goes wrong again and again pushes out nothing else: it is one entry, and where room is needed the oldest goes
    that is not the last of its kind. The kind is what stands before the first colon: `traces`, `prometheus`. Each new
    entry is logged as well, where the process has a log (the daemon has).
    """

    def __init__(self, unix_s: Callable[[], float] = time.time) -> None:
        super().__init__(level=logging.WARNING)
        self._unix_s = unix_s
        self._recent: dict[str, _Problem] = {}
        self._guard = threading.Lock()
        self.count = 0

    def add(self, problem: str) -> None:
        problem = printable(problem)  # it may quote what anybody sent, and goes to a terminal
        with self._guard:
            self.count += 1
            known = self._recent.pop(problem, None)
            times = known.times + 1 if known is not None else 1
            self._recent[problem] = _Problem(problem, self._unix_s(), times)
            if len(self._recent) > _KEPT:
                del self._recent[self._least_missed()]
        if known is None:
            _log.warning("%s", problem)

    def emit(self, record: logging.LogRecord) -> None:
        self.add(record.getMessage())

    @property
    def recent(self) -> list[str]:
        """`2026-12-02T10:06:07Z what went wrong (3 times)`: the time is that of the last of them, in UTC."""
        with self._guard:
            return list(map(str, self._recent.values()))

    def _least_missed(self) -> str:
        kinds = Counter(map(_kind, self._recent))
        return next((text for text in self._recent if kinds[_kind(text)] > 1), next(iter(self._recent)))


def _kind(text: str) -> str:
    return text.partition(":")[0]


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
# Goes on to the daemon's log; in a process that has none, to nobody.
_log = logging.getLogger(__name__)
_log.addHandler(logging.NullHandler())
