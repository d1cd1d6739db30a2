"""Which streams are relayed and how: the plan, made in a forked process whose descriptors are set up for it."""

import marshal
import os
import socket
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from sidecar.supervisor import libc
from sidecar.supervisor.streams import connect, is_open, plan_streams, plug_standard_descriptors

Plan = tuple[bool, list[tuple[int, ...]], tuple[int, ...]]
NOTHING_RELAYED: Plan = (False, [], ())


def in_child(set_up: Callable[[], None], look: Callable[[], object]) -> object:
    """What `look` gives in a child whose descriptors `set_up` arranged. Nothing of ours is left open in between."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            out = os.dup2(writer, 100)
            set_up()
            answer = marshal.dumps(look())
            os.write(out, answer)
        finally:
            os._exit(0)
    os.close(writer)
    data = b""
    while chunk := os.read(reader, 65536):
        data += chunk
    os.close(reader)
    os.waitpid(pid, 0)
    assert data, "the child failed"
    return marshal.loads(data)


def files(set_up: Callable[[], None], wanted_pty: bool | None = None) -> list[tuple[int, int, int]]:
    """(descriptor, position, size) of the files that the command gets as they are."""
    return in_child(set_up, lambda: plan_streams(wanted_pty).files)  # type: ignore[return-value]


def plan(set_up: Callable[[], None], wanted_pty: bool | None = None) -> Plan:
    def look() -> object:
        made = plan_streams(wanted_pty)
        return made.pty, made.relayed, made.on_terminal

    return in_child(set_up, look)  # type: ignore[return-value]


def put(source: int, *numbers: int) -> None:
    for number in numbers:
        os.dup2(source, number)


def a_pipe() -> int:
    return os.pipe()[1]


def a_terminal() -> int:
    return os.openpty()[1]


def null_stdin() -> None:
    put(os.open(os.devnull, os.O_RDONLY), 0)


def test_one_pipe_on_both_is_relayed_through_one() -> None:
    def set_up() -> None:
        null_stdin()
        put(a_pipe(), 1, 2)

    assert plan(set_up) == (False, [(1, 2)], ())


def test_two_pipes_are_relayed_through_one_each() -> None:
    def set_up() -> None:
        null_stdin()
        put(a_pipe(), 1)
        put(a_pipe(), 2)

    assert plan(set_up) == (False, [(1,), (2,)], ())


@pytest.mark.parametrize("append", [0, os.O_APPEND])
def test_one_open_file_on_both_is_joined(append: int, tmp_path: Path) -> None:
    def set_up() -> None:
        null_stdin()
        put(os.open(tmp_path / "log", os.O_WRONLY | os.O_CREAT | append), 1, 2)
        os.write(1, b"before")

    assert plan(set_up) == NOTHING_RELAYED
    assert [file[0] for file in files(set_up)] == [1], "one open file is looked at once"


def test_two_opens_of_one_file_are_not_joined(tmp_path: Path) -> None:
    def set_up() -> None:
        null_stdin()
        put(os.open(tmp_path / "log", os.O_WRONLY | os.O_CREAT), 1)
        put(os.open(tmp_path / "log", os.O_WRONLY), 2)
        os.write(1, b"their offsets differ, so that a machine without kcmp(2) sees it too")

    assert plan(set_up) == NOTHING_RELAYED
    assert files(set_up) == [(1, 67, 67), (2, 0, 67)]


@pytest.mark.skipif(libc.same_open_file(0, 0) is None, reason="no kcmp(2) here: offsets alone cannot tell these apart")
def test_two_opens_of_one_file_at_one_offset_are_not_joined(tmp_path: Path) -> None:
    def set_up() -> None:
        null_stdin()
        put(os.open(tmp_path / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND), 1)
        put(os.open(tmp_path / "log", os.O_WRONLY | os.O_APPEND), 2)

    assert files(set_up) == [(1, 0, 0), (2, 0, 0)]


def test_without_kcmp_the_offsets_of_a_file_decide_and_one_pipe_is_joined(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(libc, "same_open_file", lambda _a, _b: None)

    def two_offsets() -> None:
        put(os.open(tmp_path / "log", os.O_WRONLY | os.O_CREAT), 1)
        put(os.open(tmp_path / "log", os.O_WRONLY), 2)
        os.write(1, b"further")

    def one_pipe() -> None:
        put(a_pipe(), 1, 2)

    assert [file[0] for file in files(two_offsets)] == [1, 2]
    assert plan(one_pipe) == (False, [(1, 2)], ())


@pytest.mark.parametrize("closed", [1, 2])
@pytest.mark.parametrize("wanted_pty", [None, False])
def test_a_closed_stream_stays_closed(closed: int, wanted_pty: bool | None) -> None:
    def set_up() -> None:
        null_stdin()
        put(a_pipe(), 1)
        put(a_pipe(), 2)
        os.close(closed)

    assert plan(set_up, wanted_pty) == (False, [(3 - closed,)], ())


def test_with_everything_closed_there_is_nothing_to_relay() -> None:
    def set_up() -> None:
        for descriptor in range(3):
            os.close(descriptor)

    assert plan(set_up) == (False, [], ())


def test_a_terminal_on_2_only_is_left_alone() -> None:
    def set_up() -> None:
        null_stdin()
        put(a_pipe(), 1)
        put(a_terminal(), 2)

    assert plan(set_up) == (False, [(1,)], ())
    assert plan(set_up, False) == (False, [(1,), (2,)], ()), "but relayed where no terminal is wanted"


def test_one_terminal_on_all_three_becomes_the_commands_terminal() -> None:
    def set_up() -> None:
        put(a_terminal(), 0, 1, 2)

    assert plan(set_up) == (True, [], (0, 1, 2))
    assert plan(set_up, False) == (False, [(1, 2)], ())


def test_a_terminal_on_1_leaves_stdin_and_a_redirected_stderr_out_of_it(tmp_path: Path) -> None:
    def set_up() -> None:
        null_stdin()
        put(a_terminal(), 1)
        put(os.open(tmp_path / "errors", os.O_WRONLY | os.O_CREAT), 2)

    assert plan(set_up) == (True, [], (1,))
    assert files(set_up) == [(2, 0, 0)]


def a_device() -> int:
    return os.open(os.devnull, os.O_WRONLY)


def a_message_socket() -> int:
    return socket.socketpair(type=socket.SOCK_SEQPACKET)[1].detach()


@pytest.mark.parametrize("given", [a_device, a_message_socket])
def test_a_device_or_a_socket_of_messages_is_the_commands_own(given: Callable[[], int]) -> None:
    def set_up() -> None:
        null_stdin()
        put(given(), 1)
        put(a_pipe(), 2)

    assert plan(set_up) == (False, [(2,)], ())
    assert files(set_up) == []


def test_a_stream_socket_is_relayed_through_a_socket_and_a_pipe_through_a_pipe() -> None:
    def set_up() -> None:
        null_stdin()
        put(socket.socketpair()[1].detach(), 1)
        put(a_pipe(), 2)

    def look() -> object:
        _, descriptors, _ = connect(plan_streams(False), None, None)
        return [stat.S_ISSOCK(os.fstat(descriptors[1]).st_mode), stat.S_ISFIFO(os.fstat(descriptors[2]).st_mode)]

    assert in_child(set_up, look) == [True, True]


@pytest.mark.skipif(libc.same_open_file(0, 0) is None, reason="no kcmp(2) here: nobody can tell")
def test_a_further_descriptor_on_the_same_pipe_goes_the_same_way_if_it_is_inherited() -> None:
    def set_up() -> None:
        null_stdin()
        put(a_pipe(), 1, 4, 5)
        put(a_pipe(), 2)
        os.set_inheritable(5, False)

    assert plan(set_up) == (False, [(1, 4), (2,)], ())


def test_a_stream_that_does_not_block_does_not_block_for_the_command_either() -> None:
    def set_up() -> None:
        null_stdin()
        put(a_pipe(), 1)
        put(a_pipe(), 2)
        os.set_blocking(1, False)

    def look() -> object:
        _, descriptors, _ = connect(plan_streams(False), None, None)
        return [os.get_blocking(descriptors[number]) for number in (1, 2)]

    assert in_child(set_up, look) == [False, True]


def test_a_terminal_on_1_with_2_closed() -> None:
    def set_up() -> None:
        null_stdin()
        put(a_terminal(), 1)
        os.close(2)

    assert plan(set_up) == (True, [], (1,))


def test_a_forced_terminal_takes_both_where_they_were_joined_else_stdout_alone() -> None:
    def joined() -> None:
        null_stdin()
        put(a_pipe(), 1, 2)

    def apart() -> None:
        null_stdin()
        put(a_pipe(), 1)
        put(a_pipe(), 2)

    assert plan(joined, True) == (True, [], (1, 2))
    assert plan(apart, True) == (True, [(2,)], (1,))


def test_plugs_fill_the_closed_ones_and_are_not_inherited() -> None:
    def set_up() -> None:
        put(a_pipe(), 1)
        os.close(0)
        os.close(2)

    def look() -> object:
        pipe = os.fstat(1).st_ino
        plug_standard_descriptors()
        null = os.stat(os.devnull).st_rdev
        return [
            [is_open(number) for number in range(3)],
            [os.fstat(number).st_rdev == null for number in (0, 2)],
            [os.get_inheritable(number) for number in (0, 2)],
            os.fstat(1).st_ino == pipe,
        ]

    assert in_child(set_up, look) == [[True] * 3, [True, True], [False, False], True]


def test_plugs_leave_open_ones_and_what_lies_above_alone() -> None:
    def set_up() -> None:
        null_stdin()
        put(a_pipe(), 1, 2)

    def look() -> object:
        before = sorted(map(int, os.listdir("/proc/self/fd"))) if os.path.isdir("/proc/self/fd") else []
        plug_standard_descriptors()
        after = sorted(map(int, os.listdir("/proc/self/fd"))) if os.path.isdir("/proc/self/fd") else []
        return before == after

    assert in_child(set_up, look) is True
