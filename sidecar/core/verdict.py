"""Two looks at a process tree in, one verdict out: why is this command silent? Pure.

1. The command has exited and somebody holds its output: `output_held`.
2. Does the tree as a whole work, or is it held back as a whole? `rules.whole_tree`, a table.
3. Else what does each process wait for? `rules.processes`, from its threads' calls (`rules.calls`), descriptors
   (`descriptors`, `sockets`, `files`), mutexes (`futexes`), or from less (`blind`).
4. Who waits for whom? `rules.graph`. The verdict is the most telling of its leaves; a sure circle is a deadlock.

What cannot be read makes a verdict weaker or `unknown`, and is named with it; it never makes a hang of a wait.
"""

from sidecar.core.advice import first
from sidecar.core.evidence import Context, Look
from sidecar.core.finding import INFERRED, MEASURED, PROVED, UNSURE, Leaf, Verdict, weaker
from sidecar.core.records import replace
from sidecar.core.rules.actors import is_hung, may_go_on, spared, timer_in_tree, who_acts
from sidecar.core.rules.descriptors import most_telling
from sidecar.core.rules.files import polled_lock
from sidecar.core.rules.graph import circle_of, is_proof, leaves_of
from sidecar.core.rules.processes import IN_THE_BACKGROUND, wait_of_process
from sidecar.core.rules.scene import RUNNING_WAIT, Scene, Wait
from sidecar.core.rules.whole_tree import leaf_of_tree, verdict_of_tree
from sidecar.core.values import counted
from sidecar.core.verdict_names import group_of

_POLL_PERIOD_S = 5.0
_LEAVES_SHOWN = 4
_SERVED_BY_A_SLEEPER = frozenset({"internal_wait", "fifo_wait"})


def judge(before: Look, after: Look, context: Context | None = None) -> Verdict:
    """Why the command whose tree was looked at twice, a second or so apart, is silent."""
    scene = Scene(before, after, context or Context())
    if not scene.alive and after.is_hidden:
        unseen = tuple(f"{item.source}: {item.remedy}" for item in after.unseen)
        return Verdict("unknown", UNSURE, None, ("the command lives, and /proc does not show it",), unseen=unseen)
    if not scene.alive:
        return Verdict("unknown", UNSURE, None, ("no living process of the command is seen",), alive=False)
    verdict = _judge(scene)
    if scene.context.exit_status is not None and scene.context.output_is_open:
        return _output_held(scene, verdict)
    return verdict


def is_decided(before: Look, after: Look, context: Context | None = None) -> bool:
    """The counters alone decide: what each thread waits for need not be read."""
    scene = Scene(before, after, context or Context())
    return bool(scene.alive) and verdict_of_tree(scene) is not None


def _judge(scene: Scene) -> Verdict:
    whole = verdict_of_tree(scene)
    if whole is not None:
        return _verdict(scene, whole, leaf_of_tree(scene))
    waits = {pid: wait_of_process(scene, process) for pid, process in scene.alive.items()}
    circle = circle_of(scene, waits)
    leaves = leaves_of(scene, waits)
    if circle:
        return _circle(scene, waits, leaves, circle)
    if not leaves:
        return _guessed_circle(scene, waits)
    told = list(leaves)
    if any(is_hung(waits[pid]) for pid in leaves):
        acting = who_acts(scene, waits, leaves)
        if acting:
            _spare(scene, waits, leaves, acting)
    leaf = _most_telling_leaf(waits, leaves)
    found = _settle(scene, leaf, waits[leaf])
    if not scene.after.is_whole:
        # Measured of this process, while whoever was not seen could be the one to tell of.
        found = replace(found, confidence=weaker(found.confidence, INFERRED))
    others = [f"{scene.name(pid)}: {waits[pid].text}" for pid in told if pid != leaf][:_LEAVES_SHOWN]
    return _verdict(scene, found, leaf, others)


def _circle(scene: Scene, waits: dict[int, Wait], leaves: list[int], circle: list[int]) -> Verdict:
    """Processes that nobody but each other could wake; whether that is a hang depends on the others."""
    facts = "; ".join(f"{scene.name(pid)}: {waits[pid].text}" for pid in circle)
    confidence = PROVED if is_proof(scene, waits, circle) else INFERRED
    hint = first("deadlock_suspected, of several processes", commas=",".join(map(str, circle)))
    found = Wait("deadlock_suspected", f"processes wait for each other in a circle: {facts}", confidence, hint=hint)
    acting = who_acts(scene, waits, leaves)
    living = [pid for pid in leaves if may_go_on(waits[pid])]
    if not acting:
        return _verdict(scene, found, circle[0])
    if living:
        leaf = _most_telling_leaf(waits, living)
        return _verdict(scene, _settle(scene, leaf, waits[leaf]), leaf, [found.text])
    return _guessed_circle(scene, waits, f"{found.text}; {acting}")


def _spare(scene: Scene, waits: dict[int, Wait], leaves: list[int], acting: str) -> None:
    """Somebody will go on: what seems hung is a wait like others, and who goes on by itself is the one to tell of."""
    living = [pid for pid in leaves if may_go_on(waits[pid])]
    timer = timer_in_tree(scene, waits)
    for pid in [pid for pid in leaves if is_hung(waits[pid])]:
        wait = spared(waits[pid], acting)
        if living:
            leaves.remove(pid)
        elif wait.kind == "internal_wait" and timer:
            wait = Wait("sleeping", f"{waits[pid].text}; {timer}", INFERRED, is_timed=True, hint=wait.hint)
        waits[pid] = wait


def _most_telling_leaf(waits: dict[int, Wait], leaves: list[int]) -> int:
    """A leaf that sleeps or idles does not stand for one of which nothing is known.

    But it stands for one that a sleeper of the tree may be about to serve: whose threads wait for each other, or who
    opens a FIFO.
    """
    if any(waits[pid].kind == "sleeping" for pid in leaves):
        leaves = [pid for pid in leaves if waits[pid].kind not in _SERVED_BY_A_SLEEPER] or leaves
    strong = [pid for pid in leaves if waits[pid].kind not in IN_THE_BACKGROUND and waits[pid].confidence != UNSURE]
    unsure = [pid for pid in leaves if waits[pid].confidence == UNSURE]
    among = strong or unsure or leaves
    telling = most_telling([waits[pid] for pid in among])
    return next(pid for pid in among if waits[pid] is telling)


def _guessed_circle(scene: Scene, waits: dict[int, Wait], more: str = "") -> Verdict:
    """Everybody waits for another, and one may be woken otherwise: that proves nothing. What is sure is said of one."""
    is_seen = all(
        thread.call is not None for pid in waits for thread in scene.alive[pid].threads.values() if thread.state in "SD"
    )
    if is_seen and not any(wait.confidence == UNSURE for wait in waits.values()):
        traced = [pid for pid, wait in waits.items() if wait.kind == "traced"]
        leaf = traced[0] if traced else _most_telling_leaf(waits, list(waits))
        others = [f"{scene.name(pid)}: {wait.text}" for pid, wait in waits.items() if pid != leaf][:_LEAVES_SHOWN]
        return _verdict(scene, waits[leaf], leaf, [more, *others] if more else others)
    facts = "; ".join(f"{scene.name(pid)}: {wait.text}" for pid, wait in list(waits.items())[:_LEAVES_SHOWN])
    return _verdict(scene, Wait("unknown", f"each process waits for another: {facts}", UNSURE), scene.after.root)


def _settle(scene: Scene, pid: int, wait: Wait) -> Wait:
    """From a kind of wait to a verdict: a sleeper that keeps waking polls."""
    if wait.kind == RUNNING_WAIT:
        return Wait("unknown", wait.text, UNSURE)
    if wait.kind == "sleeping":
        movement = scene.movement
        lock = polled_lock(scene, pid) if pid in movement.ran else None
        if lock is not None:
            return lock
        woke = pid in movement.ran and (wait.left_s is None or wait.left_s < _POLL_PERIOD_S)
        if woke or movement.born or movement.reaped_work:
            text = f"wakes and does next to nothing: {wait.text}"
            return Wait("polling", text, wait.confidence, is_timed=True, left_s=wait.left_s, hint=wait.hint)
    return wait


def _verdict(scene: Scene, wait: Wait, leaf: int, more: list[str] | None = None) -> Verdict:
    movement = scene.movement
    process = scene.after.processes.get(leaf)
    evidence = [wait.text, *(more or [])]
    living = counted(len(scene.alive), "process", "processes")
    dead = len(scene.after.processes) - len(scene.alive)
    zombies = f", {dead} ended and not waited for" if dead else ""
    evidence.append(
        f"CPU {movement.cpu_share:.1%} of a core, {counted(movement.storage_bytes, 'byte')} of storage in "
        f"{movement.seconds:.1f} s; {len(movement.ran & scene.alive.keys())} of {living} ran{zombies}"
    )
    return Verdict(
        wait.kind,
        wait.confidence,
        Leaf(leaf, process.program) if process is not None else None,
        tuple(evidence),
        alive=True,
        progress=movement.is_any,
        hint=wait.hint,
        unseen=tuple(f"{item.source}: {item.remedy}" for item in scene.after.unseen),
    )


def _output_held(scene: Scene, inner: Verdict) -> Verdict:
    """The direct child has exited; a descendant has its stdout or stderr open, and the agent waits for its end."""
    holders = [pid for pid in scene.context.output_holders if pid in scene.alive] or list(scene.alive)
    leaf = holders[0]
    names = scene.names(tuple(holders))
    facts = (
        f"the command exited with status {scene.context.exit_status}; its output is held open by {names}",
        f"it is {inner.name} ({group_of(inner.name)}): {inner.evidence[0]}",
        *inner.evidence[1:],
    )
    hint = first("output_held", pids=" ".join(map(str, holders)), commas=",".join(map(str, holders)))
    process = scene.alive[leaf]
    return Verdict(
        "output_held", MEASURED, Leaf(leaf, process.program), facts, True, inner.progress, hint, inner.unseen
    )
