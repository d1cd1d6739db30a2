"""What to do about a command that is silent: one table, from which `sidecar explain`, `top`, the web page and
docs/verdicts.md take it.

A text of FIRST begins with what to look at or do first, and has a command to paste; one of THEN says how it is ended.
A verdict may have several of the first: `filesystem_wait, frozen` is one of `filesystem_wait`. The rules fill in what
only a look knows: that is a verdict's `hint`. Where there is none, whoever shows the verdict fills in the pid, and what
is not known stays a word in capitals: HOST, GROUP.
"""

from sidecar.core.verdict_names import group_of

TYPE_CHECKING = False  # typing.TYPE_CHECKING, without the 7 ms of importing typing
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

_STACKS = {
    "python": "`py-spy dump --pid {pid}` (`pip install py-spy`)",
    "java": "`jcmd {pid} Thread.print`",
    "node": "`node inspect -p {pid}`",
}
"""By how the program's name begins."""
_OTHER_STACKS = "`gdb -p {pid} -batch -ex 'thread apply all bt'`"
_ANY_STACKS = f"{_OTHER_STACKS}; Python: {_STACKS['python']}, Java: {_STACKS['java']}"

FIRST = {
    "computing": "Leave it alone, unless it takes far longer than it should; then see what is hot: `top -b -H -n 1 "
    "-p {pid}`.",
    "disk_io": "Leave it alone; `grep _bytes /proc/{pid}/io`, twice, shows how fast it goes.",
    "network_transfer": "Leave it alone; `ss -tnpi | grep -A1 pid={pid},`, twice, shows how fast it goes.",
    "cpu_starved": "See what takes the processors: `ps -eo pid,ni,pcpu,args --sort=-pcpu | head`. Run fewer things "
    "at once, or let this one go first: `renice -n -5 -p {pid}` as root.",
    "cpu_throttled": "Raise the CPU limit of its container or control group (`cat /proc/{pid}/cgroup` names it): "
    "`echo {value} > {file}` as root takes it off.",
    "memory_thrash": "Give it more memory, or run less beside it: `free -m` shows what the host has left, `cat "
    "/proc/{pid}/cgroup` which control group may have a limit of its own.",
    "memory_thrash, over memory.high": "Raise memory.high of its control group: `echo max > {file}` as root takes it "
    "off.",
    "sleeping": "Wait, if the time that is left is worth it; `ps -o pid,etime,args -p {pid}` shows what sleeps.",
    "polling": "See what it polls for, a file, a lock, a server's state: `timeout 5 strace -f -p {pid}` as root, "
    "which slows it meanwhile.",
    "network_wait": "Look at the server, its log, its load, its locks: only there can a slow answer be told from one "
    "that never comes. `ss -tnpi | grep -A1 pid={pid},` shows the connection.",
    "ipc_wait": "Look at the process at the other end: `lsof +E -a -p {pid}` names it, `sidecar why` with its pid "
    "says what it does.",
    "ipc_wait, with a peer": "Look at {peer}, at the other end: `sidecar why {peer_pid}`.",
    "pipe_wait": "Look at the process at the other end of the pipe: `lsof +E -a -p {pid}` names it, `sidecar why` "
    "with its pid says what it does.",
    "pipe_wait, with a peer": "Look at {peer}, at the other end of the pipe: `sidecar why {peer_pid}`.",
    "pipe_wait, at a FIFO": "Look at the process at the other end of {file}: `fuser -v {file}` names who has it open, "
    "`sidecar why` with its pid says what it does.",
    "child_wait": "Look at the process it waits for: `ps -o pid,stat,etime,args --ppid {pid}` names its children, "
    "`sidecar why` with its pid says what it does.",
    "child_wait, of no child of its own": "Look at {peer}, which it waits for: `sidecar why {peer_pid}`.",
    "signal_wait": "Find out who is to send it the signal; as a rule that is what started it: `ps -o pid,args -p "
    "$(ps -o ppid= -p {pid})`.",
    "watching_files": "See whether it is still needed, for it never ends by itself: `ps -o pid,etime,args -p {pid}`. "
    "Next time start it in the background.",
    "listening": "See whether it is still needed, for it never ends by itself: `ps -o pid,etime,args -p {pid}`. Next "
    "time start it in the background.",
    "traced": "Continue or detach its tracer, or end that: `grep TracerPid /proc/{pid}/status` says its pid.",
    "event_idle": "Look inside if it stays so: {stacks}.",
    "awaiting_input": "See what asks: `ps -o pid,tty,args -p {pid}`. Answer it, or end it and start it so that it "
    "does not ask: `-y`, `--batch`, `GIT_TERMINAL_PROMPT=0`, `</dev/null`.",
    "awaiting_input, from a pipe": "See why {peer} neither writes to its standard input nor closes it: `sidecar why "
    "{peer_pid}`. Next time start it with `</dev/null`.",
    "stopped": "Find out why it was stopped, then continue it: `kill -CONT {pids}`. If it wanted the terminal "
    "(SIGTTIN, SIGTTOU) it stops again: end it, and start it without one, `</dev/null`.",
    "output_blocked": "See why nobody reads its output: `lsof +E -a -d 1,2 -p {pid}` names who should, `sidecar why` "
    "with that pid says what it does instead.",
    "output_blocked, by a reader": "See why {peer} does not read its output: `sidecar why {peer_pid}`.",
    "output_blocked, by the agent": "See why the agent does not read its output: `lsof +E -a -d 1,2 -p {supervisor}` "
    "names who should (as a rule what started it, `ps -o ppid= -p {supervisor}`), `sidecar why` with that pid says "
    "what it does instead.",
    "output_blocked, on a terminal": "Type Ctrl-Q at its terminal, which takes back a Ctrl-S; from elsewhere: `stty "
    "-F {terminal} -drain -ixon`. If that does not help, see who should read it: `fuser -v {terminal}`.",
    "lock_wait": "See who holds the lock: `lslocks`. Wait for the holder, or end it; "
    "never delete the file, for then two would hold it.",
    "lock_wait, with a holder": "Look at {peer}, which holds the lock: `sidecar why {peer_pid}`. Wait for it, or end "
    "it: `kill {peer_pid}`. If the lock is held even then, what inherited the file holds it: `fuser -v {file}` names "
    "that. Never delete the file, for then two would hold it.",
    "lock_wait, whose taker has ended": "See who else has the file open, for process {peer_pid}, which took the lock, "
    "has ended: `fuser -v {file}`. Wait for what inherited it, or end that; never delete the file, for then two would "
    "hold it.",
    "fifo_wait": "Start the program that belongs at the other end of {file}; what has opened this end: `ps "
    "-o pid,ppid,args -p {pid}`.",
    "deadlock_suspected": "Keep its stacks for whoever mends it: {stacks}.",
    "deadlock_suspected, of several processes": "Keep who waits for whom for whoever mends it: `ps -o "
    "pid,ppid,stat,wchan:20,args -p {commas}`, beside the evidence.",
    "network_peer_dead": "See whether {address} answers anybody: `timeout 5 bash -c '</dev/tcp/{host}/{port}'; echo "
    "$?` (0: it does). The connection is cut, or that host is gone.",
    "network_connecting": "See whether {address} answers anybody: `timeout 5 bash -c '</dev/tcp/{host}/{port}'; echo "
    "$?` (0: it does). If not, check the address, the host, and the firewalls between.",
    "network_peer_not_reading": "Look at the program at the other side, on the host of {address}: there `ss -tnp "
    "sport = :{port}` names it, and `sidecar why` with its pid says why it does not read.",
    "filesystem_wait": "Look at the server of the file system (NFS: its host; FUSE: its daemon), never at its files, "
    "for who looks there waits too: `grep -F {mount} /proc/self/mountinfo` says what it is. Where it is gone for "
    "good, `umount -f {mount}` as root makes all waits there fail, even where it says that it is busy.",
    "filesystem_wait, frozen": "Find out who froze the file system, then thaw it: `fsfreeze -u {mount}` as root.",
    "output_held": "See whether what holds its output is still needed: `ps -o pid,etime,args -p {commas}`. If not, "
    "end it: `kill {pids}`. Next time start it with its output redirected: `>log 2>&1 &`.",
    "frozen": "Find out who froze its control group (`cat /proc/{pid}/cgroup` names it), then thaw it: `echo {value} "
    "> {file}` as root; a container: `docker unpause CONTAINER`.",
    "oom_stall": "Raise the memory limit of its control group (`cat /proc/{pid}/cgroup` names it), or end something "
    "in it: `echo {value} > {file}` as root doubles it.",
    "internal_wait": "See which thread waits for which: {stacks}. A Go program prints its goroutines on `kill -QUIT "
    "{pid}`, and ends.",
    "unknown": "Make visible what could not be seen, as said below, and look again: `sidecar why {pid}`.",
}

_OPEN = {
    "pid": "PID",
    "host": "HOST",
    "port": "PORT",
    "address": "HOST:PORT",
    "mount": "MOUNTPOINT",
    "terminal": "TERMINAL",
    "supervisor": "SUPERVISOR_PID",
    "peer": "PROGRAM",
    "peer_pid": "ITS_PID",
    "file": "FILE",
    "value": "VALUE",
}
_OPEN_FILES = {
    "cpu_throttled": ("/sys/fs/cgroup/GROUP/cpu.max", "max"),
    "memory_thrash, over memory.high": ("/sys/fs/cgroup/GROUP/memory.high", "max"),
    "frozen": ("/sys/fs/cgroup/GROUP/cgroup.freeze", "0"),
    "oom_stall": ("/sys/fs/cgroup/memory/GROUP/memory.limit_in_bytes", "BYTES"),
}
THEN = {
    "deadlock_suspected": "Then end it: {end}.",
    "network_peer_dead": "End it and start it again, {end}: what it sent last may have been done or not, so look "
    "before you repeat what must not happen twice.",
    "network_connecting": "By itself it gives up after two minutes, as a rule; at once: {end}.",
    "filesystem_wait": "If nobody needs it: {end}; in state D it ends only when the file system answers.",
    "output_held": "",
    "frozen": "If nobody needs it: {end}; in a freezer of version 1 it ends only when it is thawed.",
}
"""`end` is a command. Without an entry: _THEN of the group."""
_THEN = {"working": "If it takes too long: {end}."}
_THEN_ELSE = "If nobody needs it: {end}."

_SAFE = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_@%+=:,./-")


def first(name: str, program: str | None = None, **known: object) -> str:
    """A text of FIRST, with what is known in it; that is for `hint`. What is empty or None is not known."""
    filled: dict[str, object] = dict(_OPEN)
    if name in _OPEN_FILES:
        filled["file"], filled["value"] = _OPEN_FILES[name]
    filled.update({key: value for key, value in known.items() if value})
    filled["peer"] = str(filled["peer"]).replace("`", "'")  # nothing of it shall look like what is to be pasted
    filled.setdefault("pids", filled["pid"])
    filled.setdefault("commas", filled["pid"])
    filled["stacks"] = _stacks(program).format(pid=filled["pid"])
    return FIRST.get(name, FIRST["unknown"]).format(**filled)


def _stacks(program: str | None) -> str:
    if program is None:
        return _ANY_STACKS
    return next((command for name, command in _STACKS.items() if program.startswith(name)), _OTHER_STACKS)


def then(verdict: str, end: str) -> str:
    """How it is ended; `end` is the command. Empty where the first says it."""
    return THEN.get(verdict, _THEN.get(group_of(verdict), _THEN_ELSE)).format(end=f"`{end}`")


def advice(found: "Mapping[str, Any]") -> list[str]:
    """What a person would do about a command that runs, one or two texts. `found` has the keys of core.verdict_fields,
    and `pid` and `commandId` where they are known."""
    verdict = str(found["verdict"])
    leaf = found.get("leaf")
    pid, program = (found.get("pid"), None) if leaf is None else (leaf["pid"], leaf["program"])
    kill = "kill -KILL" if verdict == "stopped" else "kill"  # another signal waits until it is continued
    end = f"sidecar cancel {found['commandId']}" if "commandId" in found else f"{kill} {found.get('pid', 'PID')}"
    return [text for text in (found.get("hint") or first(verdict, program, pid=pid), then(verdict, end)) if text]


def quoted(text: str) -> str:
    """`text` as one word of a shell, whatever it holds; empty where it cannot be shown as it is, and so not pasted."""
    if not text.isprintable():
        return ""
    if text and all(letter in _SAFE for letter in text):
        return text
    return "'" + text.replace("'", "'\\''") + "'"
