"""Spinners, clocks and real progress told apart, from bytes alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.core.novelty import KINDS, NEW, PROGRESS, SILENT, SPINNER, TICKER, OutputWindow, classify

SECOND = 1_000_000_000


def every(step_s: float, *chunks: bytes) -> list[tuple[int, bytes]]:
    return [(int(index * step_s * SECOND), chunk) for index, chunk in enumerate(chunks)]


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
    assert sum(len(chunk) for _, chunk in window._chunks) <= 256 * 512
    assert window.kind(since_ns=1001) == SILENT


@given(st.lists(st.tuples(st.integers(0, 10**12), st.binary(max_size=80)), max_size=60))
def test_any_bytes_have_a_kind(chunks: list[tuple[int, bytes]]) -> None:
    assert classify(sorted(chunks)) in KINDS


def test_long_hostile_bytes_take_linear_time() -> None:
    for unit in (b"\x1b[", b"\x1b]", b"\x1b", b"1.", b"\x08", b"\r", b"9"):
        classify([(n, unit * 256) for n in range(256)])
