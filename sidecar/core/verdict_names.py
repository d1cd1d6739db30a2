"""The names of the verdicts, by group: the vocabulary of everything that shows or counts one.

`group_of` places a name; one that is not known (a newer producer's) is in the group unknown. Labels of
metrics use `label_of`, which is bounded whatever a producer says.
"""

WORKING = (
    "computing",
    "disk_io",
    "network_transfer",
    "cpu_starved",
    "cpu_throttled",
    "memory_thrash",
)
WAITING = (
    "sleeping",
    "polling",
    "network_wait",
    "ipc_wait",
    "pipe_wait",
    "child_wait",
    "signal_wait",
    "watching_files",
    "listening",
    "traced",
    "event_idle",
)
NEEDS_SOMEONE = ("awaiting_input", "stopped", "output_blocked", "lock_wait", "fifo_wait")
MAY_BE_HUNG = (
    "deadlock_suspected",
    "network_peer_dead",
    "network_connecting",
    "network_peer_not_reading",
    "filesystem_wait",
    "output_held",
    "frozen",
    "oom_stall",
)
UNKNOWN = ("internal_wait", "unknown")

GROUPS: dict[str, tuple[str, ...]] = {
    "working": WORKING,
    "waiting": WAITING,
    "needs_someone": NEEDS_SOMEONE,
    "may_be_hung": MAY_BE_HUNG,
    "unknown": UNKNOWN,
}
ALL = tuple(name for names in GROUPS.values() for name in names)
NO_VERDICT = "none"
"""The label of what has no verdict yet: silent for less than one look takes, or no senses available."""

_GROUP_OF = {name: group for group, names in GROUPS.items() for name in names}


def group_of(verdict: str | None) -> str:
    """The group a verdict belongs to; `unknown` for none and for a name that is not known."""
    return _GROUP_OF.get(verdict or "", "unknown")


def label_of(verdict: str | None) -> str:
    """The verdict as a label of a metric: one of ALL or NO_VERDICT; an unheard-of name is `unknown`."""
    if verdict is None:
        return NO_VERDICT
    return verdict if verdict in _GROUP_OF else "unknown"
