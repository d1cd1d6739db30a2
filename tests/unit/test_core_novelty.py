"""Spinners, clocks and real progress told apart, from bytes alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.core.novelty import KINDS, NEW, PROGRESS, SILENT, SPINNER, TICKER, classify
from sidecar.core.output_window import OutputWindow

SECOND = 1_000_000_000


def every(step_s: float, *chunks: bytes) -> list[tuple[int, bytes]]:
    return [(int(index * step_s * SECOND), chunk) for index, chunk in enumerate(chunks)]


def at(*times_s: float, chunk: bytes) -> list[tuple[int, bytes]]:
    return [(int(time_s * SECOND), chunk % int(time_s) if b"%" in chunk else chunk) for time_s in times_s]


IRREGULAR_S = (0, 0.1, 0.2, 1.4, 1.6, 3, 3.1, 5.5, 6, 7.9, 8, 8.1, 10)


@pytest.mark.parametrize(
    ("chunks", "kind"),
    [
        ([], SILENT),
        (every(0.2, *[b"\r" + b"-\\|/"[n % 4 : n % 4 + 1] for n in range(30)]), SPINNER),
        (every(0.1, *[b"\x1b[2K\x1b[1G\xe2\xa0" + bytes([0x8B + n % 8]) + b" installing" for n in range(40)]), SPINNER),
        (every(0.1, *[b"\x08" + b"-\\|/"[n % 4 : n % 4 + 1] for n in range(30)]), SPINNER),
        (every(0.5, *[b"."] * 20), SPINNER),
        (every(1, *[b"\rWaiting for the lock... %d s" % n for n in range(12)]), TICKER),
        (every(0.5, *[b"\r[%.1fs elapsed]" % (n / 2) for n in range(20)]), TICKER),
        (every(1, *[b"\r%d%%" % (n * 3) for n in range(12)]), PROGRESS),
        (every(1, *[b"\r%d of 900, %d s" % (n * 40, n) for n in range(12)]), PROGRESS),
        (at(*IRREGULAR_S, chunk=b"."), NEW),
        (at(*IRREGULAR_S, chunk=b"[12:00:%02d] GET / 200\n"), NEW),
        (at(*IRREGULAR_S, chunk=b"\rup %d s"), TICKER),
        (every(0.2, *[b"[12:00:%02d] no connection\n" % (n // 5) for n in range(60)]), TICKER),
        (every(0.5, *[b"\r[%d]" % (n // 2) + b"#" * (n // 4) for n in range(24)]), NEW),
        (every(1, *[b"\r%d%%" % n for n in range(12)]), PROGRESS),
        (every(0.5, *[b"\r%d%%" % (n // 2) for n in range(24)]), PROGRESS),
        (every(1, *[b"\rtest %d/900" % n for n in range(12)]), PROGRESS),
        (every(1, *[b"\rworker %d is done\n" % n for n in (3, 1, 2, 5, 1, 3, 5, 2, 1, 4, 3)]), PROGRESS),
        (every(1, *[b"packet %d\n" % n for n in (0, 1, 5, 6, 6, 6, 6, 7, 8, 9)]), PROGRESS),
        (every(0.1, *[b"\r%s\x1b[36m waiting\x1b[39m" % bytes([65 + n % 30]) for n in range(90)]), SPINNER),
        (every(1, *[b"\rup 1m %02ds" % n for n in range(54, 60)], *[b"\rup 2m %02ds" % n for n in range(9)]), TICKER),
        (every(1, *[b"\r%d s left" % n for n in range(99, 80, -1)]), TICKER),
        (every(1, *[b"\r%d s" % n for n in range(12)], b"\nconnected\n"), NEW),
        (every(1, b"compiling a.c\n", b"compiling b.c\n", b"linking\n", b"done\n"), NEW),
        (every(1, *[b"test_%s ... ok\n" % name for name in (b"alpha", b"beta", b"gamma", b"delta", b"eps")]), NEW),
        (every(1, b"\rone frame"), NEW),
    ],
)
def test_kinds(chunks: list[tuple[int, bytes]], kind: str) -> None:
    assert classify(chunks) == kind


def test_a_window_forgets_and_is_bounded() -> None:
    window = OutputWindow()
    for n in range(1000):
        window.record(b"x" * 100_000, n)
    assert sum(len(chunk) for _, chunk in window.since(0)) <= 256 * 512
    assert classify(window.since(1001)) == SILENT


def test_a_window_joins_what_comes_at_once_and_tells_what_it_left_out() -> None:
    window = OutputWindow(slot_ns=10)
    for n in range(4):
        window.record(b"x" * 200, n)
    window.record(b"y", 10)
    assert [(at_ns, len(chunk)) for at_ns, chunk in window.since(0)] == [(0, 400), (10, 1)]
    assert (window.take_bytes(), window.take_bytes()) == (401, 0), "of 801"


@given(st.lists(st.tuples(st.integers(0, 10**12), st.binary(max_size=80)), max_size=60))
def test_any_bytes_have_a_kind(chunks: list[tuple[int, bytes]]) -> None:
    assert classify(sorted(chunks)) in KINDS


def test_long_hostile_bytes_take_linear_time() -> None:
    for unit in (b"\x1b[", b"\x1b]", b"\x1b", b"1.", b"\x08", b"\r", b"9"):
        classify([(n, unit * 256) for n in range(256)])
