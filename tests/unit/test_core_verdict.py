"""Rules on evidence made by hand: what no machine stages at will, and any evidence at all."""

import copy
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.core.evidence import (
    Call,
    Cgroup,
    Context,
    Descriptor,
    End,
    Futex,
    Lock,
    Look,
    Process,
    Socket,
    Terminal,
    Thread,
)
from sidecar.core.finding import CONFIDENCES, Verdict
from sidecar.core.verdict import judge
from sidecar.core.verdict_names import ALL

SECOND = 1_000_000_000


def process(pid: int, *calls: Call, parent: int = 1, runs: int = 5, **more: Any) -> Process:
    made = Process(pid, parent, f"p{pid}", "S", group=pid, started_ticks=pid, storage_bytes=0, **more)
    made.thread_count = len(calls)
    made.handled_signals = more.get("handled_signals", frozenset())
    made.pending_timers = 0
    for index, call in enumerate(calls):
        made.threads[pid + index] = Thread(pid + index, "S", 0, 0, runs, call=call)
    return made


def looked(*processes: Process, **more: Any) -> tuple[Look, Look]:
    """A pair of looks between which nothing moved."""
    after = Look(2 * SECOND, processes[0].pid, {one.pid: one for one in processes}, is_detailed=True, **more)
    before = copy.deepcopy(after)
    before.taken_ns = SECOND
    return before, after


def piped(reader: int, writer: int, number: int) -> tuple[str, Descriptor, list[End]]:
    target = f"pipe:[{number}]"
    ends = [End(reader, f"p{reader}", 3, True, False), End(writer, f"p{writer}", 4, False, True)]
    return target, Descriptor(3, target, "pipe", number), ends


def pair_of_pipes(**more: Any) -> tuple[Look, Look]:
    """Two processes, each reads what only the other could write."""
    first, second = process(10, Call("read", 3), **more), process(20, Call("read", 3), parent=10)
    one, two = piped(10, 20, 1), piped(20, 10, 2)
    first.descriptors, second.descriptors = {3: one[1]}, {3: two[1]}
    return looked(first, second, ends={one[0]: one[2], two[0]: two[2]})


def judged(pair: tuple[Look, Look]) -> Verdict:
    return judge(*pair)


def test_a_knot_of_pipes_is_inferred_since_an_end_could_be_where_nobody_looks() -> None:
    verdict = judged(pair_of_pipes())
    assert (verdict.name, verdict.confidence) == ("deadlock_suspected", "inferred")


def pair_of_locks(holders: tuple[tuple[int, ...] | None, tuple[int, ...] | None], kind: str = "FLOCK") -> Any:
    """10 waits for what 20 has, and the other way round, as /proc/locks says; `holders`: as fdinfo says."""
    first, second = process(10, Call("flock", 3, wants_lock=True)), process(20, Call("flock", 3, wants_lock=True))
    second.parent = 10
    locks = [Lock(10, kind, True, "0:1:1", 20, "p20", holders[0]), Lock(20, kind, True, "0:1:2", 10, "p10", holders[1])]
    return looked(first, second, locks=locks)


def test_a_knot_of_locks_is_proved() -> None:
    verdict = judged(pair_of_locks(((20,), (10,))))
    assert (verdict.name, verdict.confidence) == ("deadlock_suspected", "proved")
    assert judged(pair_of_locks((None, None), "POSIX")).confidence == "proved"


@pytest.mark.parametrize("holders", [((20, 99), (10,)), ((20,), (99,)), (None, (10,)), ((20,), ())])
def test_a_lock_that_somebody_else_may_have_proves_nothing(holders: Any) -> None:
    assert judged(pair_of_locks(holders)).name == "lock_wait"


def test_an_unread_message_may_carry_an_end_of_a_pipe() -> None:
    before, after = pair_of_pipes()
    after.sockets[9] = Socket(9, "unix", "ESTABLISHED", receive_queue=1)
    assert judge(before, after).name == "pipe_wait"


@pytest.mark.parametrize("what", ["timer", "alarm", "unreadable timers", "unreadable signals", "ran", "not whole"])
def test_whoever_may_act_by_itself_keeps_a_hang_from_being_said(what: str) -> None:
    parent = process(10, Call("wait4"))
    before, after = looked(parent, process(20, futex(), parent=10))
    assert judge(before, after).name == "deadlock_suspected"
    watched = after.processes[10]
    if what == "timer":
        watched.pending_timers = 1
    elif what == "alarm":
        watched.handled_signals = frozenset({14})
    elif what == "unreadable timers":
        watched.pending_timers = None
    elif what == "unreadable signals":
        watched.handled_signals = None
    elif what == "ran":
        watched.threads[10].runs = 6
    else:
        after.is_whole = False
    assert judge(before, after).name in ("internal_wait", "sleeping")


def test_a_shell_that_catches_every_signal_has_no_timer_in_mind() -> None:
    everything = frozenset({1, 2, 3, 10, 12, 14, 15, 24, 25, 26})
    parent = process(10, Call("wait4"), handled_signals=everything)
    assert judged(looked(parent, process(20, futex(), parent=10))).name == "deadlock_suspected"


SLEEP = Call("nanosleep", is_timed=True, asked_s=20.0)


def test_what_a_sleeper_beside_it_may_end_is_no_hang() -> None:
    shell = process(10, Call("wait4"))
    verdict = judged(looked(shell, process(20, futex(), parent=10), process(30, SLEEP, parent=10)))
    assert (verdict.name, verdict.leaf and verdict.leaf.pid) == ("sleeping", 30)
    assert any("futex" in fact for fact in verdict.evidence)


def connecting(*calls: Call, **more: Any) -> tuple[Look, Look]:
    client = process(10, *calls)
    client.descriptors = {n: Descriptor(n, f"socket:[{n}]", "socket", n) for n in (3, 4)}
    silent = Socket(3, "tcp", "SYN_SENT", remote="192.0.2.1:80", retransmits=8, backoff=4)
    live = Socket(4, "tcp", "ESTABLISHED", remote="192.0.2.2:80")
    return looked(client, sockets={3: silent, 4: live}, **more)


def test_one_that_lives_among_several_is_enough() -> None:
    both = Call("poll", polled=((3, "w"), (4, "r")), is_timed=False)
    assert judged(connecting(Call("connect", 3))).name == "network_connecting"
    assert judged(connecting(both)).name == "network_wait"
    assert judged(connecting(SLEEP, Call("connect", 3))).name == "sleeping"
    assert judged(connecting(Call("connect", 3), SLEEP)).name == "network_wait"
    assert judged(connecting(Call("connect", 3), Call("recvfrom", 4))).name == "network_wait"
    assert judged(connecting(Call("connect", 3), futex(timed=True))).name == "network_wait"


@pytest.mark.parametrize(
    ("limit_s", "name"), [(1.0, "network_connecting"), (60.0, "network_wait"), (None, "network_wait")]
)
def test_a_time_limit_longer_than_the_trouble_will_end_it_and_a_tick_will_not(limit_s: float | None, name: str) -> None:
    pair = connecting(Call("poll", polled=((3, "w"),), is_timed=True, asked_s=limit_s))
    assert judged(pair).name == name


@pytest.mark.parametrize("signal", [1, 10, 14, 15, 34, 64])
def test_who_handles_a_signal_that_may_come_is_in_no_knot(signal: int) -> None:
    assert judged(pair_of_pipes(handled_signals=frozenset({signal}))).group != "may_be_hung"


def test_interrupt_which_python_always_handles_wakes_nobody() -> None:
    assert judged(pair_of_pipes(handled_signals=frozenset({2}))).name == "deadlock_suspected"


def test_a_writer_that_is_not_seen_is_a_way_out() -> None:
    before, after = pair_of_pipes()
    after.is_whole = False
    assert judge(before, after).group != "may_be_hung"


def test_another_writer_in_the_tree_is_a_way_out() -> None:
    before, after = pair_of_pipes()
    third = process(30, Call("nanosleep", is_timed=True, asked_s=60.0), parent=10)
    for look in (before, after):
        look.processes[30] = copy.deepcopy(third)
        look.ends["pipe:[1]"].append(End(30, "p30", 4, False, True))
    verdict = judge(before, after)
    assert (verdict.name, verdict.leaf and verdict.leaf.pid) == ("sleeping", 30)


def test_one_that_ran_meanwhile_is_in_no_knot() -> None:
    before, after = pair_of_pipes()
    after.processes[20].threads[20].runs = 6
    assert judge(before, after).group != "may_be_hung"


def test_a_pid_that_was_reused_proves_nothing() -> None:
    before, after = pair_of_pipes()
    after.processes[20].started_ticks += 1
    assert judge(before, after).group != "may_be_hung"


def futex(owner: int | None = None, timed: bool = False) -> Call:
    return Call("futex", is_timed=timed, futex=Futex(0x1000, is_private=True, owner=owner))


def test_threads_that_own_what_the_other_wants_are_proved() -> None:
    verdict = judged(looked(process(10, futex(11), futex(10))))
    assert (verdict.name, verdict.confidence) == ("deadlock_suspected", "proved")


def test_a_circle_of_some_threads_beside_one_that_sleeps_is_no_hang_of_the_command() -> None:
    sleeper = Call("nanosleep", is_timed=True, asked_s=9.0)
    assert judged(looked(process(10, futex(11), futex(10), sleeper))).name == "sleeping"
    assert judged(looked(process(10, futex(11), futex(10), futex(10)))).confidence == "proved"


@pytest.mark.parametrize(
    "more",
    [{"handled_signals": frozenset({15})}, {"handled_signals": None}, {"pending_timers": 1}, {"thread_count": 3}],
)
def test_what_could_wake_a_thread_makes_it_an_internal_wait(more: dict[str, Any]) -> None:
    waiting = process(10, futex(), futex())
    for name, value in more.items():
        setattr(waiting, name, value)
    assert judged(looked(waiting)).name == "internal_wait"


def test_threads_with_time_limits_are_an_internal_wait_and_sleep_where_nothing_ticks() -> None:
    assert judged(looked(process(10, futex(), futex(timed=True)))).name == "internal_wait"
    waiting = futex(timed=True)
    waiting.left_s = 300.0
    assert judged(looked(process(10, futex(), waiting))).name == "sleeping"


def tcp(**more: Any) -> tuple[Look, Look]:
    client = process(10, Call("recvfrom", 3))
    client.descriptors = {3: Descriptor(3, "socket:[7]", "socket", 7)}
    return looked(client, sockets={7: Socket(7, "tcp", "ESTABLISHED", remote="192.0.2.1:5432", **more)})


@pytest.mark.parametrize(
    ("more", "name"),
    [
        ({}, "network_wait"),
        ({"timer": "retransmit", "retransmits": 1, "send_queue": 9}, "network_wait"),
        ({"timer": "retransmit", "retransmits": 2, "send_queue": 9}, "network_peer_dead"),
        ({"timer": "keepalive", "probes": 1}, "network_wait"),
        ({"timer": "keepalive", "probes": 2}, "network_peer_dead"),
        ({"timer": "zero_window", "send_queue": 9}, "network_peer_not_reading"),
        ({"last_received_ms": 165_000, "last_sent_ms": 165_000, "last_acknowledged_ms": 165_000}, "network_wait"),
    ],
)
def test_a_peer_is_dead_from_two_unanswered(more: dict[str, Any], name: str) -> None:
    assert judged(tcp(**more)).name == name


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize(
    "names",
    [
        ("send_queue",),
        ("probes", "send_queue"),
        ("peer_unread",),
    ],
)
def test_what_is_counted_is_in_the_plural_but_for_one(names: tuple[str, ...], number: int) -> None:
    ages = {"last_received_ms": 1000, "last_sent_ms": 1000, "last_acknowledged_ms": 1000}
    said = " ".join(judged(tcp(**dict.fromkeys(names, number), **ages)).evidence)
    assert re.findall(r"\b1 (?:bytes|probes|processes)\b", said) == []
    assert "1 process ran" in said
    assert re.search(rf"\b{number} bytes?\b", said)


def test_a_slow_handshake_is_no_hang() -> None:
    pair = tcp()
    for look in pair:
        look.sockets[7].state = "SYN_SENT"
    assert judged(pair).name == "network_wait"
    for retransmits, backoff, name in ((5, 1, "network_wait"), (3, 3, "network_wait"), (7, 3, "network_connecting")):
        for look in pair:
            look.sockets[7].retransmits, look.sockets[7].backoff = retransmits, backoff
        assert judged(pair).name == name


def test_a_peer_in_the_tree_decides() -> None:
    writer, reader = process(10, Call("sendto", 3)), process(20, SLEEP, parent=10)
    writer.descriptors = {3: Descriptor(3, "socket:[7]", "socket", 7)}
    stuck = Socket(7, "tcp", "ESTABLISHED", remote="127.0.0.1:1", timer="zero_window", send_queue=9, peer_inode=8)
    ends = {"socket:[8]": [End(20, "p20", 5, True, True)]}
    verdict = judged(looked(writer, reader, sockets={7: stuck}, ends=ends))
    assert (verdict.name, verdict.leaf and verdict.leaf.pid) == ("sleeping", 20)


def own_connection(*calls: Call) -> tuple[Look, Look]:
    """A process that has both ends of a TCP connection, and listens."""
    both = process(10, *calls)
    both.descriptors = {n: Descriptor(n, f"socket:[{n}]", "socket", n) for n in (3, 4, 5)}
    both.all_descriptors = True
    sockets = {
        3: Socket(3, "tcp", "LISTEN", local="127.0.0.1:1"),
        4: Socket(4, "tcp", "ESTABLISHED", remote="127.0.0.1:1", peer_inode=5),
        5: Socket(5, "tcp", "ESTABLISHED", remote="127.0.0.1:2", peer_inode=4),
    }
    ends = {f"socket:[{n}]": [End(10, "p10", n, True, True)] for n in (4, 5)}
    return looked(both, sockets=sockets, ends=ends)


def test_a_connection_between_threads_is_for_the_others_of_them_to_explain() -> None:
    assert judged(own_connection(Call("recvfrom", 4), SLEEP)).name == "sleeping"
    assert judged(own_connection(Call("recvfrom", 4), Call("accept4", 3))).name == "listening"
    assert judged(own_connection(Call("recvfrom", 4))).name == "event_idle"


def test_of_a_tree_that_was_not_wholly_seen_nothing_is_measured() -> None:
    before, after = looked(process(10, Call("pause")))
    assert (judge(before, after).name, judge(before, after).confidence) == ("signal_wait", "measured")
    after.is_whole = False
    assert (judge(before, after).name, judge(before, after).confidence) == ("signal_wait", "inferred")


def test_cpu_of_children_that_have_ended_counts_and_their_past_does_not() -> None:
    before, after = looked(process(10, Call("wait4")), process(20, Call("nanosleep", is_timed=True), parent=10))
    before.processes[20].cpu_ns = 40 * SECOND
    after.processes.pop(20)
    after.processes[10].reaped_cpu_ns = 40 * SECOND
    assert judge(before, after).name != "computing"
    after.processes[10].reaped_cpu_ns = 40 * SECOND + SECOND // 2
    assert judge(before, after).name == "computing"


def test_runnable_and_never_run_is_starved() -> None:
    before, after = looked(process(10, Call("running")))
    after.processes[10].state = after.processes[10].threads[10].state = "R"
    after.states = {10: "RRRRRRRR"}
    assert judge(before, after).name == "cpu_starved"


def test_storage_that_does_not_answer_is_unknown_and_a_file_server_may_be_hung() -> None:
    reader = process(10, Call("read", 3))
    reader.descriptors = {3: Descriptor(3, "/data/f", "file", file_system="ext4")}
    reader.state = reader.threads[10].state = "D"
    reader.threads[10].wait_channel = "folio_wait_bit_common"
    assert judged(looked(reader)).name == "unknown"
    reader.descriptors[3].is_remote, reader.descriptors[3].file_system = True, "nfs4"
    reader.threads[10].wait_channel = "rpc_wait_bit_killable"
    assert judged(looked(reader)).name == "filesystem_wait"
    before, after = looked(reader)
    after.processes[10].threads[10].runs = 6
    assert judge(before, after).name == "disk_io"


@pytest.mark.parametrize(
    ("storage_bytes", "states", "name"),
    [
        (110_592, "SSSSSSSS", "sleeping"),  # its own pages, read again: seen on a machine that was short of memory
        (110_592, "SSSDSSSS", "disk_io"),
        (1_000_000, "SSSSSSSS", "disk_io"),
        (65_536, "DDDDDDDD", "sleeping"),
    ],
)
def test_a_little_storage_that_nobody_was_seen_to_wait_for_is_not_what_it_waits_for(
    storage_bytes: int, states: str, name: str
) -> None:
    before, after = looked(process(10, Call("nanosleep", is_timed=True, asked_s=60.0)))
    after.processes[10].storage_bytes = storage_bytes
    after.states = {10: states}
    assert judge(before, after).name == name


def test_output_that_is_held_is_told_with_what_its_holder_does() -> None:
    before, after = looked(process(20, Call("nanosleep", is_timed=True, asked_s=60.0)))
    verdict = judge(before, after, Context(exit_status=0, output_is_open=True, output_holders=(20,)))
    assert (verdict.name, verdict.leaf and verdict.leaf.pid) == ("output_held", 20)
    assert "sleeping" in verdict.evidence[1]


def test_epoll_descriptors_that_watch_each_other_end() -> None:
    waiting = process(10, Call("epoll", 3, is_timed=False))
    waiting.descriptors = {
        n: Descriptor(n, "anon_inode:[eventpoll]", "eventpoll", polled=((3, "r"), (4, "r"))) for n in (3, 4)
    }
    assert judged(looked(waiting)).name == "unknown"


NAMES = st.sampled_from(
    [
        "read",
        "write",
        "poll",
        "select",
        "epoll",
        "futex",
        "wait4",
        "waitid",
        "nanosleep",
        "openat",
        "open",
        "flock",
        "fcntl",
        "connect",
        "accept4",
        "recvfrom",
        "sendto",
        "running",
        "page_fault",
        "nr999",
        "vfork",
        "statx",
        "ioctl",
        "pause",
        "restart_syscall",
        "io_uring_enter",
        "rt_sigtimedwait",
        "clock_nanosleep",
    ]
)
MAYBE = st.none() | st.integers(0, 40)
CALLS = st.none() | st.builds(
    Call,
    NAMES,
    descriptor=st.none() | st.integers(0, 5),
    polled=st.none() | st.lists(st.tuples(st.integers(0, 5), st.sampled_from("rw")), max_size=4).map(tuple),
    is_timed=st.none() | st.booleans(),
    asked_s=st.none() | st.floats(0, 1e6),
    left_s=st.none() | st.floats(0, 1e6),
    child=MAYBE,
    futex=st.none() | st.builds(Futex, st.integers(0, 99), st.booleans(), owner=MAYBE, joins=MAYBE),
    path=st.none() | st.text(max_size=9),
    wants_lock=st.booleans(),
    was_resumed=st.booleans(),
)
CHANNELS = st.sampled_from([None, "do_wait", "anon_pipe_read", "wait_woken", "do_epoll_wait", "futex_wait_queue"])
TARGETS = st.sampled_from(["pipe:[1]", "pipe:[2]", "socket:[7]", "socket:[8]", "/dev/pts/3", "/tmp/f", "/dev/null"])
KINDS = st.sampled_from(["pipe", "socket", "terminal", "file", "device", "eventpoll", "timerfd", "pidfd", "inotify"])
DESCRIPTORS = st.builds(
    Descriptor,
    st.integers(0, 5),
    TARGETS,
    KINDS,
    st.integers(0, 9),
    left_s=st.none() | st.floats(0, 1e5),
    pid=MAYBE,
    polled=st.none() | st.just(((1, "r"), (2, "w"))),
    is_remote=st.booleans(),
)


@st.composite
def looks(draw: st.DrawFn) -> Look:
    found = Look(draw(st.integers(0, 10 * SECOND)), 1, is_whole=draw(st.booleans()))
    for pid in range(1, draw(st.integers(1, 4)) + 1):
        one = Process(pid, draw(st.integers(0, 4)), "x", draw(st.sampled_from("SDRZTtX")))
        one.started_ticks, one.stop_signal = draw(st.integers(0, 1)), draw(st.integers(0, 31))
        one.handled_signals = draw(st.none() | st.frozensets(st.integers(1, 64), max_size=3))
        for tid in range(pid * 10, pid * 10 + draw(st.integers(0, 3))):
            thread = Thread(tid, draw(st.sampled_from("SDRZTt")), runs=draw(MAYBE), call=draw(CALLS))
            thread.wait_channel = draw(CHANNELS)
            one.threads[tid] = thread
        table = draw(st.none() | st.lists(DESCRIPTORS, max_size=4))
        one.descriptors = None if table is None else {item.number: item for item in table}
        found.processes[pid] = one
    found.ends = {
        target: [End(draw(st.integers(1, 5)), "x", 3, draw(st.booleans()), draw(st.booleans()))]
        for target in draw(st.sets(TARGETS, max_size=3))
    }
    for inode in (7, 8):
        protocol = draw(st.sampled_from(["tcp", "udp", "unix", "netlink"]))
        found.sockets[inode] = Socket(inode, protocol, draw(st.sampled_from(["LISTEN", "ESTABLISHED", "SYN_SENT", ""])))
    found.locks = [Lock(draw(st.integers(-1, 4)), "FLOCK", True, "8:1:5", draw(MAYBE))] if draw(st.booleans()) else []
    found.cgroup = draw(st.none() | st.builds(Cgroup, is_frozen=st.none() | st.booleans(), periods=MAYBE))
    found.terminal = draw(st.none() | st.builds(Terminal, echo=st.booleans(), canonical=st.booleans()))
    return found


@settings(max_examples=400, deadline=None)
@given(looks(), looks(), st.none() | st.integers(0, 255))
def test_any_evidence_has_a_verdict(before: Look, after: Look, exit_status: int | None) -> None:
    verdict = judge(before, after, Context(exit_status, output_is_open=exit_status is not None))
    assert verdict.name in ALL
    assert verdict.confidence in CONFIDENCES
    assert all(isinstance(fact, str) and fact for fact in verdict.evidence)


@pytest.mark.parametrize(("device", "name"), [(136 << 8 | 3, "awaiting_input"), (136 << 8 | 4, "unknown")])
def test_settings_of_one_terminal_say_nothing_of_another(device: int, name: str) -> None:
    """Nothing of the process is readable, and the terminal that we know of, /dev/pts/3, asks for a secret."""
    blind = process(10, Call("read", 0), terminal=device, foreground_group=10)
    blind.threads[10].call = None
    blind.descriptors = None
    assert judged(looked(blind, terminal=Terminal("/dev/pts/3", echo=False))).name == name
