"""All threads of a process wait for each other: is it a deadlock, or an idle pool? futex(2), pthread_mutex_lock(3).

A deadlock is said only of a proved circle of owners, or where every thread waits without limit on a private futex,
none ran, and no signal handler, timer or child could wake one. Else it is an internal wait.
"""

from sidecar.core.evidence import Process, Thread
from sidecar.core.finding import INFERRED, PROVED, UNSURE
from sidecar.core.rules.scene import Scene, Wait
from sidecar.core.rules.signals import waking_signals


def wait_inside(scene: Scene, process: Process, threads: list[Thread], waits: list[Wait]) -> Wait:
    """`waits` are those of `threads`, all of kind FUTEX."""
    ran = process.pid in scene.movement.ran
    ran_known = process.pid not in scene.movement.ran_unknown
    timed = [wait for wait in waits if wait.is_timed]
    limits = [wait.left_s for wait in timed if wait.left_s is not None]
    if timed and len(waits) == 1:
        kind = "polling" if ran else "sleeping"
        return Wait(kind, f"one thread, {waits[0].text}", INFERRED, is_timed=True, left_s=min(limits, default=None))
    total = f"all {len(waits)} threads wait for each other" if len(waits) > 1 else "its only thread waits on a futex"
    if timed:
        text = f"{total}, {len(timed)} with a time limit; nothing outside is waited for"
        left_s = min(limits, default=0.0)
        if ran_known and not ran and left_s >= scene.movement.seconds:
            # No helper thread that ticks: the first to go on is the one whose time is up.
            return Wait("sleeping", f"{text}: {left_s:.3g} s", INFERRED, is_timed=True, left_s=left_s)
        return Wait("internal_wait", text, UNSURE, is_timed=True)
    known = all(thread.call is not None and thread.call.futex is not None for thread in threads)
    private = known and all(
        thread.call.futex.is_private or thread.call.futex.joins in process.threads
        for thread in threads
        if thread.call is not None and thread.call.futex is not None
    )
    untimed = all(thread.call is not None and thread.call.is_timed is False for thread in threads)
    all_seen = len(process.threads) == process.thread_count
    if ran or not ran_known or not private or not untimed or not all_seen:
        return Wait("internal_wait", f"{total}; nothing outside is waited for", UNSURE)
    wakers = _wakers(scene, process)
    if wakers:
        return Wait("internal_wait", f"{total}, without limit; {wakers} could wake one", UNSURE)
    text = f"{total}, without limit, on private futexes; none ran in {scene.movement.seconds:.1f} s"
    return Wait("deadlock_suspected", f"{text}; no signal handler, timer or child could wake one", INFERRED)


def owner_circle(scene: Scene, process: Process, threads: list[Thread]) -> Wait | None:
    """Proof of a deadlock: threads that wait in a circle, none of which ran since the look before."""
    circle = _owner_circle(process, threads)
    if not circle or not _held_before(scene, process, circle):
        return None
    text = f"threads {' -> '.join(map(str, [*circle, circle[0]]))} each wait for a mutex the next one owns; none ran"
    return Wait("deadlock_suspected", text, PROVED)


def _wakers(scene: Scene, process: Process) -> str:
    """What could still wake a thread, in words; empty: nothing."""
    handled = waking_signals(process)
    if handled is None:
        return "a signal (its handlers are not readable)"
    if handled:
        return f"signal {', '.join(map(str, handled))}, which it handles,"
    if process.pending_timers:
        return f"a POSIX timer ({process.pending_timers} there)"
    if process.pending_timers is None:
        return "a POSIX timer (not readable)"
    return ""


def _owner_circle(process: Process, threads: list[Thread]) -> list[int]:
    """Thread ids, each waiting without limit for a mutex that the next owns, the last for the first's; [] if none."""
    owner_of: dict[int, int] = {}
    for thread in threads:
        call = thread.call
        if call is None or call.futex is None or call.is_timed is not False:
            continue
        if call.futex.owner in process.threads and call.futex.owner is not None:
            owner_of[thread.tid] = call.futex.owner
        elif call.futex.joins in process.threads and call.futex.joins is not None:
            owner_of[thread.tid] = call.futex.joins
    for start in owner_of:
        path = [start]
        while path[-1] in owner_of:
            following = owner_of[path[-1]]
            if following in path:
                return path[path.index(following) :]
            path.append(following)
    return []


def _held_before(scene: Scene, process: Process, circle: list[int]) -> bool:
    """The same threads waited on the same words at the look before."""
    earlier = scene.before.processes.get(process.pid)
    if earlier is None or earlier.started_ticks != process.started_ticks:
        return False
    for tid in circle:
        old, now = earlier.threads.get(tid), process.threads.get(tid)
        if old is None or now is None or old.runs is None or old.runs != now.runs:
            return False
    return True
