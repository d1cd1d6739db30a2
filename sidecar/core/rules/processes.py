"""What a process as a whole waits for, from the waits of its threads."""

from sidecar.core.advice import first
from sidecar.core.evidence import Process
from sidecar.core.finding import INFERRED, UNSURE
from sidecar.core.rules.actors import is_hung, may_go_on, spared
from sidecar.core.rules.calls import wait_of_thread
from sidecar.core.rules.descriptors import most_telling
from sidecar.core.rules.futexes import owner_circle, wait_inside
from sidecar.core.rules.scene import FUTEX, Scene, Wait

IN_THE_BACKGROUND = frozenset({"event_idle", "sleeping", "signal_wait", "unknown"})
"""Waits of helper threads: beside another wait they are not what the process waits for."""
_STOPPED_NAMED = 16
_SIGNAL_NAMES = {19: "SIGSTOP", 20: "SIGTSTP", 21: "SIGTTIN", 22: "SIGTTOU"}
_STOP_REASONS = {
    21: "it tried to read its terminal from the background",
    22: "it tried to write to or set up its terminal from the background",
    20: "somebody typed Ctrl-Z",
}


def wait_of_process(scene: Scene, process: Process) -> Wait:
    """One wait that stands for all threads of a process."""
    threads = [thread for thread in process.threads.values() if not thread.is_gone]
    if not threads:
        return Wait("unknown", "no thread could be read", UNSURE)
    if any(thread.state == "T" for thread in threads):
        return _stopped(scene, process)
    if any(thread.state == "t" for thread in threads):
        return _traced(scene, process)
    waits = [wait_of_thread(scene, process, thread) for thread in threads]
    circle = owner_circle(scene, process, threads)
    if circle is not None and not any(may_go_on(wait) for wait in waits):
        return circle
    futexes = [wait for wait in waits if wait.kind == FUTEX]
    others = [wait for wait in waits if wait.kind != FUTEX]
    if not others:
        return wait_inside(scene, process, threads, futexes)
    mains = [wait for thread, wait in zip(threads, waits, strict=True) if thread.tid == process.pid]
    hung = [wait for wait in others if is_hung(wait)] + ([] if circle is None else [circle])
    beside = ""
    if hung and any(may_go_on(wait) for wait in waits):
        living = [wait for wait in others if may_go_on(wait)]
        is_of_main = any(is_hung(wait) for wait in mains)
        if not living or (is_of_main and all(wait.kind in IN_THE_BACKGROUND for wait in living)):
            return spared(most_telling(hung), "another of its threads may go on")
        others = [wait for wait in others if not is_hung(wait)]
        beside = f"; beside it {most_telling(hung).text}"
    # A helper's sleep must not stand for a thread whose wait is not known.
    unknown = [wait for wait in others if wait.kind == "unknown"]
    foreground = [wait for wait in others if wait.kind not in IN_THE_BACKGROUND] or unknown or others
    telling = most_telling(foreground)
    kinds = sorted({wait.kind for wait in foreground} - {telling.kind})
    more = f" ({len(waits)} threads{', also ' + ', '.join(kinds) if kinds else ''})" if len(waits) > 1 else ""
    more += beside
    if any(wait.kind == FUTEX for wait in mains):
        more += "; its main thread waits for its other threads"
    on = tuple(sorted({pid for wait in foreground for pid in wait.on}))
    # Any of several threads may go on: the edges are all there is only where each leads into the tree.
    is_guess = any(wait.is_guess or not wait.on for wait in others)
    is_timed = any(wait.is_timed for wait in waits)
    return Wait(
        telling.kind,
        telling.text + more,
        telling.confidence,
        on,
        is_guess,
        is_timed,
        telling.left_s,
        telling.hint,
        lasted_s=telling.lasted_s,
    )


def _stopped(scene: Scene, process: Process) -> Wait:
    """proc(5), stat field 52 holds the stop signal of a stopped process."""
    signal = _SIGNAL_NAMES.get(process.stop_signal, f"signal {process.stop_signal}" if process.stop_signal else "")
    why = _STOP_REASONS.get(process.stop_signal, "")
    text = f"stopped by {signal or 'a signal that is not readable'}" + (f": {why}" if why else "")
    if process.terminal and process.foreground_group not in (-1, process.group):
        text += (
            f"; its group {process.group} is in the background of the terminal ({process.foreground_group} is in front)"
        )
    # All of them: whoever stops a pipeline from its terminal stops each of it.
    stopped = [pid for pid, one in scene.alive.items() if any(thread.state == "T" for thread in one.threads.values())]
    pids = " ".join(map(str, stopped[:_STOPPED_NAMED]))
    return Wait("stopped", text, hint=first("stopped", pid=process.pid, pids=pids))


def _traced(scene: Scene, process: Process) -> Wait:
    tracer = process.tracer or 0
    on = (tracer,) if tracer in scene.alive else ()
    who = scene.name(tracer) if tracer else "not readable"
    return Wait("traced", f"stopped by its tracer {who}", INFERRED if not tracer else "measured", on)
