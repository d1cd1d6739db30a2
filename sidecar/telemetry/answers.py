"""What a Collector's answer to an OTLP request means for the request.

Source: https://opentelemetry.io/docs/specs/otlp/, Failures, for either protocol: what may be retried, what must not
be, and what the Collector says of a part it refuses.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime
from enum import Enum
from typing import TYPE_CHECKING, Any

from google.protobuf.message import DecodeError  # type: ignore[import-untyped]  # ships no types
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

if TYPE_CHECKING:
    from sidecar.telemetry.targets import Signal

_RETRYABLE_STATUSES = frozenset((429, 502, 503, 504))
# Beside the specification's: where an answer is no refusal but a way round, a captive portal's for example.
_RETRYABLE_REDIRECTS = range(300, 400)

_RESPONSES: dict[str, tuple[Any, str]] = {
    "traces": (ExportTraceServiceResponse, "rejected_spans"),
    "metrics": (ExportMetricsServiceResponse, "rejected_data_points"),
    "logs": (ExportLogsServiceResponse, "rejected_log_records"),
}


class Outcome(Enum):
    """TAKEN: it is delivered. LATER: try again. NEVER: it will not be taken, however often it is sent."""

    TAKEN = "taken"
    LATER = "later"
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class Answer:
    """`reason` is for people, and empty where all is well; `error_type` for the SDK's own metrics.

    `retry_after_s` is what the Collector asked for. `refused_records` is how much of what was TAKEN it refused.
    """

    outcome: Outcome
    reason: str = ""
    error_type: str = ""
    retry_after_s: float | None = None
    refused_records: int = 0


def of_http(signal: Signal, status: int, retry_after: str | None, body: bytes) -> Answer:
    """The meaning of an HTTP response. `retry_after` is the header of that name, or None."""
    if 200 <= status < 300:
        return of_response(signal, body)
    outcome = Outcome.LATER if status in _RETRYABLE_STATUSES or status in _RETRYABLE_REDIRECTS else Outcome.NEVER
    return Answer(outcome, f"HTTP status {status}", str(status), seconds_of(retry_after, time.time()))


def of_response(signal: Signal, body: bytes) -> Answer:
    """A message of success, which may refuse a part (partial success); that part must not be sent again."""
    kind, rejected = _RESPONSES[signal]
    try:
        partial = kind.FromString(body).partial_success
    except DecodeError:
        # The status says that it was taken; what else it says is beyond us.
        return Answer(Outcome.TAKEN)
    refused = max(0, getattr(partial, rejected))
    if not refused and not partial.error_message:
        return Answer(Outcome.TAKEN)
    reason = f"{refused} refused" if refused else "taken, with a warning"
    return Answer(Outcome.TAKEN, f"{reason}: {partial.error_message[:200]}", refused_records=refused)


def seconds_of(retry_after: str | None, now_unix_s: float) -> float | None:
    """Retry-After (RFC 9110, 10.2.3), seconds or a date; None where there is none that can be read."""
    if retry_after is None:
        return None
    try:
        seconds = float(retry_after)
    except ValueError:
        try:
            date = parsedate_to_datetime(retry_after)
            # `-0000` is UTC without a zone (RFC 5322, 3.3); Python gives no zone for it.
            seconds = (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp() - now_unix_s
        except (TypeError, ValueError, OverflowError):
            return None
    return max(0.0, seconds) if math.isfinite(seconds) else None
