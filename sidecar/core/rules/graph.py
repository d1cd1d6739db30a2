"""The wait-for graph: who waits for whom in the tree. A verdict is drawn from its leaves; a sure circle is a deadlock.

`sh -c "sleep 60 | cat"` sleeps: sh waits for both children, cat for sleep, and sleep for nobody: the leaf.
"""

from sidecar.core.evidence import SOCKET
from sidecar.core.finding import UNSURE
from sidecar.core.rules.scene import Scene, Wait
from sidecar.core.rules.signals import CHILD, waking_signals

_PASSED_ON = frozenset({"child_wait", "pipe_wait", "ipc_wait", "lock_wait", "traced"})
"""Waits that are explained by what the other process does; any other wait is a leaf even with an edge."""
_IN_A_KNOT = _PASSED_ON | {"output_blocked"}
_OF_OWNERS = frozenset({"lock_wait", "child_wait"})
"""Waits for something that has an owner: that alone is proof. An end of a pipe or a socket could be where nobody looks:
with a process outside the tree, or in a message that carries it (SCM_RIGHTS, unix(7))."""


def leaves_of(scene: Scene, waits: dict[int, Wait]) -> list[int]:
    """Processes that wait for nobody who is alive in the tree."""
    return [pid for pid, wait in waits.items() if wait.kind not in _PASSED_ON or not _edges(pid, wait, waits)]


def circle_of(scene: Scene, waits: dict[int, Wait]) -> list[int]:
    """Processes that can only be woken by each other: a knot of the graph; [] if there is none.

    Who waits for any of several is stuck only if all of them are. Nobody in a knot has an edge that is a guess, a time
    limit, a handler for a signal that may wake it, or has run since the look before: else nothing is proved.
    """
    moved = scene.movement.ran | scene.movement.ran_unknown
    in_flight = _may_be_in_flight(scene)
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
        and (wait.kind in _OF_OWNERS or not in_flight)
    }
    while True:
        free = {pid for pid in stuck if not waits[pid].on or not stuck.issuperset(_wakers(scene, pid, waits[pid]))}
        if not free:
            return sorted(stuck)
        stuck -= free


def is_proof(scene: Scene, waits: dict[int, Wait], circle: list[int]) -> bool:
    """Only owners are in it, and nobody in the tree has a socket over which a descriptor could have been handed on."""
    if any(waits[pid].kind not in _OF_OWNERS for pid in circle):
        return False
    for process in scene.alive.values():
        for found in (process.descriptors or {}).values():
            record = scene.socket(found.inode) if found.kind == SOCKET else None
            if found.kind == SOCKET and (record is None or record.protocol == "unix"):
                return False
    return True


def _may_be_in_flight(scene: Scene) -> bool:
    """A message that nobody has received yet may carry a descriptor: unix(7), SCM_RIGHTS."""
    return any(record.protocol == "unix" and record.receive_queue for record in scene.after.sockets.values())


def _cannot_be_signalled(scene: Scene, pid: int) -> bool:
    """It handles no signal that may wake it, but for that of a child's end: the child itself counts then."""
    waking = waking_signals(scene.alive[pid])
    return waking is not None and set(waking) <= {CHILD}


def _wakers(scene: Scene, pid: int, wait: Wait) -> tuple[int, ...]:
    """Whom it waits for, and its children where it handles the signal of their end."""
    return (*wait.on, *scene.children(pid)) if waking_signals(scene.alive[pid]) else wait.on


def _edges(pid: int, wait: Wait, waits: dict[int, Wait]) -> tuple[int, ...]:
    return tuple(other for other in wait.on if other in waits and other != pid)
