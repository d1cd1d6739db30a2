"""What each verdict means in plain words; what to do about it is in core.advice. docs/verdicts.md tells more.

`WHAT` completes a sentence that begins with a program's name; `GROUP` is the second sentence: whether that is in order.
"""

from sidecar.core.verdict_names import group_of

WHAT = {
    "computing": "computes, by itself or through children that have ended meanwhile",
    "disk_io": "reads or writes storage",
    "network_transfer": "sends or receives data over the network",
    "cpu_starved": "could run, and gets no processor most of the time",
    "cpu_throttled": "is held back by the CPU quota of its control group",
    "memory_thrash": "waits for its own memory pages again and again: it has too little memory",
    "sleeping": "sleeps until a time that it has set itself",
    "polling": "wakes up regularly, and does next to nothing then",
    "network_wait": "waits for an answer from another host or service",
    "ipc_wait": "waits for another process on this host",
    "pipe_wait": "waits at a pipe whose other end is outside the command's own processes",
    "child_wait": "waits for another process to end",
    "signal_wait": "waits for a signal",
    "watching_files": "waits for files to change",
    "listening": "is a service that waits for somebody to connect",
    "traced": "is held by a debugger or tracer",
    "event_idle": "waits for an event inside itself, without a time limit",
    "awaiting_input": "waits for somebody to type, or to send it input",
    "stopped": "was stopped by a signal",
    "output_blocked": "wants to write, and nobody takes what it writes",
    "lock_wait": "waits for a lock on a file that another process holds",
    "fifo_wait": "waits for somebody to open the other end of a FIFO",
    "deadlock_suspected": "waits for itself: its threads or processes seem to wait for each other in a circle",
    "network_peer_dead": "waits for a host that does not acknowledge any more what it was sent",
    "network_connecting": "tries to connect, and gets no answer",
    "network_peer_not_reading": "wants to send, and the other side has stopped reading",
    "filesystem_wait": "is stuck in a file system that does not answer",
    "output_held": "lives on after the command has exited, and holds its output open",
    "frozen": "is frozen with its control group",
    "oom_stall": "is out of memory, and nothing is killed to make room",
    "internal_wait": "waits inside itself, in ways that an idle program and a deadlocked one have in common",
    "unknown": "is silent for a reason that cannot be seen from here",
}

GROUP = {
    "working": "It works.",
    "waiting": "That is what a healthy program does, too; it goes on when what it waits for comes.",
    "needs_someone": "It goes on only when somebody acts.",
    "may_be_hung": "As far as can be seen, nothing of it will move by itself: it may be hung.",
    "unknown": "Whether it is well cannot be told from outside.",
}


def sentences(verdict: str, subject: str) -> tuple[str, str]:
    """Two plain sentences: what `subject` is about, and whether that is in order. Fit for a name that is not known."""
    what = WHAT.get(verdict, f"is under a verdict that this version does not know: {verdict}")
    return f"{subject} {what}.", GROUP[group_of(verdict)]
