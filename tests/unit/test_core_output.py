"""Counts of output: bytes, lines and silences, however the chunks fall."""

from hypothesis import given
from hypothesis import strategies as st

from sidecar.core.output import OutputStats

CHUNKS = st.lists(st.lists(st.sampled_from(b"ab\n\r\x00"), min_size=1, max_size=6).map(bytes), max_size=20)


def lines_of(data: bytes) -> int:
    return data.count(b"\n") + (bool(data) and not data.endswith(b"\n"))


def test_before_the_first_byte_there_is_nothing() -> None:
    stats = OutputStats(100)
    assert (stats.total_bytes, stats.total_lines, stats.last_output_ns) == (0, 0, None)
    assert stats.silent_since_ns == 100
    assert stats.longest_silence_ns(150) == 50


def test_a_prompt_without_a_newline_is_a_line() -> None:
    stats = OutputStats(0)
    stats.record(b"Password: ", 1)
    assert stats.total_lines == 1
    stats.record(b"\n", 2)
    assert stats.total_lines == 1


def test_an_open_line_on_each_of_two_streams_is_two_lines() -> None:
    stats = OutputStats(0)
    stats.record(b"out", 1, stream=1)
    stats.record(b"err", 2, stream=2)
    assert stats.total_lines == 2
    stats.record(b"\n", 3, stream=2)
    assert stats.total_lines == 2


@given(out=CHUNKS, err=CHUNKS, order=st.randoms(use_true_random=False))
def test_counts_do_not_depend_on_how_the_chunks_fall(out: list[bytes], err: list[bytes], order) -> None:
    stats = OutputStats(0)
    queues = {1: list(out), 2: list(err)}
    while any(queues.values()):
        stream = order.choice([number for number, queue in queues.items() if queue])
        stats.record(queues[stream].pop(0), 1, stream)
    whole_out, whole_err = b"".join(out), b"".join(err)
    assert stats.total_bytes == len(whole_out) + len(whole_err)
    assert stats.total_lines == lines_of(whole_out) + lines_of(whole_err)


@given(steps=st.lists(st.integers(0, 50), max_size=20), tail=st.integers(0, 50))
def test_the_longest_silence_is_the_widest_gap_the_current_one_included(steps: list[int], tail: int) -> None:
    stats = OutputStats(7)
    now = 7
    for step in steps:
        now += step
        stats.record(b"x", now)
    assert stats.longest_silence_ns(now + tail) == max([*steps, tail])
    assert stats.silent_since_ns == now
    assert stats.last_output_ns == (now if steps else None)


def test_output_that_waited_for_its_reader_was_no_silence() -> None:
    stats = OutputStats(0)
    stats.record(b"x", 10)
    stats.record_taken(500)
    stats.record(b"x", 503)
    assert stats.longest_silence_ns(503) == 10
    assert stats.total_bytes == 2
