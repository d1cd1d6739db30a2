"""Who may be at the other end of the command's streams: the supervisor, the agent above it, and their children.

The whole of /proc is not searched: that costs a thousand times as much, and finds little more. Cost: a few
microseconds a process, at most 48. Privilege: as for the tree; those of other users stay unnamed.
"""

from collectors.kernel import Kernel
from collectors.processes import Tree, read_stat
from sidecar.core.evidence import Look, Process

_ANCESTORS_AT_MOST = 8
_NEIGHBOURS_AT_MOST = 48


def neighbours_of(kernel: Kernel, look: Look, supervisor: int | None) -> list[Process]:
    """Ancestors of the tree and the children of the nearest two, none of them of the tree itself."""
    root = look.processes.get(look.root)
    pid = supervisor if supervisor is not None else (root.parent if root is not None else 0)
    found: dict[int, Process] = {}
    tree = Tree(kernel)
    for step in range(_ANCESTORS_AT_MOST):
        if pid <= 1:
            break
        process, _ = read_stat(kernel, pid)
        if process is None:
            break
        found[pid] = process
        if step < 2:
            for sibling in tree.children(pid):
                if sibling not in look.processes and sibling not in found and len(found) < _NEIGHBOURS_AT_MOST:
                    relative, _ = read_stat(kernel, sibling)
                    if relative is not None:
                        found[sibling] = relative
        pid = process.parent
    if supervisor is None:
        found.pop(kernel.own_pid, None)
    return list(found.values())
