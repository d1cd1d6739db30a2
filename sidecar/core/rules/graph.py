"""The wait-for graph: who waits for whom in the tree. A verdict is drawn from its leaves; a sure circle is a deadlock.

`sh -c "sleep 60 | cat"` sleeps: sh waits for both children, cat for sleep, and sleep for nobody: the leaf.
"""

from sidecar.core.finding import UNSURE
from sidecar.core.rules.scene import Scene, Wait
from sidecar.core.rules.signals import CHILD, waking_signals

_PASSED_ON = frozenset({"child_wait", "pipe_wait", "ipc_wait", "traced"})
"""Waits that are explained by what the other process does; any other wait is a leaf even with an edge."""
_IN_A_KNOT = _PASSED_ON | {"lock_wait", "output_blocked"}


def leaves_of(scene: Scene, waits: dict[int, Wait]) -> list[int]:
    """Processes that wait for nobody who is alive in the tree."""
    return [pid for pid, wait in waits.items() if wait.kind not in _PASSED_ON or not _edges(pid, wait, waits)]


def circle_of(scene: Scene, waits: dict[int, Wait]) -> list[int]:
    """Processes that can only be woken by each other: a knot of the graph; [] if there is none.

    Who waits for any of several is stuck only if all of them are. Nobody in a knot has an edge that is a guess, a time
    limit, a handler for a signal that may wake it, or has run since the look before: else nothing is proved.
    """
    moved = scene.movement.ran | scene.movement.ran_unknown
    stuck = {
        pid
        for pid, wait in waits.items()
        if wait.kind in _IN_A_KNOT
        and not wait.is_guess
        and not wait.is_timed
        and wait.confidence != UNSURE
        and pid not in moved
        and _cannot_be_signalled(scene, pid)
        and (wait.kind == "lock_wait" or scene.sees_everybody)
    }
    while True:
        free = {pid for pid in stuck if not waits[pid].on or not stuck.issuperset(_wakers(scene, pid, waits[pid]))}
        if not free:
            return sorted(stuck)
        stuck -= free


def _cannot_be_signalled(scene: Scene, pid: int) -> bool:
    """It handles no signal that may wake it, but for that of a child's end: the child itself counts then."""
    waking = waking_signals(scene.alive[pid])
    return waking is not None and set(waking) <= {CHILD}


def _wakers(scene: Scene, pid: int, wait: Wait) -> tuple[int, ...]:
    """Whom it waits for, and its children where it handles the signal of their end."""
    return (*wait.on, *scene.children(pid)) if waking_signals(scene.alive[pid]) else wait.on


def _edges(pid: int, wait: Wait, waits: dict[int, Wait]) -> tuple[int, ...]:
    return tuple(other for other in wait.on if other in waits and other != pid)
