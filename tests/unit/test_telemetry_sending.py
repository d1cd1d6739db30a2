"""What an answer means, how long to wait, and what the sender does with either. No network."""

import time

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse

from sidecar.telemetry.answers import Answer, Outcome, of_http, of_response, seconds_of
from sidecar.telemetry.backoff import LONGEST_ASKED_S, LONGEST_S, Backoff
from sidecar.telemetry.sender import Sender
from sidecar.telemetry.spool import Spool, SpoolLimits
from sidecar.telemetry.targets import Target

TARGET = Target("http/protobuf", "http://c:4318/v1/traces", 10.0, False)
TAKEN, NEVER = Answer(Outcome.TAKEN), Answer(Outcome.NEVER, "HTTP status 400")
LATER = Answer(Outcome.LATER, "HTTP status 503")


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        *((status, Outcome.TAKEN) for status in (200, 202, 204)),
        *((status, Outcome.LATER) for status in (301, 302, 307, 429, 502, 503, 504)),
        *((status, Outcome.NEVER) for status in (400, 401, 403, 404, 405, 413, 415, 500, 501)),
    ],
)
def test_statuses(status: int, outcome: Outcome) -> None:
    assert of_http("traces", status, None, b"").outcome is outcome


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (None, None),
        ("7", 7.0),
        ("0", 0.0),
        ("-3", 0.0),
        ("soon", None),
        ("inf", None),
        ("nan", None),
        ("", None),
        ("Wed, 21 Oct 2015 07:28:30 GMT", 30.0),
        ("Wed, 21 Oct 2015 07:27:00 GMT", 0.0),
        ("Wed, 21 Oct 2015 07:28:30 -0000", 30.0),
    ],
)
def test_retry_after(header: str | None, seconds: float | None) -> None:
    assert seconds_of(header, 1445412480.0) == seconds


def test_partial_success() -> None:
    response = ExportLogsServiceResponse()
    response.partial_success.rejected_log_records = 3
    response.partial_success.error_message = "too old"
    answer = of_response("logs", response.SerializeToString())
    assert (answer.outcome, answer.refused_records, answer.reason) == (Outcome.TAKEN, 3, "3 refused: too old")
    # The status says that it was taken; a page of HTML changes nothing in that.
    assert of_response("logs", b"<html>") == TAKEN


def test_waits_grow_to_a_bound_with_jitter() -> None:
    shortest, longest = Backoff(lambda low, high: low), Backoff(lambda low, high: high)
    assert [shortest.failed() for _ in range(8)] == [0.5, 1, 2, 4, 8, 16, 30, 30]
    assert [longest.failed() for _ in range(8)] == [1, 2, 4, 8, 16, 32, LONGEST_S, LONGEST_S]
    longest.succeeded()
    assert longest.failed() == 1


def test_what_is_asked_for_is_the_least_up_to_a_cap() -> None:
    backoff = Backoff(lambda low, high: low)
    assert backoff.failed(30.0) == 30.0
    assert backoff.failed(0.0) == 1.0
    assert backoff.failed(86_400.0 * 365) == LONGEST_ASKED_S


class Collector:
    """Answers as it is told to, the last answer again and again; takes note of what came."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.came: list[bytes] = []

    def send(self, body: bytes, timeout_s: float) -> Answer:
        self.came.append(body)
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


class Picky(Collector):
    """Refuses whatever has an x in it."""

    def send(self, body: bytes, timeout_s: float) -> Answer:
        self.came.append(body)
        return NEVER if b"x" in body else TAKEN


def _sender(collector: Collector, *bodies: bytes) -> tuple[Sender, Spool, list[str]]:
    said: list[str] = []
    spool = Spool(SpoolLimits(), said.append)
    backoff = Backoff(lambda low, high: 0.01)
    sender = Sender("traces", TARGET, collector, spool, said.append, lambda *_: None, backoff=backoff)
    for body in bodies:
        sender.add(body, 1)
    return sender, spool, said


def _waiting(spool: Spool) -> int:
    return sum(total.records for total in spool.totals())


def test_what_waits_is_joined_into_one_message() -> None:
    collector = Collector(TAKEN)
    sender, spool, said = _sender(collector, b"a", b"b", b"c")
    sender.drain(time.monotonic() + 60)
    assert collector.came == [b"abc"]
    assert (_waiting(spool), said) == (0, [])


def test_what_is_refused_does_not_take_its_neighbours_along() -> None:
    collector = Picky(TAKEN)
    sender, spool, said = _sender(collector, b"a", b"x", b"c")
    sender.drain(time.monotonic() + 60)
    assert collector.came == [b"axc", b"a", b"x", b"c"]
    assert _waiting(spool) == 0
    assert spool.dropped() == {"traces": 1}
    assert "1 dropped" in said[0]


def test_what_is_too_large_for_something_on_the_way_goes_in_smaller_parts() -> None:
    class Narrow(Collector):
        def send(self, body: bytes, timeout_s: float) -> Answer:
            self.came.append(body)
            return TAKEN if len(body) <= 300_000 else LATER

    collector = Narrow(TAKEN)
    bodies = [bytes([number]) * 120_000 for number in range(6)]
    sender, spool, _ = _sender(collector, *bodies)
    sender.start()
    deadline_s = time.monotonic() + 60
    while _waiting(spool) and time.monotonic() < deadline_s:
        time.sleep(0.01)
    assert b"".join(body for body in collector.came if len(body) <= 300_000) == b"".join(bodies)
    sender.begin_end(time.monotonic() + 60)
    assert sender.end()


def test_at_the_end_one_failure_is_enough() -> None:
    collector = Collector(LATER)
    sender, spool, _ = _sender(collector, b"a", b"b")
    sender.drain(time.monotonic() + 60)
    assert collector.came == [b"ab"]
    assert _waiting(spool) == 2
    assert "HTTP status 503" in sender.last_problem


def test_the_thread_tries_until_it_is_taken_and_then_ends() -> None:
    collector = Collector(LATER, LATER, LATER, TAKEN)
    sender, spool, said = _sender(collector, b"a")
    sender.start()
    deadline_s = time.monotonic() + 60
    while _waiting(spool) and time.monotonic() < deadline_s:
        time.sleep(0.01)
    assert collector.came == [b"a"] * 4
    assert len(said) == 3
    sender.add(b"b", 1)
    sender.begin_end(time.monotonic() + 60)
    assert sender.end()
    assert collector.came[4:] == [b"b"]
    assert _waiting(spool) == 0


def test_a_fault_of_ours_is_told_and_does_not_end_the_thread() -> None:
    class Broken(Collector):
        def send(self, body: bytes, timeout_s: float) -> Answer:
            self.came.append(body)
            if len(self.came) == 1:
                raise ZeroDivisionError("ours")
            return TAKEN

    collector = Broken(TAKEN)
    sender, spool, said = _sender(collector, b"a")
    sender.start()
    deadline_s = time.monotonic() + 60
    while _waiting(spool) and time.monotonic() < deadline_s:
        time.sleep(0.01)
    assert collector.came == [b"a"] * 2
    assert "ours" in said[0]
    sender.begin_end(time.monotonic() + 60)
    assert sender.end()
