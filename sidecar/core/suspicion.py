"""Whether a silent command may be hung: by its verdict, and by how long that has held.

A verdict of the group `may be hung` says so by itself. One of `needs someone` (a prompt, a lock, a stop) is in order
for a while; once it has held for longer than a budget, nobody is coming, and to whoever waits for the command that is
a hang too. Said is "may be hung", never "is hung".
"""

DEFAULT_BUDGET_MS = 60_000


def may_be_hung(group: str, held_ms: int, budget_ms: int = DEFAULT_BUDGET_MS) -> bool:
    """`group` is the verdict's, `held_ms` for how long it has been this verdict, in one silence."""
    return group == "may_be_hung" or (group == "needs_someone" and held_ms >= budget_ms)
