"""Who in the tree will go on by itself: as long as anybody will, nothing of the command may be called hung.

A shell that sleeps will kill what waits for ever; a timer above it will end it; one more thread, connection or process
that lives will do something that nobody sees beforehand. So a hang is said only where all that is left waits for
nothing that can come, and where it could be seen that there is nobody else.
"""

from sidecar.core.evidence import Process
from sidecar.core.finding import UNSURE, weaker
from sidecar.core.rules.scene import FUTEX, Scene, Wait
from sidecar.core.verdict_names import MAY_BE_HUNG

_IDLE = frozenset({FUTEX, "event_idle"})
"""Waits that end only when somebody else of the command does something."""
_ALARM, _VIRTUAL_ALARM = 14, 26
_INSTEAD = {
    "network_connecting": "network_wait",
    "network_peer_dead": "network_wait",
    "network_peer_not_reading": "network_wait",
    "deadlock_suspected": "internal_wait",
}
"""What is said instead of a hang that something will end; of the others the wait is unknown."""


def is_hung(wait: Wait) -> bool:
    return wait.kind in MAY_BE_HUNG


def may_go_on(wait: Wait) -> bool:
    """It has a time limit, or waits for what is outside, or nobody knows for what."""
    return not is_hung(wait) and (wait.is_timed or wait.kind not in _IDLE)


def spared(wait: Wait, why: str) -> Wait:
    """The same wait, and no hang: `why` it will go on, in words."""
    kind = _INSTEAD.get(wait.kind, "unknown")
    confidence = UNSURE if kind in ("internal_wait", "unknown") else weaker(wait.confidence, "measured")
    return Wait(kind, f"{wait.text}; {why}", confidence, wait.on, True, wait.is_timed, wait.left_s, wait.hint)


def timer_in_tree(scene: Scene, waits: dict[int, Wait]) -> str:
    """A time limit or a timer that can be read, in words; empty: there is none."""
    for pid, wait in waits.items():
        if wait.is_timed and not is_hung(wait):
            limit = f" in {wait.left_s:.3g} s at most" if wait.left_s is not None else ""
            return f"{scene.name(pid)} goes on{limit}, since its wait has a time limit"
    for pid, process in scene.alive.items():
        if process.pending_timers:
            return f"{scene.name(pid)} has a timer (timer_create), which may end it"
    return ""


def who_acts(scene: Scene, waits: dict[int, Wait], leaves: list[int]) -> str:
    """Whoever may go on by itself although others hang, in words; empty: nobody, and everybody was seen."""
    movement = scene.movement
    if not scene.after.is_whole or scene.after.is_hidden:
        return "not all of its processes could be seen"
    if movement.born or movement.gone:
        return "processes come and go"
    for pid in leaves:
        if may_go_on(waits[pid]):
            return f"{scene.name(pid)} may go on: {waits[pid].text}"
    timer = timer_in_tree(scene, waits)
    if timer:
        return timer
    for pid, process in scene.alive.items():
        if pid in movement.ran and not is_hung(waits[pid]):
            return f"{scene.name(pid)} ran between the looks"
        unseen = _unseen_waker(process)
        if unseen:
            return f"{scene.name(pid)}: {unseen}"
    return ""


def _unseen_waker(process: Process) -> str:
    """An interval timer (setitimer, alarm) is visible nowhere; a handler of its signal suggests one.

    Who handles that of virtual time as well, as shells with a trap do, catches everything that would end it, and has
    no timer in mind.
    """
    if process.pending_timers is None:
        return "its timers are not readable"
    if process.handled_signals is None:
        return "the signals it handles are not readable"
    if _ALARM in process.handled_signals and _VIRTUAL_ALARM not in process.handled_signals:
        return "it handles SIGALRM, so that a timer nobody can see may end it"
    if len([thread for thread in process.threads.values() if not thread.is_gone]) < process.thread_count:
        return "not all of its threads could be seen"
    return ""
