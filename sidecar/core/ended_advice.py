"""What to do about a command that has ended, in a sentence or two: `sidecar explain`, the web page and docs/verdicts.md
have it from this table. Nothing where it ended well.

A reason (core.lifecycle) may have several: `signaled, by SIGKILL` is one of `signaled`. What is not known stays a word
in capitals, as in core.advice.
"""

from sidecar.core.lifecycle import SIGNAL, VERDICT

TYPE_CHECKING = False  # typing.TYPE_CHECKING, without the 7 ms of importing typing
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

AFTER = {
    "exited": "Read its output, or its manual: what exit code {code} means is its own affair, not the sidecar's.",
    "exited, above 128": "Read its output: by the custom of shells {code} is 128 and the number of a signal that ended "
    "one of its processes; `kill -l {code}` names it.",
    "exited, with 137": "{killed} By the custom of shells {code} is a process of it that SIGKILL ended.",
    "exited, and left what holds its output": "See whether what it left behind, holding its output, is still needed: "
    "`ps -o pid,etime,args -p {commas}`. If not, end it: `kill {pids}`. Next time start it with its output redirected.",
    "signaled": "Find out who sent {signal}; the sidecar did not. What else happened then: `journalctl --since "
    "@{since} --until @{until}`.",
    "signaled, by SIGKILL": "{killed} If not, somebody sent SIGKILL; the sidecar did not.",
    "signaled, by a crash": "See whether its core was kept: `coredumpctl info {pid}`. {signal} is a crash, a fault of "
    "the program.",
    "timeout": "See by its last verdict what it did all that time. If it was at work, give it longer (`--timeout`, or "
    "what the agent asks for); `sidecar config show` says what is set here.",
    "silence_timeout": "See by its last verdict what it waited for. If that was in order, give it longer "
    "(`--silence-timeout`); `sidecar config show` says what is set here.",
    "cancelled": "Ask whoever stopped it, if that was not meant.",
    "cancelled, by a signal": "Ask the sender of the signal, if that was not meant: as a rule it is the agent, whose "
    "own time was up, or whose user interrupted it.",
    "cancelled, by a rule": "See whether the rule is right: `sidecar config show` says where `on_verdict` is set.",
    "cancelled, and not all died of SIGKILL": "See what holds what did not die: {whys}.",
    "spawn_failed": "Look for the program as the agent does: `command -v {program}`. ENOENT: there is none of that "
    "name on its PATH; EACCES: it may not be executed.",
    "lost": "See whether it runs on without its supervisor, which was killed or fell with the host: `ps -o "
    "pid,lstart,args -p {pid}` (another start is another command). If nobody needs it: `kill {pid}`. {killed}",
}
_KILLED = (
    "See whether the kernel killed for want of memory: `journalctl -k --since @{since} --until @{until} | grep -i "
    "'killed process'` (or `dmesg -T`)."
)
_CANCELLED = {SIGNAL: "cancelled, by a signal", VERDICT: "cancelled, by a rule"}
_CRASHES = frozenset(("SIGSEGV", "SIGABRT", "SIGBUS", "SIGILL", "SIGFPE", "SIGTRAP", "SIGSYS"))
_AROUND_S = 60
_OPEN = {
    "code": "CODE",
    "signal": "SIGNAL",
    "pid": "PID",
    "pids": "PIDS",
    "commas": "PIDS",
    "whys": "`sidecar why PID`",
    "program": "PROGRAM",
    "since": "BEGIN",
    "until": "END",
}


def fill(name: str, **known: object) -> str:
    """A text of AFTER, with what is known in it."""
    filled: dict[str, object] = {**_OPEN, **{key: value for key, value in known.items() if value is not None}}
    filled["killed"] = _KILLED.format(**filled)
    return AFTER[name].format(**filled)


def ended_advice(found: "Mapping[str, Any]") -> list[str]:
    """`found` has the keys of a settle frame, and `pid`, `program` and `endUnixMs` where they are known."""
    name = _name(found)
    told = []
    if name is not None:
        ended_s = found["endUnixMs"] // 1000 if "endUnixMs" in found else None
        told.append(
            fill(
                name,
                code=found.get("exitCode"),
                signal=found.get("signal"),
                pid=found.get("pid"),
                program=_plain(found.get("program")),
                since=None if ended_s is None else ended_s - _AROUND_S,
                until=None if ended_s is None else ended_s + _AROUND_S,
            )
        )
    survivors = _pids((found.get("stop") or {}).get("survivors", ()))
    if survivors:
        whys = ", ".join(f"`sidecar why {pid}`" for pid in survivors)
        told.append(fill("cancelled, and not all died of SIGKILL", whys=whys))
    holders = _pids(found.get("outputHeldBy", ()))
    if holders:
        text = fill("exited, and left what holds its output", pids=" ".join(holders), commas=",".join(holders))
        told.append(text)
    return told


def _name(found: "Mapping[str, Any]") -> str | None:
    reason = str(found.get("reason"))
    if reason == "exited":
        code = found.get("exitCode", 0)
        if code == 137:
            return "exited, with 137"
        return None if code == 0 else "exited, above 128" if 128 < code <= 128 + 64 else reason
    if reason == "signaled" and found.get("signal") == "SIGKILL":
        return "signaled, by SIGKILL"
    if reason == "cancelled":
        return _CANCELLED.get(str((found.get("stop") or {}).get("askedBy")), reason)
    if reason == "signaled" and found.get("signal") in _CRASHES:
        return "signaled, by a crash"
    return reason if reason in AFTER else None


def _pids(named: "Sequence[str]") -> list[str]:
    """Of texts that begin with one: `4711 sleep: stdout`."""
    pids = [str(one).partition(" ")[0] for one in named]
    return [pid for pid in pids if pid.isdecimal()]


def _plain(program: object) -> str | None:
    """A name that can be pasted as it is."""
    text = str(program)
    return text if program and all(letter.isalnum() or letter in "._+-" for letter in text) else None
