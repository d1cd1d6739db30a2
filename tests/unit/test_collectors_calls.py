"""System calls decoded: two machines, 32-bit programs, sets and limits from memory, stale registers."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.calls import read_call
from collectors.kernel import Kernel
from sidecar.core.evidence import Call

HIGH, LOW = 0x7FFE_0000_1000, 0xFFF0_1000


class Memory(Kernel):
    """One thread's syscall file, and some of its process's memory."""

    def __init__(self, line: str, memory: dict[int, bytes] | None = None, machine: str = "x86_64") -> None:
        super().__init__("/nonexistent")
        self.machine = machine
        self._line = line
        self._memory = memory or {}

    def read(self, path: str) -> bytes | None:
        return self._line.encode()

    def memory(self, pid: int, address: int, size: int) -> bytes | None:
        return self._memory.get(address, b"")[:size]

    def clock_s(self, clock: int) -> float | None:
        return 1000.0


def call(
    number: int,
    *arguments: int,
    memory: dict[int, bytes] | None = None,
    machine: str = "x86_64",
    stack: int = HIGH,
    code: int = HIGH,
) -> Call:
    padded = [*arguments, *[0] * (6 - len(arguments))]
    line = " ".join([str(number), *(hex(value) for value in padded), hex(stack), hex(code)])
    found = read_call(Memory(line, memory, machine), 1, 1)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("number", "machine", "name"),
    [
        (0, "x86_64", "read"),
        (63, "aarch64", "read"),
        (61, "x86_64", "wait4"),
        (260, "aarch64", "wait4"),
        (999, "x86_64", "nr999"),
        (0, "riscv64", "nr0"),
    ],
)
def test_a_number_means_what_the_machine_says(number: int, machine: str, name: str) -> None:
    assert call(number, 3, machine=machine).name == name


def test_a_32_bit_program_has_other_numbers_and_narrow_times() -> None:
    assert call(3, 5, stack=LOW, code=0x0804_8000).name == "read"
    narrow = call(162, 0x1000, stack=LOW, code=0xF7F0_0000, memory={0x1000: struct.pack("=ii", 7, 500_000_000)})
    assert (narrow.name, narrow.asked_s) == ("nanosleep", 7.5)
    wide = call(407, 1, 0, 0x1000, stack=LOW, code=0xF7F0_0000, memory={0x1000: struct.pack("=qq", 9, 0)})
    assert (wide.name, wide.asked_s) == ("clock_nanosleep", 9.0)


def test_a_static_64_bit_program_is_not_taken_for_a_32_bit_one() -> None:
    assert call(0, 0, code=0x40_1000).name == "read"


def test_poll_reads_its_set_and_its_limit() -> None:
    entries = struct.pack("=ihh", 5, 1, 0) + struct.pack("=ihh", 6, 4, 0) + struct.pack("=ihh", -1, 1, 0)
    polled = call(7, 0x2000, 3, 2500, memory={0x2000: entries})
    assert (polled.name, polled.polled, polled.is_timed, polled.asked_s) == ("poll", ((5, "r"), (6, "w")), True, 2.5)
    assert call(7, 0x2000, 3, 0xFFFF_FFFF, memory={0x2000: entries}).is_timed is False
    assert call(7, 0x2000, 3, 2500).polled is None


def test_select_reads_both_sets() -> None:
    memory = {0x3000: (1 << 4 | 1 << 9).to_bytes(2, "little"), 0x3100: (1 << 3).to_bytes(2, "little")}
    selected = call(23, 10, 0x3000, 0x3100, 0, 0, memory=memory)
    assert (selected.polled, selected.is_timed) == (((4, "r"), (9, "r"), (3, "w")), False)


def test_a_sleep_until_a_set_time_tells_what_is_left() -> None:
    until = call(230, 1, 1, 0, memory={})
    assert until.left_s is None
    until = call(230, 1, 1, 0x1000, memory={0x1000: struct.pack("=qq", 1030, 0)})
    assert (until.asked_s, until.left_s) == (None, 30.0)


def test_what_cannot_be_a_time_is_not_taken_for_one() -> None:
    assert call(230, 1, 0, 0x1000, memory={0x1000: struct.pack("=qq", 1 << 40, 0)}).asked_s is None
    assert call(230, 1, 0, 0x1000, memory={0x1000: struct.pack("=qq", 5, 2_000_000_000)}).asked_s is None


def test_a_mutex_tells_its_owner_and_a_join_its_thread() -> None:
    wait, private = 0, 128
    mutex = call(202, 0x5000, wait | private, 2, 0, memory={0x5008: struct.pack("=i", 77)})
    assert mutex.futex is not None
    assert (mutex.futex.owner, mutex.futex.is_private, mutex.is_timed) == (77, True, False)
    other = call(202, 0x5000, wait | private, 0, 0, memory={0x5008: struct.pack("=i", 77)})
    assert other.futex is not None
    assert other.futex.owner is None  # a word that no mutex waits on
    joining = call(202, 0x5000, wait, 4711, 0)
    assert joining.futex is not None
    assert joining.futex.joins == 4711


def test_futex_bitset_limits_are_absolute() -> None:
    timed = call(202, 0x5000, 9 | 128, 0, 0x6000, memory={0x6000: struct.pack("=qq", 1002, 500_000_000)})
    assert (timed.is_timed, timed.left_s) == (True, 2.5)


def test_a_resumed_sleep_says_so() -> None:
    resumed = call(219, 1, 0, 0x9000, 0x9010)
    assert (resumed.name, resumed.was_resumed, resumed.asked_s) == ("clock_nanosleep", True, None)


@pytest.mark.parametrize("line", ["", "running\n", "-1 0x7ffe 0x7f3e\n", "garbage", "0 0x1", "12 x y z", "5"])
def test_short_and_strange_lines_are_no_calls(line: str) -> None:
    found = read_call(Memory(line), 1, 1)
    assert found is None or found.name in ("running", "page_fault")


@given(st.integers(-5, 500), st.lists(st.integers(0, 2**64 - 1), min_size=6, max_size=6), st.binary(max_size=64))
def test_no_arguments_raise(number: int, arguments: list[int], memory: bytes) -> None:
    class Anywhere(Memory):
        def memory(self, pid: int, address: int, size: int) -> bytes | None:
            return memory[:size]

    for machine, stack in (("x86_64", HIGH), ("x86_64", 4096), ("aarch64", HIGH)):
        line = " ".join([str(number), *map(hex, arguments), hex(stack), hex(stack)])
        read_call(Anywhere(line, machine=machine), 1, 1)
