"""Problems are kept with their times, and one that comes again and again is one."""

import logging

import pytest

from sidecar.telemetry.quiet import Problems
from sidecar.testing import FakeClock


def test_problems_have_times() -> None:
    clock = FakeClock()
    problems = Problems(lambda: clock.unix_ns() / 1e9)
    problems.add("refused")
    clock.advance(61)
    problems.add("refused")
    problems.handle(logging.LogRecord("opentelemetry", logging.WARNING, "", 0, "queue is full", None, None))
    assert problems.recent == ["2023-11-14T22:14:21Z refused (2 times)", "2023-11-14T22:14:21Z queue is full"]
    assert problems.count == 3


def test_what_somebody_sent_moves_no_cursor_of_whoever_reads_of_it() -> None:
    problems = Problems(lambda: 0)
    problems.handle(logging.LogRecord("opentelemetry", logging.WARNING, "", 0, "state %s", ("a=\x1b[2J\nb",), None))
    assert problems.recent == ["1970-01-01T00:00:00Z state a=\\x1b[2J\\nb"]


def test_only_the_last_ones_are_kept() -> None:
    problems = Problems()
    for number in range(100):
        problems.add(f"problem {number}")
    assert len(problems.recent) == 20
    assert problems.recent[-1].endswith(" problem 99")
    assert problems.count == 100


def test_what_comes_again_and_again_pushes_out_nothing_else() -> None:
    problems = Problems(lambda: 0)
    problems.add("prometheus: not served")
    for number in range(100):
        for signal in ("traces", "logs"):
            problems.add(f"{signal}: refused")
            problems.add(f"{signal}: refused; next try in {number} s")
    assert len(problems.recent) == 20
    assert problems.recent[0] == "1970-01-01T00:00:00Z prometheus: not served"
    assert problems.recent[-2:] == [
        "1970-01-01T00:00:00Z logs: refused (100 times)",
        "1970-01-01T00:00:00Z logs: refused; next try in 99 s",
    ]


def test_each_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    problems = Problems()
    for _ in range(3):
        problems.add("traces: refused")
        problems.add("logs: refused")
    assert [record.getMessage() for record in caplog.records] == ["traces: refused", "logs: refused"]
