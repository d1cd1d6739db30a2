"""What each verdict means in plain words, and what a person would do next. One table; docs/verdicts.md tells more.

`WHAT` completes a sentence that begins with a program's name; `ADVICE` is used where the look itself found nothing
better to say (`Verdict.hint`); `GROUP` is the second sentence: whether that is in order.
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

ADVICE = {
    "computing": "Leave it alone. If it takes too long, see which thread is hot: `top -H -p PID`, or a profiler.",
    "disk_io": "Leave it alone.",
    "network_transfer": "Leave it alone.",
    "cpu_starved": "See what takes the processors (`top`), and run fewer things at once or raise its weight.",
    "cpu_throttled": "Raise the CPU limit of its container or control group (cpu.max).",
    "memory_thrash": "Give it more memory, or run less beside it.",
    "sleeping": "Wait, if the time that is left is worth it.",
    "polling": "See what it polls for: a file, a lock, a server's state.",
    "network_wait": "Look at that server; only there can a slow answer be told from one that never comes.",
    "ipc_wait": "Look at the process named: `sidecar why PID`.",
    "pipe_wait": "Look at the process at the other end: `sidecar why PID`.",
    "child_wait": "Look at that process: `sidecar why PID`.",
    "signal_wait": "Find out who is to send the signal.",
    "watching_files": "It never ends by itself. Start it in the background, or end it when it is not needed.",
    "listening": "It never ends by itself. Start it in the background, or end it when it is not needed.",
    "traced": "Continue or detach the tracer.",
    "event_idle": "If it stays so, look inside with the tools of its language (py-spy, jcmd, gdb).",
    "awaiting_input": "Answer it, or start it so that it does not ask (`-y`, `--batch`, `</dev/null`).",
    "stopped": "Continue it with `kill -CONT PID`; if it wanted the terminal, give it none.",
    "output_blocked": "Read its output; on a terminal, Ctrl-Q takes back a Ctrl-S.",
    "lock_wait": "Wait for the holder of the lock, or end it. Do not delete the file.",
    "fifo_wait": "Start the other side, or end the command.",
    "deadlock_suspected": "Take its stacks (py-spy dump, jcmd PID Thread.print, gdb -p PID), then end it.",
    "network_peer_dead": "End it and try again: the connection is cut, or the host is gone.",
    "network_connecting": "Check the address, and whether a firewall drops the packets.",
    "network_peer_not_reading": "Look at the program at the other side.",
    "filesystem_wait": "Look at the server of the file system (NFS, FUSE); ending the command may not help.",
    "output_held": "Start it with its output redirected, or end it.",
    "frozen": "Thaw its control group (`docker unpause`).",
    "oom_stall": "Raise the memory limit of its control group, or end it.",
    "internal_wait": "Ask its runtime: `py-spy dump --pid PID`, `jcmd PID Thread.print`; of a Go program, "
    "`kill -QUIT PID` prints all goroutines, and ends it.",
    "unknown": "Make visible what could not be seen, as said below, and look again.",
}


def sentences(verdict: str, subject: str) -> tuple[str, str]:
    """Two plain sentences: what `subject` is about, and whether that is in order. Fit for a name that is not known."""
    what = WHAT.get(verdict, f"is under a verdict that this version does not know: {verdict}")
    return f"{subject} {what}.", GROUP[group_of(verdict)]


def advice(verdict: str, hint: str | None) -> str:
    """What a person would do next: what the look suggests, else what fits the verdict."""
    return hint or ADVICE.get(verdict, ADVICE["unknown"])
