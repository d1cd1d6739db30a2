"""The wait-for graph: who waits for whom in the tree. A verdict is drawn from its leaves; a sure circle is a deadlock.

`sh -c "sleep 60 | cat"` sleeps: sh waits for both children, cat for sleep, and sleep for nobody: the leaf.
"""

from sidecar.core.scene import Scene, Wait

_PASSED_ON = frozenset({"child_wait", "pipe_wait", "ipc_wait", "traced"})
"""Waits that are explained by what the other process does; any other wait is a leaf even with an edge."""


def leaves_of(scene: Scene, waits: dict[int, Wait]) -> list[int]:
    """Processes that wait for nobody who is alive in the tree."""
    return [pid for pid, wait in waits.items() if wait.kind not in _PASSED_ON or not _edges(pid, wait, waits)]


def circle_of(scene: Scene, waits: dict[int, Wait]) -> list[int]:
    """Processes that wait for each other in a circle of which no edge is a guess or has a time limit; [] if none.

    Only edges to one process count: who waits for one of several may be woken by another.
    """
    certain: dict[int, int] = {}
    for pid, wait in waits.items():
        on = _edges(pid, wait, waits)
        if len(on) == 1 and not wait.is_guess and not wait.is_timed and wait.confidence != "unknown":
            certain[pid] = on[0]
    for start in certain:
        path = [start]
        while path[-1] in certain:
            following = certain[path[-1]]
            if following in path:
                return path[path.index(following) :]
            path.append(following)
    return []


def _edges(pid: int, wait: Wait, waits: dict[int, Wait]) -> tuple[int, ...]:
    return tuple(other for other in wait.on if other in waits and other != pid)
