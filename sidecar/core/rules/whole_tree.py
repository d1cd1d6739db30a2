"""Verdicts of the tree as a whole, before anybody's wait is looked at: a table of predicates, the first that fits.

The thresholds are those that worked on staged commands; each rule says what it rests on.
"""

from collections.abc import Callable

from sidecar.core.advice import first, quoted
from sidecar.core.finding import INFERRED, MEASURED, UNSURE
from sidecar.core.rules.scene import Scene, Wait
from sidecar.core.values import counted

COMPUTING_SHARE = 0.05
BUSY_SHARE = 0.5
STORAGE_BYTES = 64 * 1024
STORAGE_BYTES_PER_SECOND = 1_000_000
"""Below it somebody has to be seen waiting for storage: a program whose own pages were evicted reads them again, at 0.1
MB/s and for no time at all, and is silent for another reason."""
TRANSFER_BYTES_PER_SECOND = 256
"""Below it is keep-alive traffic."""
MAJOR_FAULTS_PER_SECOND = 50
STARVED_DELAY_SHARE = 0.5
RUNNABLE_SHARE = 0.8
THROTTLED_SHARE = 0.5
THROTTLED_TIME_SHARE = 0.3
UNINTERRUPTIBLE_SHARE = 0.3


def _frozen(scene: Scene) -> Wait | None:
    """cgroup.events frozen (cgroup-v2.rst), freezer.state (cgroup-v1/freezer-subsystem.rst)."""
    group = scene.after.cgroup
    if group is None or not group.is_frozen or scene.movement.cpu_share >= COMPUTING_SHARE:
        return None
    file = group.frozen_by
    value = "THAWED" if file.endswith("freezer.state") else "0"
    hint = first("frozen", pid=leaf_of_tree(scene), file=quoted(file), value=value) if file else ""
    return Wait("frozen", "its control group is frozen (docker pause?)", hint=hint)


def _out_of_memory(scene: Scene) -> Wait | None:
    """memory.oom_control under_oom with the killer off: every allocation waits; cgroup-v1/memory.rst."""
    group = scene.after.cgroup
    if group is None or not group.is_out_of_memory or scene.movement.cpu_share >= COMPUTING_SHARE:
        return None
    file, limit = quoted(group.limited_by), group.memory_limit
    hint = first("oom_stall", pid=leaf_of_tree(scene), file=file, value=2 * limit) if file and limit else ""
    return Wait("oom_stall", "its control group is out of memory, and the killer is off", hint=hint)


def _throttled(scene: Scene) -> Wait | None:
    """cpu.stat nr_throttled, nr_periods and throttled time; scheduler/sched-bwc.rst."""
    before, after = scene.before.cgroup, scene.after.cgroup
    if before is None or after is None or after.periods is None or before.periods is None:
        return None
    periods = after.periods - before.periods
    throttled = (after.throttled_periods or 0) - (before.throttled_periods or 0)
    seconds = ((after.throttled_ns or 0) - (before.throttled_ns or 0)) / 1e9
    is_often = periods > 0 and throttled >= THROTTLED_SHARE * periods
    if throttled <= 0 or not (is_often or seconds > THROTTLED_TIME_SHARE * scene.movement.seconds):
        return None
    text = f"throttled by its CPU quota in {throttled} of {counted(periods, 'period')}, {seconds:.2f} s; {_cpu(scene)}"
    file = after.throttled_by
    value = "-1" if file.endswith("cpu.cfs_quota_us") else "max"
    hint = first("cpu_throttled", pid=leaf_of_tree(scene), file=quoted(file), value=value) if file else ""
    return Wait("cpu_throttled", text, hint=hint)


def _held_over_high(scene: Scene) -> Wait | None:
    """memory.events high counts each time a process was held back over memory.high; cgroup-v2.rst."""
    before, after = scene.before.cgroup, scene.after.cgroup
    if before is None or after is None or scene.movement.cpu_share >= BUSY_SHARE:
        return None
    events = (after.memory_high_events or 0) - (before.memory_high_events or 0)
    current, high = after.memory_current, after.memory_high
    hint = first("memory_thrash, over memory.high", file=quoted(after.high_by)) if after.high_by else ""
    if events > 0 and before.memory_high_events is not None:
        text = f"held back over memory.high {counted(events, 'time')}, {current} of {high} bytes"
        return Wait("memory_thrash", text, hint=hint)
    is_over = current is not None and high is not None and current >= high
    if is_over and scene.movement.uninterruptible > BUSY_SHARE:
        text = f"memory {current} over memory.high {high}, and uninterruptible"
        return Wait("memory_thrash", text, INFERRED, hint=hint)
    return None


def _thrashing(scene: Scene) -> Wait | None:
    """Major page faults: pages that had to come from storage; proc(5), stat majflt."""
    movement = scene.movement
    rate = movement.major_faults / movement.seconds
    if rate <= MAJOR_FAULTS_PER_SECOND or movement.cpu_share >= RUNNABLE_SHARE:
        return None
    text = f"{rate:.0f} major page faults a second, {_cpu(scene)}{_host(scene, 'memory')}"
    return Wait("memory_thrash", text)


def _storage(scene: Scene) -> Wait | None:
    """read_bytes and write_bytes of proc(5), io: what really went to or came from storage."""
    movement = scene.movement
    if movement.storage_bytes <= STORAGE_BYTES:
        return None
    if movement.cpu_share >= BUSY_SHARE and movement.uninterruptible <= UNINTERRUPTIBLE_SHARE:
        return None
    if movement.storage_bytes < STORAGE_BYTES_PER_SECOND * movement.seconds and not movement.uninterruptible:
        return None
    rate = movement.storage_bytes / movement.seconds / 1e6
    waits = f"in state D in {movement.uninterruptible:.0%} of samples"
    return Wait("disk_io", f"{rate:.2f} MB/s from and to storage, {waits}, {_cpu(scene)}{_host(scene, 'io')}")


def _starved(scene: Scene) -> Wait | None:
    """Run delay of schedstat (scheduler/sched-stats.rst), which moves only when the thread gets on; else state R."""
    movement = scene.movement
    share = movement.cpu_share
    if movement.delay_share > STARVED_DELAY_SHARE and share < BUSY_SHARE and movement.delay_share > 3 * share:
        text = f"a thread was runnable without a CPU {movement.delay_share:.0%} of the time, {_cpu(scene)}"
        text += _host(scene, "cpu")
        return Wait("cpu_starved", text)
    if share < COMPUTING_SHARE and movement.runnable >= RUNNABLE_SHARE:
        text = f"runnable in {movement.runnable:.0%} of samples, {_cpu(scene)}{_host(scene, 'cpu')}"
        return Wait("cpu_starved", text, INFERRED)
    return None


def _storage_unseen(scene: Scene) -> Wait | None:
    """In state D often, and the counters that would tell storage from other waits cannot be read."""
    movement = scene.movement
    if movement.is_storage_seen or not COMPUTING_SHARE <= movement.cpu_share < BUSY_SHARE:
        return None
    if movement.uninterruptible < UNINTERRUPTIBLE_SHARE:
        return None
    return Wait("unknown", f"in state D in {movement.uninterruptible:.0%} of samples, {_cpu(scene)}", UNSURE)


def _computing(scene: Scene) -> Wait | None:
    """utime and stime of proc(5), stat, and of schedstat, with those of children already waited for."""
    movement = scene.movement
    if movement.cpu_share < COMPUTING_SHARE:
        return None
    shares = [f"{scene.name(pid)} {movement.cpu_by_process[pid]:.0%}" for pid in movement.busiest[:3]]
    by_whom = f", of which {', '.join(shares)}" if shares else ", by children that have ended since"
    return Wait("computing", f"{_cpu(scene)}{by_whom}", MEASURED)


def _transfer(scene: Scene) -> Wait | None:
    """bytes_received and bytes_acked of tcp_info, on the connections that threads wait on."""
    movement = scene.movement
    received, sent = movement.received_bytes or 0, movement.sent_bytes or 0
    if received + sent < TRANSFER_BYTES_PER_SECOND * movement.seconds:
        return None
    rates = f"{received / movement.seconds / 1e3:.1f} kB/s in, {sent / movement.seconds / 1e3:.1f} kB/s out"
    return Wait("network_transfer", rates)


def leaf_of_tree(scene: Scene) -> int:
    """The process to look at where the tree as a whole is judged."""
    busiest = scene.movement.busiest
    return busiest[0] if busiest else scene.after.root


def _cpu(scene: Scene) -> str:
    return f"CPU {scene.movement.cpu_share:.0%} of a core"


def _host(scene: Scene, resource: str) -> str:
    """How much of the time somebody on this host waited for it; accounting/psi.rst."""
    before, after = scene.before.pressures.get(resource), scene.after.pressures.get(resource)
    if before is None or after is None:
        return ""
    share = min(1.0, max(0, after - before) / 1e6 / scene.movement.seconds)
    return f"; on the whole host somebody waited for {resource} {share:.0%} of it"


RULES: tuple[Callable[[Scene], Wait | None], ...] = (
    _frozen,
    _out_of_memory,
    _throttled,
    _held_over_high,
    _thrashing,
    _storage,
    _starved,
    _storage_unseen,
    _computing,
    _transfer,
)


def verdict_of_tree(scene: Scene) -> Wait | None:
    """The first rule that fits; None: nothing moves enough, so the waits decide."""
    for rule in RULES:
        found = rule(scene)
        if found is not None:
            return found
    return None
