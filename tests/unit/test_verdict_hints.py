"""What only the look knows is in the command to paste: pids, addresses, mount points, files of control groups."""

from typing import Any

import pytest
from test_core_verdict import looked, process, tcp

from sidecar.core.evidence import Call, Cgroup, Context, Descriptor, End, Lock, Look
from sidecar.core.verdict import judge


def hint(looks: tuple[Look, Look], name: str, context: Context | None = None) -> str:
    verdict = judge(*looks, context)
    assert verdict.name == name
    return verdict.hint


@pytest.mark.parametrize(
    ("group", "name", "command"),
    [
        ({"is_frozen": True, "frozen_by": "/cg/a b/cgroup.freeze"}, "frozen", "`echo 0 > '/cg/a b/cgroup.freeze'`"),
        ({"is_frozen": True, "frozen_by": "/cg/freezer.state"}, "frozen", "`echo THAWED > /cg/freezer.state`"),
        (
            {"is_out_of_memory": True, "limited_by": "/cg/limit", "memory_limit": 32 << 20},
            "oom_stall",
            "`echo 67108864 > /cg/limit`",
        ),
    ],
)
def test_the_file_of_the_control_group_and_what_to_write_to_it(group: dict[str, Any], name: str, command: str) -> None:
    said = hint(looked(process(10, Call("read", 3)), cgroup=Cgroup(**group)), name)
    assert command in said
    assert "`cat /proc/10/cgroup`" in said


@pytest.mark.parametrize(("file", "value"), [("/cg/cpu.max", "max"), ("/cg/cpu.cfs_quota_us", "-1")])
def test_the_quota_that_holds_it_back(file: str, value: str) -> None:
    before, after = looked(process(10, Call("read", 3)))
    before.cgroup = Cgroup(periods=0, throttled_periods=0, throttled_ns=0)
    after.cgroup = Cgroup(periods=10, throttled_periods=9, throttled_ns=900_000_000, throttled_by=file)
    assert f"`echo {value} > {file}`" in hint((before, after), "cpu_throttled")


def test_where_no_group_was_found_there_is_no_hint() -> None:
    for group in (Cgroup(is_frozen=True), Cgroup(is_frozen=True, frozen_by="/cg/\x1b[2J/cgroup.freeze")):
        said = hint(looked(process(10, Call("read", 3)), cgroup=group), "frozen")
        assert "\x1b" not in said
        assert said == "" or "GROUP" in said


def test_all_that_are_stopped_are_continued() -> None:
    first, second = process(10), process(20, parent=10)
    for one in (first, second):
        one.threads.update(process(one.pid, Call("read", 0)).threads)
        one.state = one.threads[one.pid].state = "T"
    assert "`kill -CONT 10 20`" in hint(looked(first, second), "stopped")


@pytest.mark.parametrize(
    ("more", "name", "command"),
    [
        (
            {"timer": "retransmit", "retransmits": 2, "send_queue": 9},
            "network_peer_dead",
            "bash -c '</dev/tcp/192.0.2.1/5432'",
        ),
        ({"timer": "zero_window", "send_queue": 9}, "network_peer_not_reading", "`ss -tnp sport = :5432`"),
    ],
)
def test_the_peers_address(more: dict[str, Any], name: str, command: str) -> None:
    said = hint(tcp(remote_port=5432, **more), name)
    assert command in said
    assert "192.0.2.1:5432" in said


def test_the_holder_of_a_lock() -> None:
    waiter = process(10, Call("flock", 3, wants_lock=True))
    waiter.descriptors = {3: Descriptor(3, "/srv/lock", "file")}
    lock = Lock(10, "FLOCK", True, "0:1:1", 99, "make", (98, 99), {98: "cc", 99: "make"})
    looks = looked(waiter, locks=[lock])
    said = hint(looks, "lock_wait")
    assert "Look at cc[98] or make[99], which holds the lock: `sidecar why 98`" in said
    assert "`kill 98`" in said
    assert "`fuser -v /srv/lock`" in said
    assert "held by cc[98] or make[99]" in judge(*looks).evidence[0]


@pytest.mark.parametrize("program", ["", "flock"])
def test_no_command_has_the_pid_of_who_took_a_lock_and_has_ended(program: str) -> None:
    """`flock FILE CMD` forks: where it is killed, CMD goes on holding the lock. `program`: of a zombie."""
    waiter = process(10, Call("flock", 3, wants_lock=True))
    waiter.descriptors = {3: Descriptor(3, "/srv/a lock", "file")}
    lock = Lock(10, "FLOCK", True, "0:1:1", 99, program, (), holder_has_ended=True)
    said = hint(looked(waiter, locks=[lock]), "lock_wait")
    assert "for process 99, which took the lock, has ended: `fuser -v '/srv/a lock'`" in said
    assert not [command for command in said.split("`")[1::2] if "99" in command]
    lock.holders, lock.programs = (77,), {77: "sleep"}
    assert "Look at sleep[77]" in hint(looked(waiter, locks=[lock]), "lock_wait"), "what inherited it is seen"


@pytest.mark.parametrize(
    ("channel", "command"), [("percpu_rwsem_wait", "fsfreeze -u /srv"), ("rpc_wait", "umount -f /srv")]
)
def test_the_mount_point(channel: str, command: str) -> None:
    writer = process(10, Call("open", path="/srv/f", mount_point="/srv"))
    writer.state = writer.threads[10].state = "D"
    writer.threads[10].wait_channel = channel
    assert f"`{command}`" in hint(looked(writer), "filesystem_wait")


def test_the_supervisor_whose_output_nobody_takes_and_a_reader_of_ones_own() -> None:
    writer = process(10, Call("write", 1))
    writer.descriptors = {1: Descriptor(1, "pipe:[5]", "pipe", 5)}
    for is_supervisor, command in ((True, "`lsof +E -a -d 1,2 -p 77`"), (False, "`sidecar why 77`")):
        end = End(77, "reader", 0, True, False, in_tree=False, is_supervisor=is_supervisor)
        assert command in hint(looked(writer, ends={"pipe:[5]": [end]}), "output_blocked")


def test_all_that_hold_the_output() -> None:
    looks = looked(*(process(pid, Call("nanosleep", is_timed=True, asked_s=60.0)) for pid in (20, 30)))
    said = hint(looks, "output_held", Context(exit_status=0, output_is_open=True, output_holders=(20, 30)))
    assert "`ps -o pid,etime,args -p 20,30`" in said
    assert "`kill 20 30`" in said


def test_a_process_that_is_not_of_the_tree_and_is_waited_for() -> None:
    waiter = process(10, Call("waitid", 3))
    waiter.descriptors = {3: Descriptor(3, "pidfd:[7]", "pidfd", pid=99)}
    assert "`sidecar why 99`" in hint(looked(waiter), "child_wait")
